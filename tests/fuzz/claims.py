"""Files of every kind that state a claim, edited by somebody who may also seal them again; none may claim less.

The oracle does not ask whether a file is right, which is the business of the code under test. It asks whether what an
*accepted* file claims is smaller than what the file said before it was edited: a smaller epsilon or delta, persons
where there were rows, another relation, a guarantee where there was none; of a ledger less spent or a higher cap; of
shards more rows than there are, or persons that nobody told of. The few changes of an edit cannot make a true statement
about another release, with other noise, of a file that tells each of its numbers in several places.
"""

from __future__ import annotations

import copy
import json
import math
import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from fuzz_targets import json_bytes, resealed

import dperm
from dperm import Budget, Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dperm.data import FolderShards, write_shards
from dperm.errors import DpermError
from dperm.ledger.history import START, next_head
from dperm.privacy.cost import Cost
from dperm.strict_json import digest
from mutations import forged, mutated_bytes

ROUNDING = 1e-8
REFUSED, UNCHANGED, ACCEPTED, SMALLER, CRASHED = "refused", "unchanged", "accepted", "smaller", "crashed"
OUTCOMES = (REFUSED, UNCHANGED, ACCEPTED, SMALLER, CRASHED)


class Claim(NamedTuple):
    """What a file promises: who is protected, under which relation, and at which price; infinite, where nothing is."""

    unit: str
    relation: str
    epsilon: float
    delta: float

    def less_than(self, other: Claim) -> bool:
        """Whether this is more than the other promised, so that the other did not cover it."""
        if math.isinf(self.epsilon):
            return False
        cheaper = any(
            mine < theirs * (1 - ROUNDING) for mine, theirs in zip(self[2:], other[2:], strict=True)
        )
        return cheaper or self[:2] != other[:2]


class Kind:
    """Files of one kind: how they are made, edited, sealed by a forger, and read."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def documents(self) -> list[Any]:
        raise NotImplementedError

    def sealed(self, document: Any) -> Any:
        """With digests that fit, as a careful forger would leave them."""
        raise NotImplementedError

    def edit(self, rng: random.Random) -> tuple[int, Any]:
        """The number of a file, and its content after the edit: a document, or bytes."""
        number = rng.randrange(len(self.documents))
        document = self.documents[number]
        if rng.random() < 0.1:
            return number, mutated_bytes(rng, json.dumps(document, indent=1).encode(), [json_bytes(document)])
        changed = forged(rng, document, self.documents)
        return number, self.sealed(changed) if rng.random() < 0.75 else changed

    def judge(self, number: int, content: Any) -> str:
        """What became of one edit."""
        raise NotImplementedError


class _Claiming(Kind):
    """Files that ``dperm.verify`` reads."""

    @cached_property
    def claims(self) -> list[Claim]:
        return [self.claim(json_bytes(document)) for document in self.documents]

    def claim(self, raw: bytes) -> Claim:
        path = self.folder / "file.json"
        path.write_bytes(raw)
        verdict = dperm.verify(path)
        if not verdict.accepted:
            raise DpermError("refused")
        if not verdict.ok or verdict.guarantee is None:
            return Claim(verdict.unit, verdict.relation, math.inf, math.inf)
        return Claim(verdict.unit, verdict.relation, verdict.guarantee["epsilon"], verdict.guarantee["delta"])

    def judge(self, number: int, content: Any) -> str:
        original = self.claims[number]
        raw = content if isinstance(content, bytes) else json_bytes(content)
        if raw == json_bytes(self.documents[number]):
            return UNCHANGED
        try:
            found = self.claim(raw)
        except DpermError:
            return REFUSED
        return SMALLER if found.less_than(original) else ACCEPTED


RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2)) / 3
SIGNS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0]
PERSONS = np.arange(N) // 2
CLASSIFIER: dict[str, Any] = {"classes": [0, 1], "epsilon": 1.0, "delta": 1e-6}
HIDDEN: dict[str, Any] = {"neighbours": "add-remove", "max_rows": 150}


def _regression(**settings: Any) -> Any:
    return PrivateLinearRegression(y_range=(-1, 1), epsilon=1.0, delta=1e-6, **settings)


def _classifier(**settings: Any) -> Any:
    return PrivateLogisticRegression(**{**CLASSIFIER, **settings})


class Model(_Claiming):
    """Models: of several mechanisms, of persons, weighted, standardised, with a threshold, with numbers for intervals,
    with a seed, without noise, and a search's winner, which claims nothing."""

    name = "model"

    @cached_property
    def documents(self) -> list[Any]:
        found = [
            _classifier(mechanism="output").fit(X, SIGNS),
            _classifier(mechanism="ssp", **HIDDEN).fit(X, SIGNS),
            _classifier(mechanism=dperm.mechanisms.DPGD(steps=5)).fit(X, SIGNS, groups=PERSONS),
            _classifier(mechanism="output", person_loss="sum", max_rows_per_person=2).fit(
                X, SIGNS, groups=PERSONS
            ),
            _classifier(mechanism="objective", inference=True).fit(X, SIGNS),
            _classifier(mechanism="output", class_weight={0: 1.0, 1: 3.0}).fit(X, SIGNS),
            _classifier(mechanism="output").fit(X, SIGNS).tune_threshold(X, SIGNS, epsilon=0.5, delta=1e-7),
            _classifier(mechanism="output", random_state=1).fit(X, SIGNS),
            _classifier(mechanism="none").fit(X, SIGNS),
            _regression(mechanism="adassp").fit(X, NUMBERS),
            _regression(mechanism="auto", **HIDDEN).fit(X, NUMBERS),
            PrivateSearchCV(_classifier(mechanism="output"), {"l2": [0.01, 0.1]}, epsilon=2.0, delta=1e-6)
            .fit(X, SIGNS)
            .best_estimator_,
        ]
        return [_saved(self.folder, model.save) for model in found]

    def sealed(self, document: Any) -> Any:
        return resealed(document)

    def judge(self, number: int, content: Any) -> str:
        """Without its thresholds a file is that of the model before they were tuned, and its claim is true of that."""
        told = super().judge(number, content)
        before = {key: value for key, value in self.documents[number].items() if key != "thresholds"}
        return ACCEPTED if told == SMALLER and content == self.sealed(before) else told


class Certificate(Model):
    """The same, changed in the certificate alone."""

    name = "certificate"

    def edit(self, rng: random.Random) -> tuple[int, Any]:
        number = rng.randrange(len(self.documents))
        others = [document["certificate"] for document in self.documents]
        changed = {**self.documents[number], "certificate": forged(rng, others[number], others)}
        return number, self.sealed(copy.deepcopy(changed))


class _Beside(_Claiming):
    def sealed(self, document: Any) -> Any:
        with suppress(Exception):
            document["digest"] = digest({key: value for key, value in document.items() if key != "digest"})
        return document


class Evaluation(_Beside):
    name = "evaluation"

    @cached_property
    def documents(self) -> list[Any]:
        budget = Budget(1.0, 1e-6)
        model, several = _classifier(mechanism="output").fit(X, SIGNS), np.digitize(NUMBERS, [-0.1, 0.1])
        by_person = _classifier(mechanism="output").fit(X, SIGNS, groups=PERSONS)
        three = _classifier(mechanism="output", classes=[0, 1, 2]).fit(X, several)
        numbers = _regression(mechanism="adassp").fit(X, NUMBERS)
        found = [
            dperm.evaluate(model, X, SIGNS, budget),
            dperm.evaluate(model, X, SIGNS, budget, **HIDDEN),
            dperm.evaluate(by_person, X, SIGNS, budget, groups=PERSONS),
            dperm.evaluate(three, X, several, budget),
            dperm.evaluate(numbers, X, NUMBERS, budget, error_bound=0.5),
            dperm.evaluate(model, X, SIGNS, local=True),
            dperm.evaluate(model, X, SIGNS, budget, random_state=0),
        ]
        return [_saved(self.folder, one.save) for one in found]


class Means(_Beside):
    name = "means"

    @cached_property
    def documents(self) -> list[Any]:
        budget = Budget(1.0, 1e-6)
        model = _classifier(mechanism="output").fit(X, SIGNS)
        by_person = _classifier(mechanism="output").fit(X, SIGNS, groups=PERSONS)
        numbers = _regression(mechanism="adassp").fit(X, NUMBERS)
        ward = np.where(np.arange(N) % 3 == 0, "A", "B")
        found = [
            dperm.mean_predictions(model, X, budget, by=ward, values=["A", "B"]),
            dperm.mean_predictions(model, X, budget, by=ward, values=["A"], other="rest", **HIDDEN),
            dperm.mean_predictions(by_person, X, budget, groups=PERSONS),
            dperm.mean_predictions(numbers, X, budget, bounds=(-0.5, 0.5)),
            dperm.mean_predictions(model, X, budget, random_state=0),
        ]
        return [_saved(self.folder, one.save) for one in found]


class LedgerFile(Kind):
    """Histories of ledgers. Who computes all hashes anew is found by the models that cite their charges."""

    name = "ledger"

    @cached_property
    def _made(self) -> list[tuple[list[dict[str, Any]], list[str], bytes]]:
        found = []
        for place, unit in enumerate(("row", "person", "row")):
            relation = "add-remove" if place == 2 else "replace-one"
            path = self.folder / f"whole-{place}.db"
            ledger = Ledger.create(path, epsilon=2.0, delta=1e-6, unit=unit, neighbours=relation)
            cited = []
            for mu in (0.1, 0.2):
                cited.append(ledger.charge(Cost.gaussian(mu), label="fit", unit=unit))
            ledger.set_cap("other", 1.0, 1e-7)
            ledger.declare_partitions(["a", "b"], dataset="other", fixed_membership=True)
            for part in ("a", "b"):
                cited.append(ledger.charge(Cost.gaussian(0.1), dataset="other", partition=part, unit=unit))
            ledger.pay(Cost.gaussian(0.05), lambda: None, lambda rows: None, unit=unit)
            ledger.set_cap("default", 1.5, 1e-6)
            entries = ledger.to_dict(full=False)["charges"]
            with closing(sqlite3.connect(path)) as connection:
                events = [
                    json.loads(text) for (text,) in connection.execute("SELECT event FROM events ORDER BY id")
                ]
            found.append(
                (events, [entry["citation"] for entry in entries] + [ledger.head], path.read_bytes())
            )
        return found

    @cached_property
    def documents(self) -> list[Any]:
        return [events for events, _, _ in self._made]

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        return [self._state(self._opened(raw, [])) for _, _, raw in self._made]

    def sealed(self, document: Any) -> Any:
        return document

    def edit(self, rng: random.Random) -> tuple[int, Any]:
        number = rng.randrange(len(self.documents))
        if rng.random() < 0.1:
            return number, mutated_bytes(rng, self._made[number][2], [self._made[number][2]])
        way = rng.choice(("sealed", "sealed", "old heads", "more"))
        events = self.documents[number]
        if way == "more":  # after the last head that anybody knows
            kept = dict(rng.choice(events))
            return number, [way, [*events, forged(rng, kept, self.documents)]]
        return number, [way, forged(rng, events, self.documents)]

    def judge(self, number: int, content: Any) -> str:
        events, anchors, raw = self._made[number]
        if not isinstance(content, bytes):
            way, history = content
            if way != "more" and history == events:
                return UNCHANGED
            raw = self._written(history, raw, way)
        elif content == raw:
            return UNCHANGED
        else:
            raw = content
        try:
            found = self._state(self._opened(raw, anchors))
        except DpermError:
            return REFUSED
        before = self.states[number]
        smaller = found["relation"] != before["relation"] or not before["cap"].keys() <= found["cap"].keys()
        told = [(part, name) for part in ("unit", "parts") for name in before[part]]
        smaller = smaller or any(found[part].get(name) != before[part][name] for part, name in told)
        for name in before["cap"]:
            smaller = smaller or found["spent"][name] < before["spent"][name] * (1 - ROUNDING)
            smaller = smaller or any(
                a > b for a, b in zip(found["cap"][name], before["cap"][name], strict=True)
            )
        return SMALLER if smaller else ACCEPTED

    def _written(self, history: Any, raw: bytes, way: str) -> bytes:
        """A file with this history, its hashes computed anew, or with the old ones beside it."""
        path = self.folder / "made.db"
        path.write_bytes(raw)
        events = history if isinstance(history, list) else [history]
        with closing(sqlite3.connect(path)) as connection, connection:
            heads = [head for (head,) in connection.execute("SELECT head FROM events ORDER BY id")]
            connection.execute("DELETE FROM events")
            head = START
            for place, event in enumerate(events):
                text = json.dumps(event, sort_keys=True)
                head = next_head(head, text)
                kept = heads[min(place, len(heads) - 1)] if way == "old heads" else head
                connection.execute("INSERT INTO events (event, head) VALUES (?, ?)", (text, kept))
        return path.read_bytes()

    def _opened(self, raw: bytes, anchors: list[str]) -> Ledger:
        path = self.folder / "budget.db"
        for name in ("budget.db-wal", "budget.db-shm", "budget.db-journal"):
            (self.folder / name).unlink(missing_ok=True)
        path.write_bytes(raw)
        return Ledger(path, expect=list(anchors))

    def _state(self, ledger: Ledger) -> dict[str, Any]:
        told = ledger.to_dict(full=False)
        datasets = {one["dataset"]: one for one in told["datasets"]}
        return {
            "relation": told["neighbours"],
            "unit": {name: one["unit"] for name, one in datasets.items()},
            "parts": told["partitions"],
            "cap": {name: (one["epsilon"], one["delta"]) for name, one in datasets.items()},
            "spent": {name: one["spent"] for name, one in datasets.items()},
        }


class ManifestFile(Kind):
    """Manifests of shards, with the shards beside them."""

    name = "manifest"

    @cached_property
    def _folders(self) -> list[Path]:
        n = 2500
        rng = np.random.default_rng(1)
        table = pa.table(
            {
                "a": rng.uniform(-1, 1, n),
                "town": rng.choice(["north", "south"], n),
                "y": rng.integers(0, 2, n),
                "who": rng.integers(0, 500, n),
            }
        )
        schema = {
            "person": "who",
            "target": {"name": "y", "classes": [0, 1]},
            "features": {"a": {"range": [-1, 1]}, "town": {"categories": ["north", "south"]}},
        }
        rows = {name: part for name, part in schema.items() if name != "person"}
        numbers = table.drop(["town"])
        folders = [self.folder / f"shards-{place}" for place in range(4)]
        write_shards(table, schema, folders[0], rows_per_shard=1024)
        write_shards(table, rows, folders[1], rows_per_shard=1024)
        write_shards(numbers, None, folders[2], y="y", classes=[0, 1], person="who", rows_per_shard=1024)
        write_shards(numbers.drop(["who"]), None, folders[3], y="y", classes=[0, 1], rows_per_shard=1024)
        return folders

    @cached_property
    def documents(self) -> list[Any]:
        return [json.loads((folder / "manifest.json").read_text()) for folder in self._folders]

    @cached_property
    def _facts(self) -> list[tuple[list[int], str | None]]:
        found = []
        for place, folder in enumerate(self._folders):
            opened = FolderShards(folder)
            found.append((list(opened.sizes), None if place % 2 else opened.person))
        return found

    def sealed(self, document: Any) -> Any:
        with suppress(Exception):
            document["digest"] = digest({key: value for key, value in document.items() if key != "digest"})
        return document

    def judge(self, number: int, content: Any) -> str:
        folder = self._folders[number]
        sizes, person = self._facts[number]
        raw = content if isinstance(content, bytes) else json_bytes(content)
        if raw == json_bytes(self.documents[number]):
            return UNCHANGED
        path = folder / "manifest.json"
        whole = path.read_bytes()
        try:
            path.write_bytes(raw)
            opened = FolderShards(folder)
            for shard in range(len(opened.sizes)):
                opened.load(shard)
                if opened.person is not None:
                    opened.persons(shard)
        except DpermError:
            return REFUSED
        finally:
            path.write_bytes(whole)
        invented = opened.person is not None and person is None
        longer = any(a > b for a, b in zip(opened.sizes, sizes, strict=False)) or len(opened.sizes) > len(
            sizes
        )
        return SMALLER if invented or longer else ACCEPTED


def _saved(folder: Path, save: Any) -> Any:
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        path = Path(inner) / "file.json"
        save(path)
        return json.loads(path.read_text(encoding="utf-8"))


KINDS = (Model, Certificate, Evaluation, Means, LedgerFile, ManifestFile)


def tried(kind: Kind, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """What became of the edits with these numbers, and in words those that claim less or crash."""
    counted: Counter[str] = Counter()
    found = []
    for number in numbers:
        place, content = kind.edit(random.Random(f"{kind.name}:{seed}:{number}"))
        try:
            outcome = kind.judge(place, content)
        except Exception as error:
            outcome = CRASHED
            told = f"{type(error).__name__}: {error}"
        else:
            told = ""
        counted[outcome] += 1
        if outcome in (SMALLER, CRASHED):
            changed = list(changes(kind.documents[place], content))[:5]
            found.append(f"{kind.name}, edit {number} of file {place}, {outcome} {told}: {changed}")
    return counted, found


def changes(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """The places at which two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from changes(before.get(key, "nothing"), after.get(key, "nothing"), f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from changes(*pair, f"{where}/{place}")
    elif before != after or type(before) is not type(after):
        yield f"{where}: {before!r:.80} is now {after!r:.80}"
