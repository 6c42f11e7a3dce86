"""One budget over many fits, kept in a file that outlives copies, processes and crashes."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, Unsupported
from dperm.ledger.store import create, transaction
from dperm.neighbours import Neighbours
from dperm.privacy.budget import EPSILON_RANGE, Budget
from dperm.privacy.cost import Cost, compose

DEFAULT = "default"
_LONGEST_TEXT = 200
_COUNTED = ("open", "spent")
_VOID = "void"
_WAY_OUT = (
    "Every fit is a release, those inside GridSearchCV or cross_val_score too. To tune, use PrivateSearchCV, which "
    "pays for a whole search at once; otherwise fit once, or ask for a smaller epsilon."
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge. ``open`` and ``spent`` both count; ``void`` was refused before training and does not."""

    id: int
    time: str
    dataset: str
    partition: str | None
    label: str
    mechanism: str
    cost: Cost
    status: str

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "cost": self.cost.to_dict()}


class Ledger:
    """A handle on a budget kept in a file.

    Parameters
    ----------
    path : path
        The file. A new one is made if there is none and both caps are given.
    epsilon, delta : float
        The cap of the dataset "default". For an existing file leave them out, or give those it has.
    neighbours : {"replace-one", "add-remove"}
        The relation of every guarantee in this ledger; "replace-one" for a new file by default.
    adaptive_costs : bool
        Whether the price of a charge may be chosen after looking at earlier results. The total of Gaussian charges
        allows it; a ledger that promises it takes no others. False for a new file by default.

    Guarantee
    ---------
    All charges of a dataset together meet its cap (docs/proofs/ledger.md). A charge is on disk before training
    begins, so a crash counts too much, never too little. Copies, pickles, forks and other processes all
    mean the same file; two of them never overspend.

    Assumes
    -------
    Every release from the dataset is charged here. Nobody edits the file or puts an old copy in its place. Unless
    ``adaptive_costs``, what a charge costs was decided without looking at earlier results.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str | None = None,
        adaptive_costs: bool | None = None,
    ) -> None:
        try:
            self.path = Path(path).resolve()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"path must name a file: {error}.") from None
        self._id: str | None = None
        self._seen = 0
        self._part: tuple[str, str] | None = None
        if (epsilon is None) != (delta is None):
            raise InvalidInput("Give both epsilon and delta, or neither for a ledger that exists.")
        cap = None if epsilon is None or delta is None else Budget(epsilon, delta)
        relation = None if neighbours is None else Neighbours.parse(neighbours)
        if cap is not None and not self.path.exists():
            facts = {
                "id": secrets.token_hex(16),
                "created": _now(),
                "neighbours": (relation or Neighbours.REPLACE_ONE).value,
                "adaptive_costs": json.dumps(bool(adaptive_costs)),
                "fixed_membership": "[]",
            }
            create(self.path, facts, DEFAULT, cap.epsilon, cap.delta)
        elif not self.path.exists():
            raise InvalidInput(f"There is no ledger at {self.path}; give epsilon and delta to create one.")
        with self._open() as connection:
            facts = _facts(connection)
            stored = _cap(connection, DEFAULT)
        self.neighbours = Neighbours.parse(facts["neighbours"])
        self.adaptive_costs = facts["adaptive_costs"] == "true"
        asked = {"cap": cap, "neighbours": relation, "adaptive_costs": adaptive_costs}
        there = {"cap": stored, "neighbours": self.neighbours, "adaptive_costs": self.adaptive_costs}
        for name, value in asked.items():
            if value is not None and value != there[name]:
                raise InvalidInput(
                    f"{self.path.name} exists already with {name} = {there[name]}, and {value} was asked for. Open it "
                    "without caps and settings, lower its cap with set_cap, or choose another file."
                )

    @property
    def id(self) -> str:
        """The identity of the ledger, written in its file when it was made."""
        assert self._id is not None
        return self._id

    def charge(
        self,
        cost: Cost,
        *,
        dataset: str | None = None,
        partition: str | None = None,
        neighbours: str | None = None,
        label: str = "",
        mechanism: str = "",
    ) -> int:
        """Write a charge to disk and return its id, or refuse it. Call it before the release is made.

        Raises
        ------
        BudgetExceeded
            If the charge and all earlier ones together exceed the cap. Nothing is written.
        NotCertified
            If the release has no finite price.
        """
        return self._charge(cost, dataset, partition, neighbours, label, mechanism, "spent")

    @contextmanager
    def charge_before(
        self,
        cost: Cost,
        *,
        dataset: str | None = None,
        neighbours: str | None = None,
        label: str = "",
        mechanism: str = "",
    ) -> Iterator[str]:
        """Charge, then let the block check the form of the rows; no number computed from them may leave it.

        If the block raises an ordinary error the charge is void: nothing was trained. A crash, an interrupt or the
        end of the block makes it final. The value is the entry as a certificate names it.
        """
        number = self._charge(cost, dataset, None, neighbours, label, mechanism, "open")
        try:
            yield f"ledger {self.id}, charge {number}"
        except Exception:
            self._settle(number, _VOID)
            raise
        self._settle(number, "spent")

    def set_cap(self, dataset: str, epsilon: float, delta: float) -> None:
        """Give a new dataset its cap, or lower the cap of one that exists.

        Each dataset has a purse of its own: name two only if nobody is in both.
        """
        cap = Budget(epsilon, delta)
        _check_text("dataset", dataset)
        with self._open() as connection:
            if dataset in _datasets(connection):
                old = _cap(connection, dataset)
                if cap.epsilon > old.epsilon or cap.delta > old.delta:
                    raise InvalidInput(
                        f"The cap of {dataset!r} is {old} and can only be lowered; {cap} was asked for."
                    )
                if not all(total.fits(cap) for total in _totals(connection, dataset)):
                    raise InvalidInput(f"More than {cap} has been spent on {dataset!r} already.")
                connection.execute(
                    "UPDATE datasets SET epsilon = ?, delta = ? WHERE name = ?",
                    (cap.epsilon, cap.delta, dataset),
                )
            else:
                connection.execute("INSERT INTO datasets VALUES (?, ?, ?)", (dataset, cap.epsilon, cap.delta))

    def declare_partitions(
        self, names: Sequence[str], *, dataset: str | None = None, fixed_membership: bool = False
    ) -> None:
        """Declare parts of a dataset that share no row. Charges to different parts do not add up.

        Parameters
        ----------
        fixed_membership : bool
            The caller's word that which row belongs to which part is public and does not depend on what the
            guarantee hides. Needed under replace-one: a replaced row might otherwise leave one part for
            another, which changes the size of both, and no guarantee at a fixed size covers that.
        """
        chosen = self._dataset(dataset)
        if self.neighbours is Neighbours.REPLACE_ONE and not fixed_membership:
            raise InvalidInput(
                "Under replace-one a new row may belong to another part than the old one, so parts cannot be charged "
                "side by side. Say fixed_membership=True if membership is public and fixed, use a ledger with "
                "neighbours='add-remove', or charge the dataset as a whole."
            )
        if isinstance(names, str) or len(set(names)) < max(len(names), 1):
            raise InvalidInput("names must be a list of different names, at least one.")
        for name in names:
            _check_text("partition", name)
        with self._open() as connection:
            _cap(connection, chosen)
            if _partitions(connection, chosen):
                raise InvalidInput(
                    f"{chosen!r} has its partitions already: {_partitions(connection, chosen)}. A second way to cut "
                    "the same rows would not be disjoint from the first."
                )
            connection.executemany("INSERT INTO partitions VALUES (?, ?)", [(chosen, name) for name in names])
            if fixed_membership:
                fixed = _fixed(_facts(connection))
                connection.execute(
                    "UPDATE facts SET value = ? WHERE name = 'fixed_membership'",
                    (json.dumps([*fixed, chosen]),),
                )

    def partition(self, name: str, *, dataset: str | None = None) -> Ledger:
        """A handle that charges one declared part; give it to the estimator that sees only that part's rows."""
        chosen = self._dataset(dataset)
        with self._open() as connection:
            _check_partition(connection, chosen, name)
        handle = object.__new__(Ledger)
        handle.__dict__.update({**self.__dict__, "_part": (chosen, name)})
        return handle

    def cap(self, dataset: str | None = None) -> Budget:
        with self._open() as connection:
            return _cap(connection, self._dataset(dataset))

    def spent(self, dataset: str | None = None) -> float:
        """Epsilon of all charges together, at the delta of the cap."""
        cap, totals = self._balance(dataset)
        spent = max(total.epsilon(cap.delta) for total in totals)
        return min(spent, cap.epsilon) if all(total.fits(cap) for total in totals) else spent

    def remaining(self, dataset: str | None = None) -> float:
        """Largest epsilon, at the delta of the cap, of one more Gaussian-type release; 0 if none fits."""
        cap, totals = self._balance(dataset)
        if cap.delta == 0:
            return max(0.0, cap.epsilon - max(total.epsilon(0.0) for total in totals))

        def fits(mu: float) -> bool:
            return all(compose([total, Cost.gaussian(mu)]).fits(cap) for total in totals)

        low, high = 0.0, 1.0
        while fits(high) and high < 1e3:
            low, high = high, 2 * high
        tolerance = 1e-11 if all(total.only_gaussian for total in totals) else 1e-3
        while high - low > tolerance * high and high > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        # A hair less, so that a fit that asks for it is accepted after its own roundings.
        left = min(Cost.gaussian(low).epsilon(cap.delta) * (1 - 1e-8), cap.epsilon, EPSILON_RANGE[1])
        return left if left >= EPSILON_RANGE[0] else 0.0

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """All charges in the order they were made, or those of one dataset."""
        with self._open() as connection:
            found = _entries(connection)
        return [entry for entry in found if dataset is None or entry.dataset == dataset]

    def datasets(self) -> list[str]:
        with self._open() as connection:
            return _datasets(connection)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "format": "dperm ledger",
            "version": 1,
            "id": self.id,
            "neighbours": self.neighbours.value,
            "adaptive_costs": self.adaptive_costs,
            "partitions": self._declared(),
            "datasets": [
                {
                    "dataset": name,
                    **asdict(self.cap(name)),
                    "spent": self.spent(name),
                    "remaining": self.remaining(name),
                }
                for name in self.datasets()
            ],
            "charges": [entry.to_dict() for entry in self.entries()],
        }

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` to a JSON file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and (self.path, self._part) == (other.path, other._part)

    def __hash__(self) -> int:
        return hash((self.path, self._part))

    def __repr__(self) -> str:
        part = "" if self._part is None else f".partition({self._part[1]!r}, dataset={self._part[0]!r})"
        return f"Ledger({str(self.path)!r}){part}"

    def _charge(
        self,
        cost: Cost,
        dataset: str | None,
        partition: str | None,
        neighbours: str | None,
        label: str,
        mechanism: str,
        status: str,
    ) -> int:
        chosen = self._dataset(dataset)
        part = partition if self._part is None else self._part[1]
        if partition is not None and part != partition:
            raise InvalidInput(f"This handle charges the partition {part!r}, not {partition!r}.")
        for name, text in (("label", label), ("mechanism", mechanism)):
            _check_text(name, text, empty=True)
        if neighbours is not None and Neighbours.parse(neighbours) is not self.neighbours:
            raise Unsupported(
                f"{self.path.name} counts under {self.neighbours.value}, and this release is private under "
                f"{neighbours}. Fit with neighbours={self.neighbours.value!r}, or keep a second ledger for the other "
                "relation."
            )
        if cost.why_unbounded is not None:
            raise NotCertified(
                f"A ledger takes no release without a price: {cost.why_unbounded} Leave ledger=None for an "
                "experiment on public data."
            )
        if self.adaptive_costs and not cost.only_gaussian:
            raise Unsupported(
                "This ledger lets prices depend on earlier results, which is proved for Gaussian charges only. Use a "
                "mechanism with such a price, for example dp-gd, ssp or output, or a ledger with adaptive_costs=False."
            )
        text = json.dumps(cost.to_dict(), allow_nan=False)
        with self._open() as connection:
            cap = _cap(connection, chosen)
            if part is not None:
                _check_partition(connection, chosen, part)
            for total in _totals(connection, chosen, part):
                if not compose([total, cost]).fits(cap):
                    raise BudgetExceeded(
                        "Refused, and nothing was released: this would cost epsilon = "
                        f"{cost.epsilon(cap.delta):.4g}, and of the cap of {cap.epsilon:g} for {chosen!r} in "
                        f"{self.path.name}, "
                        f"{total.epsilon(cap.delta):.4g} is spent (all at delta = {cap.delta:g}). {_WAY_OUT}"
                    )
            cursor = connection.execute(
                "INSERT INTO charges (time, dataset, partition, label, mechanism, cost, status) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_now(), chosen, part, label, mechanism, text, status),
            )
            assert cursor.lastrowid is not None
            number = cursor.lastrowid
        self._seen = max(self._seen, number)
        return number

    def _settle(self, number: int, status: str) -> None:
        """An open charge becomes final or void; no other charge ever changes."""
        with self._open() as connection:
            connection.execute(
                "UPDATE charges SET status = ? WHERE id = ? AND status = 'open'", (status, number)
            )

    def _dataset(self, dataset: str | None) -> str:
        if self._part is not None and dataset not in (None, self._part[0]):
            raise InvalidInput(f"This handle charges a partition of {self._part[0]!r}, not {dataset!r}.")
        return self._part[0] if self._part is not None else DEFAULT if dataset is None else dataset

    def _declared(self) -> dict[str, dict[str, Any]]:
        with self._open() as connection:
            fixed = _fixed(_facts(connection))
            found = {name: _partitions(connection, name) for name in _datasets(connection)}
        return {
            name: {"names": parts, "fixed_membership": name in fixed}
            for name, parts in found.items()
            if parts
        }

    def _balance(self, dataset: str | None) -> tuple[Budget, list[Cost]]:
        """The cap, and what has been paid for the rows that this handle stands for."""
        chosen = self._dataset(dataset)
        with self._open() as connection:
            part = None if self._part is None else self._part[1]
            return _cap(connection, chosen), _totals(connection, chosen, part)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the very ledger that this handle was made for."""
        with transaction(self.path) as connection:
            found = _facts(connection)["id"]
            (last,) = connection.execute("SELECT max(id) FROM charges").fetchone()
            if self._id is not None and found != self._id:
                raise InvalidInput(
                    f"{self.path} is another ledger than the one this handle was opened for; if that is right, open "
                    "it anew."
                )
            if (last or 0) < self._seen:
                raise InvalidInput(
                    f"{self.path} has lost charges: an older copy seems to have been put in its place."
                )
            self._id, self._seen = found, last or 0
            yield connection


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    wanted = {"id", "created", "neighbours", "adaptive_costs", "fixed_membership"}
    if set(facts) != wanted or not all(isinstance(value, str) for value in facts.values()):
        raise sqlite3.DatabaseError("its facts are not those of a ledger")
    _fixed(facts)
    return facts


def _fixed(facts: dict[str, str]) -> list[str]:
    """The datasets whose partitions were declared with fixed membership."""
    try:
        fixed = json.loads(facts["fixed_membership"])
    except (ValueError, RecursionError):
        fixed = None
    if not isinstance(fixed, list) or not all(isinstance(name, str) for name in fixed):
        raise sqlite3.DatabaseError("its list of fixed memberships is spoilt")
    return fixed


def _datasets(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM datasets ORDER BY rowid")]


def _cap(connection: sqlite3.Connection, dataset: str) -> Budget:
    row = connection.execute("SELECT epsilon, delta FROM datasets WHERE name = ?", (dataset,)).fetchone()
    if row is None:
        raise InvalidInput(
            f"The ledger knows the datasets {', '.join(_datasets(connection))}; got {dataset!r}. Create one with "
            "set_cap(dataset, epsilon, delta) if nobody in it is in another one."
        )
    return Budget(*row)


def _partitions(connection: sqlite3.Connection, dataset: str) -> list[str]:
    rows = connection.execute("SELECT name FROM partitions WHERE dataset = ? ORDER BY rowid", (dataset,))
    return [name for (name,) in rows]


def _check_partition(connection: sqlite3.Connection, dataset: str, name: str) -> None:
    known = _partitions(connection, dataset)
    if name not in known:
        raise InvalidInput(
            f"{name!r} is not a declared partition of {dataset!r} (there are {known}); declare all of them with "
            "declare_partitions."
        )


def _totals(connection: sqlite3.Connection, dataset: str, partition: str | None = None) -> list[Cost]:
    """What a row has paid for: shared charges and those of its own partition. One total for each partition, or one."""
    counted = [
        entry for entry in _entries(connection) if entry.dataset == dataset and entry.status in _COUNTED
    ]
    parts: list[str | None] = [*_partitions(connection, dataset)] or [None]
    if partition is not None:
        parts = [partition]
    return [compose(entry.cost for entry in counted if entry.partition in (None, part)) for part in parts]


def _entries(connection: sqlite3.Connection) -> list[Entry]:
    rows = connection.execute(
        "SELECT id, time, dataset, partition, label, mechanism, cost, status FROM charges ORDER BY id"
    )
    return [_entry(row) for row in rows]


def _entry(row: tuple[Any, ...]) -> Entry:
    number, time, dataset, partition, label, mechanism, cost, status = row
    texts = (time, dataset, label, mechanism, cost)
    if not (isinstance(number, int) and all(isinstance(text, str) for text in texts)):
        raise sqlite3.DatabaseError("a charge has a value of a wrong type")
    if not (partition is None or isinstance(partition, str)) or status not in (*_COUNTED, _VOID):
        raise sqlite3.DatabaseError("a charge has an unknown partition or status")
    try:
        price = Cost.from_dict(json.loads(cost, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        raise sqlite3.DatabaseError(f"the price of charge {number} cannot be read") from None
    return Entry(
        id=number,
        time=time,
        dataset=dataset,
        partition=partition,
        label=label,
        mechanism=mechanism,
        cost=price,
        status=status,
    )


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _check_text(name: str, text: object, empty: bool = False) -> None:
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT or not (text or empty):
        raise InvalidInput(f"{name} must be text of at most {_LONGEST_TEXT} characters; got {text!r}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds half a character, which no file can keep.") from None
