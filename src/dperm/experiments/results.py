"""The table that a comparison returns, what it says of itself, and its summary."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.metrics import METRICS
from dperm.planning.rules import L2

NOT_PRIVATE = "not private"
"""The accounting of a baseline."""

RULE = "rule"
TUNINGS = (RULE, "search", "oracle")
"""How settings are chosen: a public rule, a private search, or the test rows themselves (not private)."""

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
        *((metric, pa.float64()) for metric in METRICS),
        ("seconds", pa.float64()),
        ("label", pa.string()),
        ("tuning", pa.string()),
        ("settings", pa.string()),
        ("l2", pa.float64()),
        ("certified", pa.bool_()),
    ]
)
"""``label`` names the configuration, ``settings`` is JSON of what was really used, ``seconds`` the training alone,
``l2`` the number that "auto" stood for, ``certified`` whether the plan was kept in the arithmetic of the batch (but for
the seeded noise of an evaluation); null where that is not known.

``accuracy``, ``auc`` and ``log_loss`` are of classes, ``r2``, ``rmse`` and ``mae`` of numbers; null for the others, and
where they are not defined: a single label or number among the held-out rows, or a model whose margins stand for no
probabilities.
"""

_METADATA_KEY = b"dperm"


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A part of the grid without results, and why."""

    mechanism: str
    accounting: str
    epsilon: float
    reason: str
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or label(self.mechanism, self.accounting)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The facts of a comparison that its spec and its results share.

    ``n_rows`` and ``max_rows`` count persons where these are the ``unit``. ``n_classes`` is 0 for a target of numbers,
    whose declared ``y_range`` stands for -1 to 1. ``folds`` is 1 when the rows were split once, into published parts
    for training and testing.
    """

    dataset: str
    loss: str
    n_rows: int
    n_features: int
    l2: L2
    x_norm: float
    delta: float
    folds: int
    repeats: int
    seed: int | None
    n_classes: int = 2
    y_range: tuple[float, float] | None = None
    neighbours: str = "replace-one"
    max_rows: int | None = None
    unit: str = "row"
    epsilons: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Study(Setup):
    """What was compared; it travels with the table of results as metadata.

    ``configurations`` has a dict with label, tuning, mechanism and candidates (their settings) for each; ``versions``
    and ``machine`` tell where the results were computed.
    """

    identity: str = ""
    configurations: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()

    def gaps(self) -> dict[tuple[str, str], list[float]]:
        """What was skipped: by the name of the configuration and the reason, the epsilons."""
        found: dict[tuple[str, str], list[float]] = {}
        for part in self.skipped:
            found.setdefault((part.name, part.reason), []).append(part.epsilon)
        return found

    @property
    def relation(self) -> str:
        """The relation in words, with the capacity where one was declared."""
        return self.neighbours + (
            "" if self.max_rows is None else f", at most {self.max_rows:,} {self.unit}s"
        )

    @classmethod
    def of(cls, results: pa.Table) -> "Study":
        """The study that a table of results came from, fresh or read from a file; of several, the first."""
        return cls.all_of(results)[0]

    @classmethod
    def all_of(cls, results: pa.Table) -> "list[Study]":
        """All studies of a table that :func:`combine` has made."""
        stored = (results.schema.metadata or {}).get(_METADATA_KEY)
        if stored is None:
            raise InvalidInput("these results carry no description; use a table that compare() has made.")
        return [cls._from_json(document) for document in json.loads(stored)]

    @classmethod
    def _from_json(cls, document: dict[str, Any]) -> "Study":
        known = {f.name for f in fields(cls)}
        found = {name: value for name, value in document.items() if name in known}
        found["skipped"] = tuple(Skipped(**skipped) for skipped in document["skipped"])
        for name in ("epsilons", "configurations"):
            found[name] = tuple(document.get(name, ()))
        found["y_range"] = None if document.get("y_range") is None else tuple(document["y_range"])
        return cls(**found)


def make_results(rows: Sequence[dict[str, Any]] | pa.Table, study: Study) -> pa.Table:
    """The rows as a table with the columns ``COLUMNS``, and the study as its metadata."""
    if isinstance(rows, pa.Table):
        table = rows.select(COLUMNS.names).cast(COLUMNS)
    else:
        table = pa.Table.from_pylist(list(rows), schema=COLUMNS)
    return _with_studies(table, [study])


def combine(tables: Sequence[pa.Table]) -> pa.Table:
    """Several tables of results as one; each study has a dataset and a loss of its own."""
    studies = [study for table in tables for study in Study.all_of(table)]
    if len({(study.dataset, study.loss) for study in studies}) < len(studies):
        raise InvalidInput(
            "two of the tables have the same dataset and loss; keep them in files of their own."
        )
    return _with_studies(pa.concat_tables([table.replace_schema_metadata(None) for table in tables]), studies)


def separate(results: pa.Table) -> list[pa.Table]:
    """The tables that were combined, one per study."""
    studies = Study.all_of(results)
    if len(studies) == 1:
        return [results]
    dataset, loss = (np.array(results[name].to_pylist()) for name in ("dataset", "loss"))
    return [
        _with_studies(results.filter(pa.array((dataset == study.dataset) & (loss == study.loss))), [study])
        for study in studies
    ]


def _with_studies(table: pa.Table, studies: Sequence[Study]) -> pa.Table:
    document = json.dumps([asdict(study) for study in studies])
    return table.replace_schema_metadata({_METADATA_KEY: document.encode()})


def label(mechanism: str, accounting: str) -> str:
    """How a mechanism with its accounting is called in tables and figures when nobody gave it a label."""
    return f"{mechanism}:paper" if accounting == "paper" else mechanism


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """One configuration over epsilon: the values of all its runs (folds of all repeats) at every epsilon.

    ``runs`` has a row with repeat and fold for each value. Where a value is not defined it is not a number.
    """

    label: str
    private: bool
    epsilons: NDArray[np.float64]
    accuracy: list[NDArray[np.float64]]
    auc: list[NDArray[np.float64]]
    log_loss: list[NDArray[np.float64]]
    objective: list[NDArray[np.float64]]
    noise_scale: list[NDArray[np.float64]]
    seconds: float
    tuning: str = RULE
    mechanism: str = ""
    accounting: str = ""
    runs: list[NDArray[np.int64]] = field(default_factory=list)
    r2: list[NDArray[np.float64]] = field(default_factory=list)
    rmse: list[NDArray[np.float64]] = field(default_factory=list)
    mae: list[NDArray[np.float64]] = field(default_factory=list)
    certified: bool | None = None

    def means(self, metric: str, factor: float = 1.0) -> dict[float, tuple[float, float]]:
        """Mean and standard error by epsilon; not numbers where a value is not defined."""
        values = zip(self.epsilons.tolist(), getattr(self, metric), self.runs, strict=True)
        return {epsilon: mean_and_error(factor * some, runs[:, 0]) for epsilon, some, runs in values}


def mean_and_error(values: NDArray[np.float64], repeats: NDArray[np.int64]) -> tuple[float, float]:
    """The mean of all runs, and the standard error of the means of the repeats; of one repeat, over its folds."""
    mean = float(values.mean())
    names = np.unique(repeats)
    if len(names) > 1:
        values = np.array([values[repeats == name].mean() for name in names])
    if len(values) < 2:
        return mean, float("nan")
    return mean, float(values.std(ddof=1) / np.sqrt(len(values)))


def curves(results: pa.Table) -> list[Curve]:
    """The results configuration by configuration, in the order of the table."""
    results = complete(results)
    mechanism, accounting, epsilon = (
        np.array(results[name].to_pylist()) for name in ("mechanism", "accounting", "epsilon")
    )
    labels = zip(results["label"].to_pylist(), mechanism, accounting, strict=True)
    names = np.array([given or label(*kind) for given, *kind in labels])
    value = {name: np.asarray(results[name].to_numpy(), np.float64) for name in METRICS}
    seconds = results["seconds"].to_numpy()
    certified = results["certified"].to_pylist()
    run = np.column_stack([results["repeat"].to_numpy(), results["fold"].to_numpy()])
    found = []
    for name in dict.fromkeys(names.tolist()):
        mine = names == name
        kept = [certified[i] for i in np.flatnonzero(mine)]
        first = int(mine.argmax())
        epsilons = np.unique(epsilon[mine])
        at = [mine & (epsilon == some) for some in epsilons]
        found.append(
            Curve(
                label=name,
                private=bool(accounting[first] != NOT_PRIVATE),
                epsilons=epsilons,
                **{metric: [value[metric][runs] for runs in at] for metric in METRICS},
                seconds=float(seconds[mine].mean()),
                tuning=results["tuning"][first].as_py() or RULE,
                mechanism=str(mechanism[first]),
                accounting=str(accounting[first]),
                runs=[run[runs] for runs in at],
                certified=None if None in kept else all(kept),
            )
        )
    return found


def complete(results: pa.Table) -> pa.Table:
    """The table with all columns: those that it does not have are null."""
    for column in COLUMNS:
        if column.name not in results.column_names:
            results = results.append_column(column, pa.nulls(len(results), column.type))
    return results
