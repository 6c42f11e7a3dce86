"""What a model predicts for private rows, on average, by declared group: one noisy release, and intervals."""

from dperm.evaluation.means.call import mean_predictions
from dperm.evaluation.means.figures import Mean
from dperm.evaluation.means.result import MeanPredictions, read_mean_predictions

__all__ = ["Mean", "MeanPredictions", "mean_predictions", "read_mean_predictions"]
