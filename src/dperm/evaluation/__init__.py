"""How good a model is, on private test rows: one release of noisy counts, and intervals that know their noise."""

from dperm.counting.estimates import Estimate
from dperm.evaluation.evaluation import Evaluation, evaluate, read_evaluation

__all__ = ["Estimate", "Evaluation", "evaluate", "read_evaluation"]
