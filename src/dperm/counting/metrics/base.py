"""A metric: one object that says what is counted, how it is estimated with an interval, and what it is called."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.counting.design import Integers, Owners, share_bits, shared_counts
from dperm.counting.estimates import UNIT, UNKNOWN, Estimate, Z, bounded
from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.unit import SHARE_BITS, Neighbours

Vector = NDArray[np.float64]

ENTRY_POINTS = "dperm.metrics"
"""The group of entry points by which an installed package makes its own metrics known."""


class Metric(ABC):
    """A number that says how good a model is.

    Attributes
    ----------
    name, title : str
        How files and people call it.
    classifies : bool
        Whether it judges classifiers, or regressions.
    share : bool
        Whether it lies between 0 and 1, and is drawn there.
    of_positive : bool
        Whether it is about the positive one of two classes, which the title then names.

    Guarantee
    ---------
    ``estimate`` sees noisy counts and public facts alone, so it costs nothing beside the release of the counts.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    classifies: ClassVar[bool] = True
    share: ClassVar[bool] = True
    of_positive: ClassVar[bool] = False

    @abstractmethod
    def estimate(self, counts: Any) -> Estimate | None:
        """From ``ClassCounts``, or ``MomentEstimates`` of a regression; None where it is not for such a model."""

    def exact(self, rows: Any, owners: Owners) -> Estimate | None:
        """From the rows themselves, for their owner alone; None where exact counts give it by ``estimate``.

        Rows of one person weigh as parts of one. Intervals take persons for independent, not their rows.
        """
        return None

    def at_edges(self, edges: EdgeCounts) -> Vector:
        """What a threshold at each edge is good for: larger is better. Only some metrics choose thresholds."""
        raise NotImplementedError

    def titled(self, classes: Sequence[Any]) -> str:
        """The title with the class that it is about."""
        return f"{self.title} of {classes[1]}" if self.of_positive else self.title


@dataclass(frozen=True, eq=False)
class EdgeCounts:
    """Noisy counts above every edge between bins: positive rows that are ``caught``, and ``alarms`` of others.

    ``wanted`` and ``unwanted`` are all of both. A denominator is taken to be ``least`` at the least.
    """

    caught: Vector
    alarms: Vector
    wanted: float
    unwanted: float
    least: float

    @classmethod
    def of(cls, noisy: Vector, noise: float) -> EdgeCounts:
        negative, positive = noisy.reshape(2, -1)
        caught, alarms = (np.cumsum(part[::-1])[::-1][1:] for part in (positive, negative))
        least = noise * math.sqrt(len(positive))
        return cls(
            caught, alarms, max(float(positive.sum()), least), max(float(negative.sum()), least), least
        )


class ValidationRows(Protocol):
    """The rows on which a candidate of a search is scored, by its model.

    ``labels`` are places among the classes, ``right`` says whether the label is the one that is predicted, and
    ``log_chances`` are those of the label of each row. ``errors`` are of a regression, from 0 to 1: in units of the
    declared range, and cut off there. ``binned`` is the public bin of each margin of two classes.
    """

    @property
    def labels(self) -> Integers: ...
    @property
    def right(self) -> NDArray[np.bool_]: ...
    @property
    def log_chances(self) -> Vector: ...
    @property
    def errors(self) -> Vector: ...
    def binned(self, bins: int) -> Integers: ...


@dataclass(frozen=True, kw_only=True)
class SearchFacts:
    """What is public of a search: its models, and how many rows, or persons, validate."""

    n_validation: int = 1
    n_classes: int | None = None
    has_probabilities: bool = False
    y_range: tuple[float, float] | None = None


class Score(ABC):
    """Mixed into a metric by which a search compares candidates: sums over rows that are released with noise.

    Guarantee
    ---------
    ``sums`` of two tables that differ in one row are at most ``sensitivity`` away from each other, in the Euclidean
    norm (docs/proofs/selection.md, Theorem 4). What a row adds depends on that row and on the model. A row that is not
    there adds nothing. With the ``shares`` of rows in their persons the same holds of one person with all rows: sums
    are of whole 2**-30ths, or coarser where so many persons would not fit a float, at most 1 of each.
    """

    scoring: ClassVar[str]

    def check(self, facts: SearchFacts) -> None:  # noqa: B027
        """Refuse models that it cannot compare."""

    @abstractmethod
    def n_sums(self, facts: SearchFacts) -> int: ...

    @abstractmethod
    def sensitivity(self, neighbours: Neighbours) -> float: ...

    @abstractmethod
    def sums(self, rows: ValidationRows, facts: SearchFacts, shares: Integers | None = None) -> Vector: ...

    @abstractmethod
    def score(self, sums: Vector, noise: float, facts: SearchFacts) -> float:
        """Larger is better. ``sums`` are over the number of rows, and ``noise`` is the deviation of each of them."""


class MeanScore(Score):
    """The mean of a number from 0 to 1 for each row."""

    @abstractmethod
    def numbers(self, rows: ValidationRows) -> Vector: ...

    def worst(self, facts: SearchFacts) -> float | None:
        """The loss of a row whose number is 0, where the score is minus a mean loss."""
        return None

    def n_sums(self, facts: SearchFacts) -> int:
        return 1

    def sensitivity(self, neighbours: Neighbours) -> float:
        return 1.0

    def sums(self, rows: ValidationRows, facts: SearchFacts, shares: Integers | None = None) -> Vector:
        found = self.numbers(rows)
        if shares is None:
            return np.array([math.fsum(found)])
        bits = share_bits(facts.n_validation)
        whole = np.floor(found * shares).astype(np.int64) >> (SHARE_BITS - bits)
        return np.array([whole.sum() / 2**bits])

    def score(self, sums: Vector, noise: float, facts: SearchFacts) -> float:
        worst = self.worst(facts)
        return float(sums[0]) if worst is None else worst * (float(sums[0]) - 1)


class CountScore(Score):
    """Every row is counted in one of ``n_sums`` cells."""

    @abstractmethod
    def cells(self, rows: ValidationRows, facts: SearchFacts) -> Integers: ...

    def sensitivity(self, neighbours: Neighbours) -> float:
        """A row that is replaced leaves one cell and comes to another."""
        return math.sqrt(neighbours.rows_changed)

    def sums(self, rows: ValidationRows, facts: SearchFacts, shares: Integers | None = None) -> Vector:
        cells = self.cells(rows, facts)
        bits = 0 if shares is None else share_bits(facts.n_validation)
        return shared_counts(cells, self.n_sums(facts), shares, bits) / 2.0**bits


def exact_mean(values: Vector, owners: Owners, within: tuple[float, float] = UNIT) -> Estimate:
    """The mean over owners, with an ordinary interval."""
    if owners.count < 2:
        return UNKNOWN
    means = owners.means(values)
    return around(float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means)), within)


def around(estimate: float, error: float, within: tuple[float, float]) -> Estimate:
    """An exact value with its standard error."""
    return bounded(estimate, (estimate - Z * error, estimate + Z * error), 0.0, within)


Kind = TypeVar("Kind", bound=type[Metric])
_METRICS: dict[str, Metric] = {}


def register_metric(kind: Kind) -> Kind:
    """Make a metric known by its name; usable as a class decorator."""
    metric = kind()
    known = _METRICS.setdefault(metric.name, metric)
    if type(known) is not kind:
        raise InvalidInput(f"a metric named {metric.name!r} is registered already; choose another name.")
    return kind


@cache
def load_installed() -> None:
    """Register, once, what installed packages declare. One that does not load is left out with a warning."""
    register_installed(ENTRY_POINTS, "metric", register_metric)


def library_metrics() -> frozenset[str]:
    """Names of what was registered so far, before a package can have added to it."""
    return frozenset(_METRICS)


def registered_metrics() -> dict[str, Metric]:
    """All of them by name, in the order in which they are shown; those of this library come first."""
    load_installed()
    return dict(_METRICS)
