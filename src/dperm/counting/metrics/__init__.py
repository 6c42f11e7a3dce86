"""The one catalogue of metrics, for evaluations, thresholds and searches. One file each, and a line here."""

from dperm.counting.metrics import accuracy, rates, area, losses, errors  # noqa: F401, I001 - in the order of their showing
from dperm.counting.metrics.base import Metric, register_metric, registered_metrics

__all__ = ["Metric", "register_metric", "registered_metrics"]
