"""Counting queries: what is counted of private rows, what that costs, and what is estimated from the noisy counts.

``evaluate``, ``mean_predictions``, ``tune_threshold`` and the scores of a private search all go this way.
"""
