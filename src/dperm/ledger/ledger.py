"""One budget over many fits, kept in a file that outlives copies, processes and crashes."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from dperm.errors import InvalidInput
from dperm.ledger.history import OPEN, SPENT, VOID, Anchor, Book, Entry, kind_by_words
from dperm.ledger.overview import as_html, document
from dperm.ledger.store import (
    DEFAULT,
    Charge,
    Pages,
    check_text,
    create_file,
    declare_cap,
    declare_partitions,
    note,
    now,
    opened,
)
from dperm.privacy.budget import Budget
from dperm.privacy.cost import Cost
from dperm.unit import ROW, Neighbours, PrivacyUnit, parse_unit

Rows = TypeVar("Rows")
Result = TypeVar("Result")

REDACTED = (
    "The charge is spent and nothing was released: reading the rows or training on them failed. This ledger is strict, "
    "so what was wrong is not told, because it could tell about a row. Try the same settings on made-up rows with "
    "ledger=None, and look at the rows with whoever is trusted with them."
)
"""The one error of a strict ledger after a charge."""


class Ledger:
    """A handle on a budget kept in a file.

    ``Ledger(path)`` opens a ledger that exists. A new one is made by ``Ledger.create`` or ``create=True`` only.

    Parameters
    ----------
    path : path
        The file.
    epsilon, delta : float
        The cap of the dataset "default". For an existing file leave them out, or give those it has.
    neighbours : {"replace-one", "add-remove"}
        The relation of every guarantee in this ledger; "replace-one" for a new file by default.
    adaptive_costs : bool
        Whether the price of a charge may be chosen after looking at earlier results. The total of Gaussian charges
        allows it; a ledger that allows it takes no others. False for a new file by default.
    strict : bool
        For operators who may not learn about rows from error messages. A charge is then never void, and whatever
        fails after it raises one error with one text. Fixed when the file is made; False by default.
    unit : {"row", "person"}
        Whom the cap of the dataset "default" protects; "row" for a new file by default. A cap for one person takes
        releases for one person only. One for rows takes those for persons too under replace-one: they count for a row
        that stays with its person.
    create : bool, default=False
        Make a new file, and refuse one that exists.
    expect : head, citation or model, or a list of them, default=None
        Anchors kept outside of the file (``head``, or a model fitted with this ledger). Opening raises unless each
        is in the ledger's history, so that a restored copy or another ledger is found.

    Guarantee
    ---------
    All charges of a dataset together meet its cap (docs/proofs/ledger.md). A charge is on disk before a row is read,
    so a crash counts too much, never too little. Copies, pickles, forks and other processes all mean the same file;
    two of them never overspend. The history is a chain of hashes: an event that is edited, removed or put
    in between is found on opening, and a history that does not hold an expected head is found too.

    Assumes
    -------
    Every release from the dataset is charged here. Whoever can write the file does not write a history of their own
    after the last head that is kept elsewhere, and does not charge two copies of it. Unless ``adaptive_costs``, what
    a charge costs was decided without looking at earlier results.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str | None = None,
        adaptive_costs: bool | None = None,
        strict: bool | None = None,
        *,
        unit: str | None = None,
        create: bool = False,
        expect: Any = None,
    ) -> None:
        try:
            self.path = Path(path).resolve()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"path must name a file: {error}.") from None
        if (epsilon is None) != (delta is None):
            raise InvalidInput("Give both epsilon and delta, or neither for a ledger that exists.")
        cap = None if epsilon is None or delta is None else Budget(epsilon, delta)
        relation = None if neighbours is None else Neighbours.parse(neighbours)
        kept_for = None if unit is None else parse_unit(unit)
        self._last: Anchor | None = None
        self._part: tuple[str, str] | None = None
        if create:
            if cap is None or expect is not None:
                raise InvalidInput("A new ledger needs epsilon and delta, and has no history to expect.")
            chosen = relation or Neighbours.REPLACE_ONE
            create_file(self.path, cap, chosen, bool(adaptive_costs), bool(strict), kept_for or ROW)
        elif not self.path.exists():
            raise InvalidInput(
                f"There is no ledger at {self.path}. If there was one, what it counted is still spent: restore the "
                "file. A first one is made by Ledger.create(path, epsilon, delta) or dperm ledger create."
            )
        book = self._book
        self.neighbours, self.adaptive_costs, self.strict = book.neighbours, book.adaptive_costs, book.strict
        for name, asked, there in (
            ("cap", cap, book.cap(DEFAULT)),
            ("unit", kept_for, book.unit(DEFAULT)),
            ("neighbours", relation, book.neighbours),
            ("adaptive_costs", adaptive_costs, book.adaptive_costs),
            ("strict", strict, book.strict),
        ):
            if asked is not None and asked != there:
                raise InvalidInput(
                    f"{self.path.name} exists already with {name} = {there}, and {asked} was asked for. Open it "
                    "without caps and settings, lower its cap with set_cap, or choose another file."
                )
        if expect is not None:
            for anchor in expect if isinstance(expect, list | tuple) else [expect]:
                self.check(anchor)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: float,
        delta: float,
        *,
        neighbours: str = Neighbours.REPLACE_ONE.value,
        adaptive_costs: bool = False,
        strict: bool = False,
        unit: str = ROW,
    ) -> Ledger:
        """Make a new ledger; a file that exists is refused."""
        return cls(path, epsilon, delta, neighbours, adaptive_costs, strict, unit=unit, create=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, expect: Any = None) -> Ledger:
        """Open a ledger that exists, with the anchors that its history has to hold; the same as ``Ledger(path)``."""
        return cls(path, expect=expect)

    @property
    def id(self) -> str:
        """The identity of the ledger, drawn at random when it was made."""
        assert self._last is not None
        assert self._last.ledger is not None
        return self._last.ledger

    @property
    def head(self) -> str:
        """The hash of the whole history. Keep it outside of the file, and give it to ``expect`` later."""
        return self._book.head

    def check(self, anchor: Any) -> None:
        """Raise unless the history of this ledger holds what a head, a citation or a model says.

        Raises
        ------
        InvalidInput
            If this is another ledger; if the head is not in its history, because charges were lost or a
            copy was charged by itself; or if the charge that a model cites is void.
        """
        wanted = Anchor.of(anchor)
        with self._open() as pages:
            pages.check(wanted)

    def charge(
        self,
        cost: Cost,
        *,
        dataset: str | None = None,
        partition: str | None = None,
        neighbours: str | None = None,
        unit: str = ROW,
        kind: str | None = None,
        label: str = "",
        mechanism: str = "",
    ) -> int:
        """Write a charge to disk and return its id, or refuse it. Call it before the release is made.

        ``unit`` is what the release protects, "row" or "person": a dataset that is kept for persons takes no other.
        ``kind``, ``label`` and ``mechanism`` are words for whoever reads the ledger; nothing rests on them. Kinds are
        "fit", "search", "evaluate" and "other".

        Raises
        ------
        BudgetExceeded
            If the charge and all earlier ones together exceed the cap. Nothing is written.
        NotCertified
            If the release has no finite price.
        Unsupported
            If it protects another unit, or under another relation, than is counted here.
        """
        about = (unit, kind, label, mechanism)
        return self._charge(SPENT, cost, dataset, partition, neighbours, *about).id

    def pay(
        self,
        cost: Cost,
        read: Callable[[], Rows],
        train: Callable[[Rows], Result],
        *,
        dataset: str | None = None,
        neighbours: str | None = None,
        unit: str = ROW,
        kind: str | None = None,
        label: str = "",
        mechanism: str = "",
    ) -> tuple[str, Result]:
        """Charge, then read the rows and check their form, then train; the citation of the charge and the result.

        An ordinary error of ``read``, from which no number computed from rows may leave, makes the charge void. A
        crash, an interrupt, or any failure of ``train`` leaves it counted. In a strict ledger nothing makes it void,
        and every ordinary error of either becomes the same one, with no other behind it.
        """
        about = (unit, kind, label, mechanism)
        entry = self._charge(SPENT if self.strict else OPEN, cost, dataset, None, neighbours, *about)
        citation = str(Anchor(ledger=self.id, charge=entry.id, head=entry.head))
        if self.strict:
            return citation, _redacted(lambda: train(read()))
        try:
            rows = read()
        except Exception:
            self._settle(entry.id, VOID)
            raise
        self._settle(entry.id, SPENT)
        return citation, train(rows)

    def note(self, model: Any, file: str | os.PathLike[str]) -> None:
        """Write down which file holds the model that a charge paid for, and the model's digest.

        ``save_model`` does it for a model whose ``ledger`` is this one. It counts nothing: a charge without a note
        paid for a model that was never saved, or saved out of the ledger's sight.

        Parameters
        ----------
        model : fitted estimator
            It cites its charge in ``ledger_entry_``; its digest is that of its certificate, ``model.sha256``.
        file : path
            The last part of it is kept.

        Raises
        ------
        InvalidInput
            If the model does not cite a charge of this ledger, or the charge paid for another model.
        """
        anchor, digest = Anchor.of(model), model.certificate_["model"]["sha256"]
        with self._open() as pages:
            pages.check(anchor)
            if anchor.charge is not None:
                note(pages, anchor.charge, Path(file).name, digest)

    def set_cap(self, dataset: str, epsilon: float, delta: float, *, unit: str | None = None) -> None:
        """Give a new dataset its cap, or lower the cap of one that exists.

        Each dataset has a budget of its own: name two only if nobody is in both. ``unit`` is whom a new one protects,
        by default as the dataset "default" does; it never changes.
        """
        cap = Budget(epsilon, delta)
        check_text("dataset", dataset)
        with self._open() as pages:
            declare_cap(pages, dataset, cap, unit)

    def declare_partitions(
        self, names: Sequence[str], *, dataset: str | None = None, fixed_membership: bool = False
    ) -> None:
        """Declare parts of a dataset that share no row, or no person. Charges to different parts do not add up.

        Parameters
        ----------
        fixed_membership : bool
            The caller's word that which row, or person, belongs to which part is public and does not depend on what
            the guarantee hides. Needed under replace-one: a replaced one might otherwise leave one part for
            another, which changes the size of both, and no guarantee at a fixed size covers that.
        """
        chosen = self._dataset(dataset)
        with self._open() as pages:
            declare_partitions(pages, chosen, names, fixed_membership)

    def partition(self, name: str, *, dataset: str | None = None) -> Ledger:
        """A handle that charges one declared part; give it to the estimator that sees only that part's rows."""
        chosen = self._dataset(dataset)
        self._book.check_partition(chosen, name)
        handle = object.__new__(Ledger)
        handle.__dict__.update({**self.__dict__, "_part": (chosen, name)})
        return handle

    def cap(self, dataset: str | None = None) -> Budget:
        return self._book.cap(self._dataset(dataset))

    def unit(self, dataset: str | None = None) -> str:
        """Whom the cap protects: ``row`` or ``person``."""
        return self._book.unit(self._dataset(dataset))

    def spent(self, dataset: str | None = None) -> float:
        """Epsilon of all charges together, at the delta of the cap."""
        return self._book.spent(self._dataset(dataset), self._part and self._part[1])

    def remaining(self, dataset: str | None = None) -> float:
        """Largest epsilon, at the delta of the cap, of one more Gaussian-type release; 0 if none fits."""
        return self._book.remaining(self._dataset(dataset), self._part and self._part[1])

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """All charges in the order they were made, or those of one dataset."""
        return [entry for entry in self._book.entries if dataset is None or entry.dataset == dataset]

    def datasets(self) -> list[str]:
        return list(self._book.caps)

    def to_dict(self, *, full: bool = True) -> dict[str, Any]:
        """Everything, ready for JSON; without ``full`` all but the prices, which may be hundreds of numbers each."""
        return document(self._book, full)

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

    def _repr_html_(self) -> str:
        return as_html(self.path.name, self.to_dict(full=False))

    def _charge(
        self,
        status: str,
        cost: Cost,
        dataset: str | None,
        partition: str | None,
        neighbours: str | None,
        unit: str,
        kind: str | None,
        label: str,
        mechanism: str,
    ) -> Entry:
        chosen = self._dataset(dataset)
        part = partition if self._part is None else self._part[1]
        if partition is not None and part != partition:
            raise InvalidInput(f"This handle charges the partition {part!r}, not {partition!r}.")
        relation = self.neighbours if neighbours is None else Neighbours.parse(neighbours)
        charge = Charge(
            cost=cost,
            protects=PrivacyUnit(relation=relation, unit=unit),
            dataset=chosen,
            partition=part,
            kind=kind_by_words(str(label), str(mechanism)) if kind is None else kind,
            label=label,
            mechanism=mechanism,
            status=status,
        )
        with self._open() as pages:
            return charge.write(pages)

    def _settle(self, number: int, status: str) -> None:
        """An open charge becomes final or void; no other charge ever changes."""
        with self._open() as pages:
            if pages.book.entries[number - 1].status == OPEN:
                pages.write({"event": "settle", "time": now(), "charge": number, "status": status})

    def _dataset(self, dataset: str | None) -> str:
        if self._part is not None and dataset not in (None, self._part[0]):
            raise InvalidInput(f"This handle charges a partition of {self._part[0]!r}, not {dataset!r}.")
        return self._part[0] if self._part is not None else DEFAULT if dataset is None else dataset

    @property
    def _book(self) -> Book:
        with self._open() as pages:
            return pages.book

    @contextmanager
    def _open(self) -> Iterator[Pages]:
        """A transaction on the very ledger that this handle was made for, with all that the handle has seen of it."""
        with opened(self.path) as pages:
            if self._last is not None:
                pages.check(self._last)
            yield pages
        # Only now: what was not written to the end has not been seen.
        self._last = Anchor(ledger=pages.book.id, head=pages.book.head)


def _redacted(work: Callable[[], Result]) -> Result:
    """The result of the work, or one error that is the same whatever went wrong, without a word on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return work()
        except Exception:
            pass
    raise InvalidInput(REDACTED)  # out here, so that no other exception hangs on it
