"""Objective perturbation: one noise vector in the objective, and its minimiser."""
