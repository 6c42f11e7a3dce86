"""Dense rows: in an array, in a memory map, and seen by each model through a map of its own."""
