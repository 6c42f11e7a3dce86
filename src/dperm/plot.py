"""Figures and pages of finished comparisons, and the spending of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from dperm.errors import InvalidInput
from dperm.experiments.figures import figure_of, save
from dperm.experiments.html import write_html
from dperm.experiments.metrics import METRICS
from dperm.ledger import Ledger
from dperm.ledger.overview import spending_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["curves", "save", "spending", "write_html"]


def curves(
    results: pa.Table,
    metric: str | Sequence[str] | None = None,
    *,
    highlight: Sequence[str] = (),
) -> Figure:
    """Draw every configuration over epsilon: its mean, and a band of one standard error over the repeats.

    One legend names all, the best at the largest epsilon first. Baselines are horizontal and named on their lines; the
    paper's accounting is dashed and lighter, in the colour of its mechanism; settings chosen on the test rows are
    dashed and marked as not private. Of more than eight mechanisms the best ones have colours and names, the others
    are grey and named below. Axes are cropped to what matters: what lies far behind the best private method is off the
    scale, where an arrow points to it. ``dperm compare`` and ``dperm plot`` draw this same figure.

    Parameters
    ----------
    results : pyarrow.Table
        As ``compare`` returns it, or read back from its Parquet file.
    metric : {"accuracy", "auc", "log_loss", "r2", "rmse", "mae", "objective", "noise_scale"}, or several of them
        A panel for each; by default the first three of classes and the next three of numbers, as far as there are
        values.
        If the exact minimiser ``none`` took part, the objective is drawn as what exceeds its own.
    highlight : labels, optional
        The configurations to show in colour, instead of the most accurate ones.

    Returns
    -------
    matplotlib.figure.Figure
        Write it with ``dperm.plot.save(figure, "curves.png")``.
    """
    if metric is None:
        return figure_of(results, None, highlight)
    metrics = (metric,) if isinstance(metric, str) else tuple(metric)
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise InvalidInput(f"metric must be one of {', '.join(METRICS)}, or several; got {metric!r}.")
    return figure_of(results, metrics, highlight)


def spending(ledger: Ledger) -> Figure:
    """Draw what the charges of a ledger add up to over time, a panel with its cap for each dataset.

    ``dperm ledger show --plot`` draws this same figure. Charges that are void are left out.

    Returns
    -------
    matplotlib.figure.Figure
        Write it with ``dperm.plot.save(figure, "spending.png")``.
    """
    return spending_figure(ledger.to_dict(full=False))
