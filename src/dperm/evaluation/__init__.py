"""How good a model is, on private test rows: one release of noisy counts, and intervals that know their noise."""

from dperm.evaluation.call import evaluate
from dperm.evaluation.intervals import Figure
from dperm.evaluation.result import Evaluation, evaluation_section, read_evaluation

__all__ = ["Evaluation", "Figure", "evaluate", "evaluation_section", "read_evaluation"]
