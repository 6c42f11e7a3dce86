"""Four small regression sets, how a table of numbers becomes rows of least squares, and its curvature. NOT PRIVATE."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dperm.datasets.registry import FOLDER_VARIABLE, find, read_checked
from dperm.errors import DataUnavailable
from dperm.losses import ClippedSquared
from dperm.problem import Problem
from dperm_papers.analysis.curvature import Curvature, measure_curvature

Matrix = NDArray[np.float64]

L2 = 1e-10  # the solver asks for some; the smallest published curvature is 90,000 times as large


def by_range(columns: Matrix) -> Matrix:
    """Each column from 0 at its minimum to 1 at its maximum."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    return np.asarray((columns - low) / (high - low))


def by_maximum(columns: Matrix) -> Matrix:
    """Each column over its largest absolute value."""
    return np.asarray(columns / np.abs(columns).max(axis=0))


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How a table of numbers becomes the rows of a least-squares problem."""

    name: str
    scale: Callable[[Matrix], Matrix]
    target_is_column: bool = False
    column_of_ones: bool = False

    def rows(self, found: RegressionSet) -> Matrix:
        columns = found.features
        if self.target_is_column:
            columns = np.column_stack([columns, found.target])
        scaled = self.scale(columns)
        return np.column_stack([scaled, np.ones(len(scaled))]) if self.column_of_ones else scaled


RANGE = Convention(name="by range", scale=by_range)
MAXIMUM = Convention(name="by maximum", scale=by_maximum)
MAXIMUM_ALL = Convention(name="by maximum, target too", scale=by_maximum, target_is_column=True)
CONVENTIONS = (
    RANGE,
    Convention(name="by range, target too", scale=by_range, target_is_column=True),
    Convention(name="by range, ones", scale=by_range, column_of_ones=True),
    MAXIMUM,
    MAXIMUM_ALL,
    Convention(name="by maximum, ones", scale=by_maximum, column_of_ones=True),
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file of numbers, and the convention with which it comes closest to the published figures."""

    file: str
    sha256: str
    target: str
    convention: Convention
    unused: tuple[str, ...] = ()


SOURCES = {
    "graduate admission": Source(
        file="graduate_admission.parquet",
        sha256="35e44302835ab976f3250e740dbd06f1f4517b46c942669bc14ed115035dbf10",
        target="Chance of Admit",
        unused=("Serial No.",),
        convention=RANGE,
    ),
    "sonar": Source(
        file="sonar.parquet",
        sha256="06ba2a6984055eb58ea5f0299d2eb739fee7b0279ce8bde6956283310ded8277",
        target="label",
        convention=MAXIMUM,
    ),
    "boston housing": Source(
        file="boston_housing.parquet",
        sha256="7ee0df1d3114db1aff5a554130294c94bbd38886edc6c6f164c932f380dd51cd",
        target="MEDV",
        convention=MAXIMUM,
    ),
    "motor insurance": Source(
        file="swedish_motor_insurance.parquet",
        sha256="e8b54924a1c77a18aabfbe7df8061162daa8b8f342ada6fc1a84be7fc37b7cbc",
        target="Payment",
        convention=MAXIMUM_ALL,
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionSet:
    """Unscaled columns; the two labels of a classification set are the targets -1 and 1."""

    name: str
    features: Matrix
    target: NDArray[np.float64]
    convention: Convention

    def curvature(self, convention: Convention, noise_scales: Sequence[float] = (1.0,)) -> Curvature:
        """At zero weights, of half the mean squared residual; the target is over its largest absolute value."""
        from dperm.engine import open_rows

        rows = convention.rows(self)
        target = by_maximum(self.target[:, None])[:, 0]
        n_rows, n_features = rows.shape
        x_norm = float(np.linalg.norm(rows, axis=1).max()) * (1 + 1e-9)  # no row is scaled down
        problem = Problem(
            loss=ClippedSquared(residual_bound=1e6),
            l2=L2,
            x_norm=x_norm,
            n_rows=n_rows,
            n_features=n_features,
        )
        return measure_curvature(open_rows(rows, target, problem), problem, noise_scales)


def load(name: str) -> RegressionSet:
    """One of the four sets of the table."""
    source = SOURCES[name]
    path = find(source.file)
    if path is None:
        raise DataUnavailable(
            f"the records of {name!r} were not found. Put {source.file} into a folder and set {FOLDER_VARIABLE} to it."
        )
    table = pq.read_table(io.BytesIO(read_checked(path, source.sha256)))
    names = [column for column in table.column_names if column not in (source.target, *source.unused)]
    features = np.column_stack([table[column].to_numpy().astype(np.float64) for column in names])
    target = np.asarray(table[source.target].to_pylist())
    if target.dtype.kind == "U":
        target = np.where(target == np.unique(target)[0], -1.0, 1.0)
    return RegressionSet(
        name=name, features=features, target=target.astype(np.float64), convention=source.convention
    )


def load_all() -> tuple[list[RegressionSet], list[str]]:
    found, missing = [], []
    for name in SOURCES:
        try:
            found.append(load(name))
        except DataUnavailable as error:
            missing.append(f"{name}: {error}")
    return found, missing
