"""Features against features: a small table of rows for every kind, one function for every act, and what is refused.

A cell is one choice of every feature. It works, and then what it wrote verifies and what it spent is in the ledger, or
it is refused with a reason before anything is spent or written. ``REFUSALS`` is read and changed by hand: a cell that
turns from one into the other fails its test.
"""

from __future__ import annotations

import itertools
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

import dperm
from dperm import Budget, Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dperm.data import open_shards, write_shards
from dperm.errors import BudgetExceeded, DpermError, PrivacyWarning
from dperm.release import page, read_release
from dperm.schema import Schema, encode, encode_rows

N_PERSONS, N_ROWS = 200, 500
FIT, BESIDE = Budget(1.0, 1e-6), Budget(0.5, 1e-7)
CAP = Budget(20.0, 1e-3)
CLASSIFY, REGRESS = "classification", "regression"
FEATURES = {
    "relation": ("replace-one", "add-remove"),
    "unit": ("row", "person mean", "person sum"),
    "weights": ("none", "class", "sample"),
    "rows": ("dense", "sparse", "categorical", "shards"),
    "act": (
        *("fit", "threshold", "evaluate", "means", "search"),
        *("inference", "save", "verify", "report", "ledger"),
    ),
}


class Cell(NamedTuple):
    """One choice of every feature."""

    relation: str
    unit: str
    weights: str
    rows: str
    act: str
    task: str = CLASSIFY

    def __str__(self) -> str:
        return ", ".join(self)


def every_cell() -> Iterator[Cell]:
    """All cells; a regression has neither classes to weigh nor a threshold."""
    for task, *choice in itertools.product((CLASSIFY, REGRESS), *FEATURES.values()):
        cell = Cell(*choice, task)
        if task == CLASSIFY or (cell.weights != "class" and cell.act != "threshold"):
            yield cell


def covering(cells: Sequence[Cell]) -> list[Cell]:
    """Few of the cells, among which every pair of choices that occurs in one of all occurs; greedy, always the same."""

    def pairs(cell: Cell) -> set[Any]:
        return set(itertools.combinations(enumerate(cell), 2))

    left = set().union(*map(pairs, cells))
    chosen: list[Cell] = []
    rest = {cell: pairs(cell) for cell in cells}
    while left:
        best = max(rest, key=lambda cell: len(rest[cell] & left))
        chosen.append(best)
        left -= rest.pop(best)
    return chosen


# What is refused.


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Cells with these choices are refused, in these words; an empty list of choices stands for all."""

    words: str
    why: str
    relation: tuple[str, ...] = ()
    unit: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    task: tuple[str, ...] = ()

    def covers(self, cell: Cell) -> bool:
        return all(
            not getattr(self, name) or getattr(cell, name) in getattr(self, name) for name in Cell._fields
        )


PERSONS = ("person mean", "person sum")
REFUSALS = (
    Refusal(
        act=("search",),
        weights=("sample",),
        words="a search takes no sample_weight",
        why="the scores of a search count rows, not weights. Class weights are fine.",
    ),
    Refusal(
        act=("search",),
        rows=("shards",),
        words="parts rows at random .* which rows in shards cannot be",
        why="a search parts the rows at random. Search on an array, or choose settings on public rows.",
    ),
    Refusal(
        weights=("sample",),
        rows=("shards",),
        words="sample_weight needs y as an array",
        why="shards keep labels and no weights. Give y as an array beside shards without labels.",
    ),
    Refusal(
        act=("inference",),
        unit=PERSONS,
        words="the rows of one person are not independent of each other",
        why="rows of one person are not independent of each other, so intervals would be too narrow.",
    ),
    Refusal(
        act=("inference",),
        weights=("class", "sample"),
        words="rows that weigh more than others",
        why="intervals rest on an equality that holds where all rows weigh the same.",
    ),
    Refusal(
        act=("threshold", "evaluate", "means"),
        unit=PERSONS,
        rows=("shards",),
        words="rows that belong to persons are not counted in shards",
        why="ids in shards are read by `fit` alone. Give the rows as an array, with `groups`.",
    ),
    Refusal(
        act=("threshold", "evaluate", "means"),
        relation=("add-remove",),
        rows=("shards",),
        words="not on shards: there the rounding of a row depends on its place",
        why="in shards a row is rounded by its place, which moves when another comes or goes. Give an array.",
    ),
)


def refusal_of(cell: Cell) -> Refusal | None:
    return next((refusal for refusal in REFUSALS if refusal.covers(cell)), None)


# The rows, made once.

RNG = np.random.default_rng(7)
PERSON = np.concatenate([np.arange(N_PERSONS), RNG.integers(0, N_PERSONS, N_ROWS - N_PERSONS)])
AGE, TOWN = RNG.uniform(18, 90, N_ROWS), RNG.choice(["north", "south"], N_ROWS)
VALUE = np.clip((AGE - 54) / 60 + 0.3 * (TOWN == "south") + 0.2 * RNG.normal(size=N_ROWS), -1, 1)
LABEL = np.where(VALUE > 0, "yes", "no")
WEIGHT = RNG.uniform(0.5, 2.0, N_ROWS)
IDS = np.array([f"p{one}" for one in PERSON])


def schema_of(task: str, by_person: bool) -> Schema:
    target = (
        {"name": "label", "classes": ["no", "yes"]}
        if task == CLASSIFY
        else {"name": "value", "range": [-1, 1]}
    )
    features = {"age": {"range": [18, 90]}, "town": {"categories": ["north", "south"]}}
    return Schema.from_dict(
        {**({"person": "who"} if by_person else {}), "target": target, "features": features}
    )


TABLE = pa.table({"age": AGE, "town": TOWN, "label": LABEL, "value": VALUE, "who": IDS})


@cache
def rows_of(kind: str, task: str, by_person: bool) -> Any:
    schema = schema_of(task, by_person)
    if kind == "shards":
        folder = Path(mkdtemp(prefix="dperm-matrix-"))
        write_shards(TABLE, schema, folder / "shards", rows_per_shard=1024)
        return open_shards(folder / "shards")
    if kind == "categorical":
        return encode_rows(TABLE, schema)
    dense = encode(TABLE, schema)
    return csr_array(dense) if kind == "sparse" else dense


# The acts. Each spends from the ledger, writes into the folder, and says what that was.


@dataclass(frozen=True, kw_only=True)
class Spent:
    """One release: what it claims, and the file that says so, if one was written."""

    budget: Budget
    file: Path | None = None


class Bench:
    """A ledger and a folder for one cell, and the estimator with the cell's settings."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell, self.folder = cell, folder
        self.by_person = cell.unit in PERSONS
        self.unit = "person" if self.by_person else "row"
        self.ledger = self._opened(folder)
        self.rows = rows_of(cell.rows, cell.task, self.by_person)
        in_shards = cell.rows == "shards"
        self.y: Any = None if in_shards else LABEL if cell.task == CLASSIFY else VALUE
        self.groups = {"groups": IDS} if self.by_person and not in_shards else {}
        self.weights = {"sample_weight": WEIGHT} if cell.weights == "sample" else {}
        self.bound: dict[str, Any] = {}
        if cell.relation == "add-remove":
            self.bound = {"max_rows": 2 * (N_PERSONS if self.by_person else N_ROWS)}

    def estimator(self, **more: Any) -> Any:
        settings: dict[str, Any] = {"neighbours": self.cell.relation, **self.bound, **more}
        settings |= {"epsilon": FIT.epsilon, "delta": FIT.delta}
        if self.cell.weights == "sample":
            settings["sample_weight_bound"] = 2.0
        if self.cell.weights == "class":
            settings["class_weight"] = {"no": 1.0, "yes": 2.0}
        if self.cell.unit == "person sum":
            settings |= {"person_loss": "sum", "max_rows_per_person": 3}
        if self.cell.task == REGRESS:
            return PrivateLinearRegression(y_range=(-1, 1), **settings)
        return PrivateLogisticRegression(classes=["no", "yes"], **settings)

    def fit(self, **more: Any) -> Any:
        model = self.estimator(ledger=self.ledger, **more)
        return model.fit(self.rows, self.y, **self.weights, **self.groups)

    def fitted(self) -> Any:
        """The model of this choice of rows and settings, paid for by a ledger; fitted once for all acts."""
        known = (*self.cell[:4], self.cell.task)
        if known not in _FITTED:
            self.ledger = self._opened(Path(mkdtemp(prefix="dperm-matrix-")))
            model = self.fit()
            _FITTED[known] = pickle.dumps(model), self.ledger.path, self.ledger.path.read_bytes()
        kept, path, paid = _FITTED[known]
        path.write_bytes(paid)
        model = pickle.loads(kept)
        self.ledger = Ledger(path, expect=model)
        return model

    def _opened(self, folder: Path) -> Ledger:
        relation = self.cell.relation
        return Ledger.create(
            folder / "budget.db", CAP.epsilon, CAP.delta, neighbours=relation, unit=self.unit
        )

    def saved(self, model: Any) -> Path:
        path = self.folder / "model.json"
        dperm.save_model(model, path)
        return path


_FITTED: dict[tuple[str, ...], tuple[bytes, Path, bytes]] = {}


def fit(bench: Bench) -> list[Spent]:
    model = bench.fit()
    assert np.isfinite(model.coef_).all()
    assert model.privacy_.guarantee == {"epsilon": FIT.epsilon, "delta": FIT.delta}
    return [Spent(budget=FIT)]


def threshold(bench: Bench) -> list[Spent]:
    model = bench.fitted()
    tuned = model.tune_threshold(
        bench.rows, bench.y, epsilon=BESIDE.epsilon, delta=BESIDE.delta, ledger=bench.ledger, **bench.groups
    )
    whole = Budget(FIT.epsilon + BESIDE.epsilon, FIT.delta + BESIDE.delta)
    assert tuned.privacy_.guarantee == {"epsilon": whole.epsilon, "delta": whole.delta}
    path = bench.saved(tuned)
    check_file(path, whole, bench)
    return [Spent(budget=FIT), Spent(budget=BESIDE)]


def evaluate(bench: Bench) -> list[Spent]:
    found = dperm.evaluate(
        bench.fitted(), bench.rows, bench.y, BESIDE, neighbours=bench.cell.relation, **bench.bound,
        **bench.groups, ledger=bench.ledger,
    )  # fmt: skip
    assert all(np.isfinite(figure.estimate) for figure in found.metrics.values() if figure.known)
    return [Spent(budget=FIT), beside(bench, found, "evaluation.json")]


def means(bench: Bench) -> list[Spent]:
    found = dperm.mean_predictions(
        bench.fitted(), bench.rows, BESIDE, neighbours=bench.cell.relation, **bench.bound, **bench.groups,
        ledger=bench.ledger,
    )  # fmt: skip
    assert found.overall.mean.known
    return [Spent(budget=FIT), beside(bench, found, "means.json")]


def beside(bench: Bench, found: Any, name: str) -> Spent:
    path = bench.folder / name
    found.save(path)
    return Spent(budget=BESIDE, file=path)


def search(bench: Bench) -> list[Spent]:
    """A winner's file claims nothing: only the search knows what it cost."""
    found = PrivateSearchCV(
        bench.estimator(), {"l2": [0.01, 0.1]}, epsilon=FIT.epsilon, delta=FIT.delta, mean_candidates=3,
        ledger=bench.ledger,
    ).fit(bench.rows, bench.y, **bench.weights, **bench.groups)  # fmt: skip
    assert found.privacy_.guarantee == {"epsilon": FIT.epsilon, "delta": FIT.delta}
    assert found.privacy_.statement["unit"] == f"one {bench.unit}"
    verdict = dperm.verify(bench.saved(found.best_estimator_))
    assert verdict.accepted, str(verdict)
    assert not verdict.ok
    return [Spent(budget=FIT)]


def inference(bench: Bench) -> list[Spent]:
    model = bench.fit(inference=True)
    intervals = model.confidence_intervals()
    assert len(intervals.rows) >= 3
    return [Spent(budget=FIT, file=bench.saved(model))]


def save(bench: Bench) -> list[Spent]:
    model = bench.fitted()
    path = bench.saved(model)
    again = dperm.load_model(path)
    rows = rows_of("dense", bench.cell.task, bench.by_person)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.privacy_ == model.privacy_
    return [Spent(budget=FIT, file=path)]


def verify(bench: Bench) -> list[Spent]:
    path = bench.saved(bench.fitted())
    assert not dperm.verify(path, max_epsilon=FIT.epsilon / 2).ok
    assert dperm.verify(path, max_epsilon=FIT.epsilon, max_delta=FIT.delta, unit=bench.unit).ok
    assert dperm.verify(path, unit="person").ok is bench.by_person
    return [Spent(budget=FIT, file=path)]


def report(bench: Bench) -> list[Spent]:
    path = bench.saved(bench.fitted())
    release = read_release(path, ledger=bench.ledger.path)
    text = page(release)
    assert release.unit == bench.unit
    assert f"one {bench.unit}" in text
    return [Spent(budget=FIT, file=path)]


def ledger(bench: Bench) -> list[Spent]:
    """A second fit adds up; one beyond the cap is refused and counts nothing."""
    model = bench.fitted()
    path = bench.saved(bench.fit())
    try:
        model.set_params(epsilon=45.0).fit(bench.rows, bench.y, **bench.weights, **bench.groups)
    except BudgetExceeded:
        pass
    else:
        raise AssertionError("a fit beyond the cap was not refused")
    return [Spent(budget=FIT), Spent(budget=FIT, file=path)]


ACTS: dict[str, Callable[[Bench], list[Spent]]] = {
    act.__name__: act
    for act in (fit, threshold, evaluate, means, search, inference, save, verify, report, ledger)
}


# The judgement.


def check_file(path: Path, budget: Budget, bench: Bench) -> None:
    """The file verifies, and claims what was paid for, for the unit and the relation of the cell."""
    verdict = dperm.verify(path)
    assert verdict.ok, f"{path.name}: {verdict}"
    assert verdict.guarantee == {"epsilon": budget.epsilon, "delta": budget.delta}, path.name
    assert (verdict.unit, verdict.relation) == (f"one {bench.unit}", bench.cell.relation), path.name


def check_ledger(spent: Sequence[Spent], bench: Bench) -> None:
    """As many charges as releases, each at the price that is claimed, for the unit of the cell, and their total."""
    entries = [entry for entry in bench.ledger.entries() if entry.counts]
    assert len(entries) == len(spent), [entry.kind for entry in entries]
    for entry, release in zip(entries, spent, strict=True):
        claimed = release.budget
        assert entry.unit == bench.unit
        assert entry.cost.delta(claimed.epsilon) <= claimed.delta * (1 + 1e-9)
        assert entry.cost.epsilon(claimed.delta) >= 0.5 * claimed.epsilon, "a charge is far below its claim"
    whole = [release.budget for release in spent]
    together = bench.ledger.spent()
    assert max(entry.cost.epsilon(CAP.delta) for entry in entries) <= together * (1 + 1e-9)
    assert together <= sum(budget.epsilon for budget in whole) * (1 + 1e-9)


def outcome(cell: Cell, folder: Path) -> str | None:
    """None if the cell works, and otherwise the words by which it is refused; anything else is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        bench = Bench(cell, folder)
        before = {path.name for path in folder.iterdir() if path.name.endswith(".json")}
        releases = _releases_before(cell)
        said, spent = None, []
        try:
            spent = ACTS[cell.act](bench)
        except DpermError as error:
            said = str(error)
        if said is not None:
            counted = [entry for entry in bench.ledger.entries() if entry.counts]
            assert len(counted) <= releases, f"refused after a charge: {said}"
            written = {path.name for path in folder.iterdir() if path.name.endswith(".json")}
            assert written == before, f"refused, and {written} was written"
            assert len(said) > 30, "a refusal without a reason"
            return said
        for release in spent:
            if release.file is not None:
                check_file(release.file, release.budget, bench)
        check_ledger(spent, bench)
    return None


def _releases_before(cell: Cell) -> int:
    """What is released before the act itself: a model, for those that need one."""
    return 1 if cell.act in ("threshold", "evaluate", "means") else 0


def check(cell: Cell, folder: Path) -> str:
    """``works`` or ``refused``, as it should be."""
    said, expected = outcome(cell, folder), refusal_of(cell)
    if expected is None:
        assert said is None, f"{cell} works no longer: {said}"
        return "works"
    assert said is not None, f"{cell} is not refused any more; see REFUSALS"
    assert re.search(expected.words, said), f"{cell} is refused in other words: {said}"
    return "refused"


assert [part.name for part in fields(Refusal)][2:] == list(Cell._fields)
