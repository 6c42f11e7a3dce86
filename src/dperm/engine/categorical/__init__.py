"""Categorical rows: codes and a few numbers in place of one-hot floats."""
