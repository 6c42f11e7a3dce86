"""Gradient perturbation: noise at every step."""
