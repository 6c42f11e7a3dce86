"""The one catalogue of metrics, for evaluations, thresholds and searches. A new one is a file, and its name here."""

from dperm.counting.metrics import confusion, area, losses, errors  # noqa: F401, I001 - in the order of their showing
from dperm.counting.metrics.base import Metric, library_metrics, register_metric, registered_metrics

__all__ = ["STANDARD", "Metric", "register_metric", "registered_metrics"]

STANDARD = library_metrics()
"""The names of the library's own metrics, which every evaluation has where they fit the model."""
