"""Cross-validated comparisons and their figures: evaluations, never private releases."""
