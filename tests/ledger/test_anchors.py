"""The history as a chain of hashes, the heads that are kept outside of the file, and what they find."""

import json
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from dperm import Budget, Ledger, PrivateLogisticRegression
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.ledger.history import START, Anchor, next_head
from dperm.models import load_model, save_model
from dperm.privacy import gaussian_mu
from dperm.privacy.cost import Cost

DELTA = 1e-6


def gaussian(epsilon):
    return Cost.gaussian(gaussian_mu(Budget(epsilon, DELTA)))


def fitted(ledger, epsilon=0.3):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) / 2
    model = PrivateLogisticRegression(epsilon=epsilon, mechanism="output", classes=[0, 1], ledger=ledger)
    return model.fit(X, (X[:, 0] > 0).astype(int))


def links(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT event, head FROM events ORDER BY id").fetchall()


def rewrite(path, change):
    """What somebody can do who writes the file and computes every hash anew."""
    events = change([json.loads(event) for event, _ in links(path)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM events")
        head = START
        for event in events:
            text = json.dumps(event, sort_keys=True)
            head = next_head(head, text)
            connection.execute("INSERT INTO events (event, head) VALUES (?, ?)", (text, head))
        connection.commit()


# The chain.


def test_every_kind_of_event_moves_the_head(ledger):
    heads = [ledger.head]
    steps = [
        lambda: ledger.set_cap("survey", 0.5, DELTA),
        lambda: ledger.set_cap("default", 0.9, DELTA),
        lambda: ledger.declare_partitions(["a", "b"], fixed_membership=True),
        lambda: ledger.charge(gaussian(0.1), label="by hand"),
        lambda: ledger.pay(gaussian(0.1), list, list),
    ]
    for step in steps:
        step()
        heads.append(ledger.head)
    assert len(set(heads)) == len(heads)
    assert len(links(ledger.path)) == 2 + 4 + 2  # creation and cap; four steps; a charge and its settlement
    for head in heads:
        ledger.check(head)  # a later head extends the earlier ones


def test_the_head_is_the_hash_of_all_that_happened(ledger):
    ledger.charge(gaussian(0.1))
    head = START
    for event, stored in links(ledger.path):
        head = next_head(head, event)
        assert stored == head
    assert ledger.head == ledger.to_dict()["head"] == head
    assert ledger.entries()[0].head == head


@pytest.mark.cover(1)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("column", ["event", "head"])
def test_an_edited_event_is_found_on_opening(path, ledger, place, column):
    ledger.pay(gaussian(0.5), list, list)
    with closing(sqlite3.connect(path)) as connection:
        text = links(path)[place][column == "head"]
        changed = text[:-1] + ("}" if text[-1] == "0" else "0")
        connection.execute(f"UPDATE events SET {column} = ? WHERE id = ?", (changed, place + 1))
        connection.commit()
    with pytest.raises(InvalidInput, match="its history was edited: event"):
        Ledger(path)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_an_event_that_is_taken_out_is_found_on_opening(path, ledger, lost):
    ledger.charge(gaussian(0.5))
    ledger.charge(gaussian(0.1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM events WHERE id = ?", (lost + 1,))
        connection.commit()
    with pytest.raises(InvalidInput, match="its history was edited"):
        Ledger(path)


IMPOSSIBLE = [
    {"event": "settle", "charge": 1, "status": "void"},  # it is spent
    {"event": "settle", "charge": 2, "status": "void"},  # there is none
    {"event": "cap", "dataset": "default", "epsilon": 2.0, "delta": DELTA, "unit": "row"},
    {"event": "partitions", "dataset": "default", "names": ["c"], "fixed_membership": True},  # cut already
    {"event": "partitions", "dataset": "nobody", "names": ["c"], "fixed_membership": True},
    {
        "event": "create",
        "id": "0" * 32,
        "neighbours": "replace-one",
        "adaptive_costs": False,
        "strict": False,
    },
    {"event": "note", "charge": 2, "file": "m.json", "sha256": "0" * 64},  # there is none
    {"event": "note", "charge": 1, "file": "", "sha256": "0" * 64},
    {"event": "note", "charge": 1, "file": "m.json", "sha256": "0" * 63},
    {"event": "note", "charge": 1, "file": None, "sha256": "0" * 64},
    {"event": "forget"},
    ["settle"],
]


@pytest.mark.parametrize("event", IMPOSSIBLE)
def test_a_history_that_no_ledger_writes_is_refused_even_with_its_hashes(path, ledger, event):
    ledger.declare_partitions(["a"], fixed_membership=True)
    ledger.charge(gaussian(0.5))
    timed = {"time": "2026-01-01T00:00:00+00:00", **event} if isinstance(event, dict) else event
    rewrite(path, lambda events: [*events, timed])
    with pytest.raises(InvalidInput, match="event 5 is none that a ledger writes"):
        Ledger(path)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_history_has_no_parts_that_the_ledger_would_refuse(path, neighbours):
    made = Ledger.create(path, epsilon=1.0, delta=DELTA, neighbours=neighbours)
    made.declare_partitions(["a", "b"], fixed_membership=True)
    rewrite(path, lambda events: [*events[:-1], {**events[-1], "fixed_membership": False}])
    if neighbours == "add-remove":
        assert Ledger(path).partition("a").spent() == 0
        return
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)


def test_a_strict_history_holds_no_void_charge(path):
    Ledger.create(path, epsilon=1.0, delta=DELTA, strict=True).charge(gaussian(0.5))

    def forgive(events):
        return [*events[:-1], {**events[-1], "status": "open"}, IMPOSSIBLE[0]]

    rewrite(path, forgive)
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)


# Anchors.


def test_a_model_a_citation_and_a_head_are_anchors(path, ledger, tmp_path):
    model = fitted(ledger)
    save_model(model, tmp_path / "m.json")
    loaded = load_model(tmp_path / "m.json")
    assert loaded.ledger_entry_ == model.ledger_entry_ == str(Anchor.of(model))
    anchors = [model, loaded, model.ledger_entry_, Anchor.of(model).head, ledger.head]
    ledger.charge(gaussian(0.1))
    for expect in (*anchors, anchors, tuple(anchors)):
        assert Ledger(path, expect=expect).id == ledger.id
    assert Ledger.open(path, expect=model).spent() == ledger.spent()


def test_copies_that_are_charged_alike_at_once_part_ways(path, ledger, tmp_path):
    """Within one second, too: a model of one copy is not in order by the other."""
    shutil.copy(path, tmp_path / "copy.db")
    copy = Ledger(tmp_path / "copy.db")
    assert copy.head == ledger.head
    for one in (ledger, copy):
        one.charge(gaussian(0.1))
    assert copy.head != ledger.head


def test_an_older_copy_is_found(path, ledger, tmp_path):
    shutil.copy(path, tmp_path / "old.db")
    before = ledger.head
    model = fitted(ledger)
    shutil.copy(tmp_path / "old.db", path)
    for expect in (model, model.ledger_entry_, Anchor.of(model).head):
        with pytest.raises(InvalidInput, match="lost charges"):
            Ledger(path, expect=expect)
    Ledger(path, expect=before)  # as old as the copy itself: it cannot know better
    Ledger(path).charge(gaussian(0.5))  # and going on from the copy does not bring the charge back
    with pytest.raises(InvalidInput, match="is not in its history"):
        Ledger(path, expect=model)


def test_another_ledger_is_found(path, ledger):
    model = fitted(ledger)
    path.unlink()
    Ledger.create(path, epsilon=1.0, delta=DELTA)
    with pytest.raises(InvalidInput, match="another ledger"):
        Ledger(path, expect=model)
    with pytest.raises(InvalidInput, match="not in its history"):
        Ledger(path, expect=Anchor.of(model).head)


def test_a_rewritten_history_is_found_up_to_the_last_anchor(path, ledger):
    first, second = fitted(ledger), fitted(ledger)
    ledger.charge(gaussian(0.2))

    def cheaper(events):
        return [
            {**event, "cost": gaussian(0.01).to_dict()} if event["event"] == "charge" else event
            for event in events
        ]

    whole = path.read_bytes()
    rewrite(path, cheaper)
    assert Ledger(path).spent() < 0.1  # by itself the file is in order
    for model in (first, second):
        with pytest.raises(InvalidInput, match="not in its history"):
            Ledger(path, expect=model)
    path.write_bytes(whole)
    rewrite(path, lambda events: [*events[:-1], *cheaper(events[-1:])])  # what came after the last anchor
    Ledger(path, expect=[first, second])  # is not covered by it


def test_a_charge_that_was_forgiven_is_found(path, ledger):
    """A copy from before the settlement, settled otherwise: its chain holds, and the model cites a void charge."""
    model = fitted(ledger)
    rewrite(path, lambda events: [*events[:-1], {**events[-1], "status": "void"}])
    with pytest.raises(InvalidInput, match="charge 1 is void"):
        Ledger(path, expect=model)


def test_a_citation_of_another_charge_is_found(path, ledger):
    first, second = fitted(ledger), fitted(ledger)
    mixed = Anchor(ledger=ledger.id, charge=1, head=Anchor.of(second).head)
    with pytest.raises(InvalidInput, match="not that of charge 1"):
        ledger.check(str(mixed))
    ledger.check(first)


@pytest.mark.parametrize(
    "anchor", ["", "0" * 63, "g" * 64, "ledger x, charge 1", 3, None, PrivateLogisticRegression(), ["0" * 64]]
)
def test_what_is_no_anchor_is_refused(ledger, anchor):
    with pytest.raises(InvalidInput, match="head of 64 hexadecimal digits"):
        ledger.check(anchor)


def test_a_fit_without_a_ledger_is_no_anchor(ledger):
    with pytest.raises(InvalidInput, match="a model that was fitted with a ledger"):
        ledger.check(fitted(None))


# The command.


@pytest.fixture
def dperm(capsys):
    def call(*words):
        code = run([*map(str, words)])
        return code, capsys.readouterr()

    return call


def test_show_prints_identity_and_head(path, ledger, dperm):
    code, said = dperm("ledger", "show", path)
    assert code == 0
    assert f"ledger {ledger.id}\nhead   {ledger.head}\n" in said.out


def test_check_compares_models_and_heads(path, ledger, dperm, tmp_path):
    shutil.copy(path, tmp_path / "old.db")
    for name in ("a.json", "b.json"):
        save_model(fitted(ledger), tmp_path / name)
    models = [word for name in ("a.json", "b.json") for word in ("--model", tmp_path / name)]
    code, said = dperm("ledger", "check", path, *models, "--head", ledger.head)
    assert (code, said.out.count("in order.")) == (0, 3)
    assert "2 charges, history unbroken" in said.out
    code, said = dperm("ledger", "check", tmp_path / "old.db", *models, "--head", ledger.head)
    assert (code, said.out.count("NOT IN ORDER")) == (1, 3)
    code, said = dperm("ledger", "check", path)
    assert code == 0
    assert "Nothing kept outside of the file was compared" in said.out
    assert dperm("ledger", "check", path, "--head", "short")[0] == 1
    assert dperm("ledger", "check", path, "--model", path)[0] == 1


def test_check_finds_two_models_of_one_charge(path, ledger, dperm, monkeypatch):
    """What somebody would do who has more models than charges: a second one cites the charge of the first."""
    citation = fitted(ledger).ledger_entry_
    digests = {"a.json": "1", "a again.json": "1", "b.json": "2"}
    models = {
        name: SimpleNamespace(ledger_entry_=citation, certificate_={"digest": digest})
        for name, digest in digests.items()
    }
    monkeypatch.setattr("dperm.models.load_model", models.__getitem__)
    both = ("--model", "a.json", "--model", "a again.json")
    assert dperm("ledger", "check", path, *both)[0] == 0  # one model, saved twice
    code, said = dperm("ledger", "check", path, *both, "--model", "b.json")
    assert code == 1
    assert "b.json: NOT IN ORDER: another of these models cites the same charge" in said.out


def test_a_fit_can_expect_a_head(path, ledger, dperm, tmp_path):
    words = ["fit", "cps", "--epsilon", "0.2", "--delta", "1e-6", "--mechanism", "ssp", "--ledger", path]
    before = path.read_bytes()
    code, said = dperm(*words, "--expect", ledger.head, "--output", tmp_path / "a.json")
    assert code == 0
    assert f"Charged to ledger {ledger.id}, charge 1, head {ledger.entries()[0].head}." in said.err
    head = ledger.head
    path.write_bytes(before)
    code, said = dperm(*words, "--expect", head, "--output", tmp_path / "b.json")
    assert (code, (tmp_path / "b.json").exists()) == (1, False)
    assert "lost charges" in said.err
    assert dperm("fit", "cps", *words[2:-2], "--expect", head, "--output", tmp_path / "b.json")[0] == 2
