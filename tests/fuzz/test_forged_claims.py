"""Edits of every kind of file that states a claim: none is accepted with a smaller one; and controls that are."""

import json
import math
import random

import pytest
from claims import (
    ACCEPTED,
    CRASHED,
    KINDS,
    REFUSED,
    SMALLER,
    UNCHANGED,
    Claim,
    Evaluation,
    LedgerFile,
    ManifestFile,
    Means,
    Model,
    tried,
)

import dperm
from dperm.strict_json import digest
from mutations import CLAIMING, forged

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("files"))


def check(kind, count):
    counted, found = tried(kind, 0, range(count))
    assert found == []
    assert counted[SMALLER] == counted[CRASHED] == 0
    assert counted[REFUSED] > 0.7 * count, "edits of a file should be found, most of them"
    assert counted[ACCEPTED] + counted[UNCHANGED] > 0


def test_no_edit_lowers_a_claim(kind):
    check(kind, 100 if kind.name == "ledger" else 300)  # each edit of a ledger writes a file and opens it


@pytest.mark.slow
def test_no_edit_of_twenty_thousand_lowers_a_claim(kind):
    check(kind, 20_000)


def test_a_model_without_its_threshold_claims_what_the_model_cost(tmp_path):
    """What a threshold cost stands in the ledger; a file that does not hold one claims nothing of it."""
    kind = Model(tmp_path)
    ((number, document),) = [(k, one) for k, one in enumerate(kind.documents) if "thresholds" in one]
    before = kind.sealed({key: value for key, value in document.items() if key != "thresholds"})
    assert kind.judge(number, before) == ACCEPTED
    assert kind.claim(json.dumps(before).encode()).epsilon == document["certificate"]["budget"]["epsilon"]
    cheaper = json.loads(json.dumps(before))
    cheaper["certificate"]["budget"]["epsilon"] /= 2
    assert kind.judge(number, kind.sealed(cheaper)) == REFUSED


def test_files_are_read_as_they_are(kind):
    for number, document in enumerate(kind.documents):
        content = ["sealed", document] if isinstance(kind, LedgerFile) else document
        assert kind.judge(number, content) == UNCHANGED


# The controls.


def test_what_counts_as_a_smaller_claim():
    claim = Claim("one row", "replace-one", 1.0, 1e-6)
    for other in (
        claim._replace(epsilon=0.9),
        claim._replace(delta=1e-7),
        claim._replace(unit="one person"),
        claim._replace(relation="add-remove", epsilon=2.0),
    ):
        assert other.less_than(claim)
    for other in (claim, claim._replace(epsilon=2.0), claim._replace(epsilon=math.inf, unit="one person")):
        assert not other.less_than(claim)
    assert claim.less_than(claim._replace(epsilon=math.inf))


class Believing(Means):
    """Reads files as if they told the truth."""

    def claim(self, raw):
        held = json.loads(raw)
        if digest({key: value for key, value in held.items() if key != "digest"}) != held.get("digest"):
            raise dperm.errors.InvalidInput("changed.")
        told = held["budget"] if held["private"] else {"epsilon": math.inf, "delta": math.inf}
        return Claim(str(held["unit"]), str(held["relation"]), float(told["epsilon"]), float(told["delta"]))


def test_a_reader_that_believes_a_file_is_found(tmp_path):
    counted, found = tried(Believing(tmp_path), 0, range(300))
    assert counted[SMALLER] > 3
    assert any("/budget/epsilon" in line for line in found)


def test_a_ledger_without_anchors_is_no_proof_against_new_hashes(tmp_path, monkeypatch):
    """The chain is a record with a memory outside, not a signature: docs/ledger.md."""
    kind = LedgerFile(tmp_path)
    events = kind.documents[0]
    dear = {"parts": [{"kind": "gaussian", "mu": 0.2}]}
    (cheaper,) = [place for place, event in enumerate(events) if event.get("cost") == dear]
    history = json.loads(json.dumps(events))
    history[cheaper]["cost"]["parts"][0]["mu"] = 0.01
    assert kind.judge(0, ["sealed", history]) == REFUSED
    opened = kind._opened
    monkeypatch.setattr(kind, "_opened", lambda raw, anchors: opened(raw, []))
    assert kind.judge(0, ["sealed", history]) == SMALLER
    assert kind.judge(0, ["old heads", history]) == REFUSED


def test_rows_that_are_not_there_are_found_once_nobody_counts_them(tmp_path, monkeypatch):
    kind = ManifestFile(tmp_path)
    told = json.loads(json.dumps(kind.documents[0]))
    told["shards"][-1]["rows"] += 5
    assert kind.judge(0, kind.sealed(told)) == REFUSED
    monkeypatch.setattr("dperm.data.folder.FolderShards.labels", lambda self, shard: None)
    monkeypatch.setattr("dperm.data.folder.FolderShards.persons", lambda self, shard: None)
    assert kind.judge(0, kind.sealed(told)) == SMALLER


@pytest.mark.parametrize("Kind", [Model, Evaluation, Means])
def test_forgers_look_at_what_a_claim_rests_on(Kind, tmp_path):
    kind = Kind(tmp_path)
    rng = random.Random(0)
    before = kind.documents[0]
    changed = [forged(rng, before, kind.documents) for _ in range(400)]
    assert kind.documents[0] == before
    assert sum(other != before for other in changed) > 300
    assert (
        sum(
            json.dumps(other).count('"epsilon"') != json.dumps(before).count('"epsilon"') for other in changed
        )
        > 6
    )
    assert "epsilon" in CLAIMING
