"""Sparse rows in memory."""
