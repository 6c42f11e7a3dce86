"""The table that a comparison returns, what it says of itself, and its summary."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput

NOT_PRIVATE = "not private"
"""The accounting of a baseline."""

COLUMNS = pa.schema(
    [
        ("dataset", pa.string()),
        ("loss", pa.string()),
        ("mechanism", pa.string()),
        ("accounting", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("repeat", pa.int64()),
        ("fold", pa.int64()),
        ("accuracy", pa.float64()),
        ("objective", pa.float64()),
        ("noise_scale", pa.float64()),
        ("seconds", pa.float64()),
    ]
)

_METADATA_KEY = b"dperm"


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A part of the grid without results, and why."""

    mechanism: str
    accounting: str
    epsilon: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was compared; it travels with the table of results as metadata.

    ``folds`` is 1 when the rows were split once, into published parts for training and testing.
    """

    dataset: str
    loss: str
    n_rows: int
    n_features: int
    l2: float
    x_norm: float
    delta: float
    folds: int
    repeats: int
    seed: int | None
    n_classes: int = 2
    skipped: tuple[Skipped, ...] = ()

    @classmethod
    def of(cls, results: pa.Table) -> "Study":
        """The study that a table of results came from, fresh or read from a file."""
        stored = (results.schema.metadata or {}).get(_METADATA_KEY)
        if stored is None:
            raise InvalidInput("these results carry no description; use a table that compare() has made.")
        fields = json.loads(stored)
        return cls(**{**fields, "skipped": tuple(Skipped(**skipped) for skipped in fields["skipped"])})


def make_results(rows: Sequence[dict[str, Any]], study: Study) -> pa.Table:
    """The rows as a table with the columns ``COLUMNS``, and the study as its metadata."""
    table = pa.Table.from_pylist(list(rows), schema=COLUMNS)
    return table.replace_schema_metadata({_METADATA_KEY: json.dumps(asdict(study)).encode()})


def label(mechanism: str, accounting: str) -> str:
    """How a mechanism with its accounting is called in tables and figures."""
    return f"{mechanism}:paper" if accounting == "paper" else mechanism


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """One mechanism over epsilon: the values of all its runs (folds of all repeats) at every epsilon."""

    label: str
    private: bool
    epsilons: NDArray[np.float64]
    accuracy: list[NDArray[np.float64]]
    objective: list[NDArray[np.float64]]
    seconds: float


def curves(results: pa.Table) -> list[Curve]:
    """The results mechanism by mechanism, in the order of the table."""
    column = {name: np.array(results[name].to_pylist()) for name in ("mechanism", "accounting", "epsilon")}
    value = {name: results[name].to_numpy() for name in ("accuracy", "objective", "seconds")}
    found = []
    for mechanism, accounting in dict.fromkeys(zip(column["mechanism"], column["accounting"], strict=True)):
        mine = (column["mechanism"] == mechanism) & (column["accounting"] == accounting)
        epsilons = np.unique(column["epsilon"][mine])
        at = [mine & (column["epsilon"] == epsilon) for epsilon in epsilons]
        found.append(
            Curve(
                label=label(mechanism, accounting),
                private=accounting != NOT_PRIVATE,
                epsilons=epsilons,
                accuracy=[value["accuracy"][runs] for runs in at],
                objective=[value["objective"][runs] for runs in at],
                seconds=float(value["seconds"][mine].mean()),
            )
        )
    return found
