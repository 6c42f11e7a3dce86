"""An evaluation as a figure of matplotlib."""

from __future__ import annotations

from typing import Any

from dperm.evaluation.found import Found


def plot(found: Found, ax: Any = None) -> Any:
    """The ROC curve with its band; without one, the figures from 0 to 1 with their intervals."""
    if ax is None:
        from matplotlib.figure import Figure as Canvas

        ax = Canvas(figsize=(4.2, 4.0), layout="constrained").add_subplot()
    return _roc(found, ax) if found.roc else _bars(found, ax)


def _roc(found: Found, ax: Any) -> Any:
    known = [
        (point.false_positive_rate.estimate, *point.true_positive_rate.to_dict().values())
        for point in found.roc
        if point.false_positive_rate.known and point.true_positive_rate.known
    ]
    across, middle, low, high, _ = zip((0.0,) * 5, *known, (1.0,) * 5, strict=True)
    ax.fill_between(across, low, high, alpha=0.25, linewidth=0)
    ax.plot(across, middle)
    ax.plot([0, 1], [0, 1], linestyle=":", color="grey")
    ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    return ax


def _bars(found: Found, ax: Any) -> Any:
    shown = {found.title(name): figure for name, figure in found.metrics.items() if figure.known}
    for place, figure in enumerate(shown.values()):
        ax.plot([figure.low, figure.high], [place, place], linewidth=3, alpha=0.4, color="C0")
        ax.plot([figure.estimate], [place], marker="o", color="C0")
    ax.set_yticks(range(len(shown)), list(shown))
    ax.invert_yaxis()
    ax.set_xlabel("estimate and 95 % interval")
    return ax
