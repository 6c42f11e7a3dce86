"""A comparison is identified by all that decides its results, and by nothing else."""

import dataclasses

import numpy as np
import pytest

from dperm.errors import InvalidInput
from dperm.experiments.compare import specify
from dperm.experiments.spec import (
    ORACLE_MARK,
    Configuration,
    canonical_json,
    configurations_of,
    digest_rows,
    plain_value,
    stream_code,
)
from dperm.experiments.tuning import oracle, search
from dperm.mechanisms import RSGD, RSGDAR, NoPrivacy

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), np.arange(40) % 2
GIVEN = {"dataset": "toy", "mechanisms": ["rsgd", "none"], "epsilons": [0.5, 1.0], "delta": 1e-5, "seed": 3}


def spec(X=X, y=Y, **settings):
    return specify(X, y, **{**GIVEN, **settings})[0]


def test_equal_specs_have_one_identity():
    again = spec(X.copy(), Y.tolist(), mechanisms=(RSGD(), NoPrivacy()), epsilons=(0.5, 1, 0.5))
    assert again == spec()
    assert again.identity == spec().identity
    assert len(spec().identity) == 64


CHANGES = {
    "dataset": {"dataset": "other"},
    "loss": {"loss": "svm"},
    "l2": {"l2": 2e-3},
    "x_norm": {"x_norm": 2.0},
    "delta": {"delta": 1e-6},
    "neighbours": {"neighbours": "add-remove"},
    "folds": {"folds": 4},
    "repeats": {"repeats": 5},
    "split": {"held_out": np.arange(40) < 10},
    "other split": {"held_out": np.arange(40) < 11},
    "seed": {"seed": 4},
    "no seed": {"seed": None},
    "epsilons": {"epsilons": [0.5, 1.5]},
    "order": {"mechanisms": ["none", "rsgd"]},
    "accounting": {"mechanisms": ["rsgd:paper", "none"]},
    "setting": {"mechanisms": [RSGD(epochs=3), "none"]},
    "label": {"mechanisms": {"mine": "rsgd", "none": "none"}},
    "tuning": {"mechanisms": [oracle("rsgd", epochs=[20]), "none"]},
    "rows": {"X": X + 1e-12},
    "type of rows": {"X": X.astype(np.float32)},
    "labels": {"y": 1 - Y},
}


def test_every_change_changes_the_identity():
    identities = {name: spec(**change).identity for name, change in CHANGES.items()}
    assert spec().identity not in identities.values()
    assert len(set(identities.values())) == len(CHANGES)


def test_every_field_counts():
    for field in dataclasses.fields(spec()):
        changed = dataclasses.replace(spec(), **{field.name: "something else"})
        assert changed.identity != spec().identity, field.name


def test_rows_are_digested_whole(monkeypatch):
    whole = digest_rows(X, Y, None)
    monkeypatch.setattr("dperm.experiments.spec._BLOCK", 7)
    assert digest_rows(np.asfortranarray(X), Y, None) == whole
    for place in (0, 39):
        other = X.copy()
        other[place, 1] += 1
        assert digest_rows(other, Y, None) != whole


def test_the_code_of_a_foreign_mechanism_counts(tmp_path, monkeypatch):
    text = "from dperm.mechanisms import RSGD\nclass Mine(RSGD):\n    name = 'mine'\n"
    codes = []
    for name, more in (("first_version", ""), ("second_version", "    # changed\n")):
        (tmp_path / f"{name}.py").write_text(text + more)
        monkeypatch.syspath_prepend(tmp_path)
        kind = __import__(name).Mine
        monkeypatch.setattr(kind, "__module__", name)
        codes.append(plain_value(kind())["code"].split())
    assert codes[0][1] != codes[1][1]
    assert plain_value(RSGD())["code"] == "dperm.mechanisms.output.rsgd.RSGD"


def test_configurations_of_lists_and_dicts():
    listed = configurations_of(["rsgd", "rsgd:paper", RSGDAR(epochs=3), oracle("rsgd", epochs=[1, 2])])
    assert [configuration.label for configuration in listed] == [
        "rsgd",
        "rsgd:paper",
        "rsgd-ar",
        "rsgd" + ORACLE_MARK,
    ]
    named = configurations_of({"short": RSGD(epochs=1), "long": "rsgd", "best": oracle("rsgd", epochs=[1])})
    assert [configuration.label for configuration in named] == ["short", "long", "best" + ORACLE_MARK]
    assert {configuration.mechanism for configuration in named} == {"rsgd"}
    with pytest.raises(InvalidInput, match="same name 'rsgd'.*labels"):
        configurations_of([RSGD(epochs=1), "rsgd"])


@pytest.mark.together
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Configuration(label="", candidates=(RSGD(),)), "label"),
        (lambda: Configuration(label="a", candidates=(RSGD(),), tuning="luck"), "rule, search, oracle"),
        (lambda: Configuration(label="a", candidates=(RSGD(), RSGD(epochs=3))), "search or oracle"),
        (lambda: Configuration(label="a", candidates=(RSGD(), RSGDAR()), tuning="oracle"), "one mechanism"),
        (lambda: Configuration(label="a", candidates=(), tuning="oracle"), "one mechanism"),
        (lambda: oracle("rsgd", epochs=[1, 1]), "different settings"),
        (lambda: oracle("rsgd", speed=[1]), "epochs, batch_size, step_size.*got speed"),
        (lambda: oracle("rsgd"), "got none"),
        (lambda: search("rsgd", accounting=["paper"]), "got accounting"),
    ],
)
def test_bad_configurations_are_refused(make, says):
    with pytest.raises(InvalidInput, match=says):
        make()


def test_noise_follows_name_and_settings_but_not_accounting():
    assert stream_code(RSGD()) == stream_code(RSGD(accounting="paper"))
    codes = [stream_code(mechanism) for mechanism in (RSGD(), RSGD(epochs=3), RSGD(epochs=4), RSGDAR())]
    assert len(set(codes)) == 4


def test_values_are_written_in_one_way():
    assert canonical_json({"b": np.float64(0.1), "a": (1, None, True)}) == '{"a":[1,null,true],"b":0.1}'
    assert canonical_json(float("inf")) == '"inf"'
    assert canonical_json(np.arange(2)) == "[0,1]"
    with pytest.raises(InvalidInput, match="of type function cannot be written down"):
        canonical_json({"a": lambda: None})
