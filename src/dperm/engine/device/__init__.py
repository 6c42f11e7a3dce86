"""Rows in tensors, on a GPU or wherever torch computes."""
