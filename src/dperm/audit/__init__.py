"""Does the code keep what the plan promises? Replays, statistical audits, and controls that both must catch."""
