"""Sufficient statistics: noise on sums over the rows, then any computation on what was released."""
