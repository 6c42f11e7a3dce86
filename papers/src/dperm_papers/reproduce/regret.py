"""How far a rule stays behind in every cell (set and epsilon), and the choice of a rule with a set left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dperm.errors import InvalidInput
from dperm.experiments.results import Curve

BETTER: Mapping[str, float] = {"accuracy": 1.0, "auc": 1.0, "r2": 1.0, "log_loss": -1.0}
"""Whether more of a metric is better, or less."""

WEIGHTS: Mapping[str, float] = {"accuracy": 100.0, "log_loss": 10.0}
"""What a rule is chosen by: points of accuracy, plus ten times the log loss."""

Cell = tuple[str, float]
"""A data set and an epsilon."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry:
    """What one method reached on one set: the mean of each metric by epsilon."""

    dataset: str
    label: str
    private: bool
    means: Mapping[str, Mapping[float, float]]

    @classmethod
    def of(cls, dataset: str, curve: Curve) -> "Entry":
        """The entry of a curve of results; a metric is left out where it is not defined."""
        means: dict[str, dict[float, float]] = {}
        for metric in ("accuracy", "auc", "log_loss"):
            values = zip(curve.epsilons.tolist(), getattr(curve, metric), strict=True)
            means[metric] = {
                epsilon: float(runs.mean()) for epsilon, runs in values if np.isfinite(runs).all()
            }
        return cls(dataset=dataset, label=curve.label, private=curve.private, means=means)


def means_of(entries: Sequence[Entry], label: str, metric: str) -> dict[Cell, float]:
    """One method over all cells in which it has this metric."""
    return {
        (entry.dataset, epsilon): mean
        for entry in entries
        if entry.label == label
        for epsilon, mean in entry.means.get(metric, {}).items()
    }


def best_of(entries: Sequence[Entry], metric: str, labels: Sequence[str]) -> dict[Cell, float]:
    """The best of these methods in each cell: an oracle, which no private rule is."""
    best: dict[Cell, float] = {}
    for label in labels:
        for cell, mean in means_of(entries, label, metric).items():
            known = best.get(cell)
            if known is None or BETTER[metric] * (mean - known) > 0:
                best[cell] = mean
    return best


def regrets(rule: Mapping[Cell, float], other: Mapping[Cell, float], metric: str) -> dict[Cell, float]:
    """How much better the other is, in the cells that both have; negative where the rule is ahead."""
    return {cell: BETTER[metric] * (other[cell] - mean) for cell, mean in rule.items() if cell in other}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Regrets of some cells: their mean, and the largest with its set."""

    mean: float
    worst: float
    dataset: str


def summarise(found: Mapping[Cell, float], epsilons: Sequence[float] | None = None) -> Summary | None:
    """Mean and worst over the cells at these epsilons, or at all; None where there is no such cell."""
    chosen = {cell: value for cell, value in found.items() if epsilons is None or cell[1] in epsilons}
    if not chosen:
        return None
    worst = max(chosen, key=chosen.__getitem__)
    return Summary(mean=float(np.mean(list(chosen.values()))), worst=chosen[worst], dataset=worst[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class LeftOut:
    """The choice that was made without a set, and its regrets on that set by metric."""

    dataset: str
    candidate: str
    regrets: Mapping[str, Mapping[Cell, float]]


def leave_one_out(
    results: pa.Table, metrics: Sequence[str], weights: Mapping[str, float] = WEIGHTS
) -> list[LeftOut]:
    """For every set, the candidate that is best on all others, and how far it stays behind on the one left out.

    Parameters
    ----------
    results : pyarrow.Table
        Columns ``dataset``, ``epsilon``, ``candidate`` and the metrics; one row for each candidate in each cell. A
        candidate is what the rule could be, such as one setting of all its constants.
    metrics : list of str
        Whose regrets are reported: against the best candidate of the same cell, an oracle.
    weights : dict
        A candidate is chosen by the least mean over all cells of the other sets of these metrics' weighted regrets;
        of equals, the first.

    Returns
    -------
    list of LeftOut
        One for each set. ``regrets_left_out`` and ``summarise`` make tables of them.
    """
    datasets, epsilons, candidates = (
        list(dict.fromkeys(results[name].to_pylist())) for name in ("dataset", "epsilon", "candidate")
    )
    if len(datasets) < 2:
        raise InvalidInput("leaving one data set out needs at least two of them.")
    found = {metric: _regret_table(results, metric) for metric in {*metrics, *weights}}
    score = np.sum([weight * found[metric] for metric, weight in weights.items()], axis=0).mean(axis=1)
    left_out = []
    for s, dataset in enumerate(datasets):
        c = int(np.delete(score, s, axis=0).mean(axis=0).argmin())
        mine = {
            metric: {(dataset, epsilon): float(found[metric][s, e, c]) for e, epsilon in enumerate(epsilons)}
            for metric in metrics
        }
        left_out.append(LeftOut(dataset=dataset, candidate=str(candidates[c]), regrets=mine))
    return left_out


def _regret_table(results: pa.Table, metric: str) -> np.ndarray:
    """Regrets against the best candidate of the cell: sets by epsilons by candidates."""
    places = []
    for name in ("dataset", "epsilon", "candidate"):
        values = results[name].to_pylist()
        order = {value: place for place, value in enumerate(dict.fromkeys(values))}
        places.append(np.array([order[value] for value in values]))
    shape = tuple(int(place.max()) + 1 for place in places)
    table = np.full(shape, np.nan)
    table[tuple(places)] = BETTER[metric] * results[metric].to_numpy()
    if len(results) != table.size or not np.isfinite(table).all():
        raise InvalidInput(
            f"every candidate needs one finite {metric} at every epsilon of every data set, once; something is "
            "missing, there twice, or not a number."
        )
    return np.asarray(table.max(axis=2, keepdims=True) - table)


def regrets_left_out(found: Sequence[LeftOut], metric: str) -> dict[Cell, float]:
    """The regrets of all sets, each with the choice that was made without it."""
    return {cell: value for one in found for cell, value in one.regrets[metric].items()}
