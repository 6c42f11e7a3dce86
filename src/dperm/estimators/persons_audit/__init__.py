"""Does the code keep what it promises a person with many rows? Replays, an attack, and controls that must fail."""
