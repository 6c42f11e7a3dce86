"""Saved models: exact round trips, hostile files refused, nothing half-written."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, __version__
from dperm.errors import InvalidInput
from dperm.mechanisms import DPGD, RSGD, RSGDAR, BoltOn, NoPrivacy
from dperm.models import files, load_model, read_model, save_model
from dperm.models.atomic import atomic_path
from dperm.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "label", "classes": ["no", "yes"]},
        "rows": {"spline": 0},
        "features": {"a": {"range": [0, 10]}, "kind": {"categories": ["x", "y"]}},
    }
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) / 3
    return X, (X[:, 0] + 0.1 * rng.normal(size=400) > 0)


def fitted(rows, labels=(0, 1), kind=PrivateLogisticRegression, **parameters):
    X, positive = rows
    labels = np.asarray(labels)
    return kind(**{"mechanism": "none", **parameters}).fit(X, labels[positive.astype(int)])


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize(
    "parameters",
    [
        {"mechanism": "rsgd-ar"},
        {"mechanism": "rsgd:paper", "epsilon": 0.5, "delta": 1e-5},
        {"mechanism": RSGDAR(epochs=np.int64(3), batch_size=100, accounting="paper")},
        {"mechanism": BoltOn(rule="strong-constant", step_size=0.125)},
        {"mechanism": RSGD(), "neighbours": "add-remove", "max_rows": 500, "classes": [0, 1]},
        {"mechanism": NoPrivacy(tolerance=1e-6), "fit_intercept": False},
        {"mechanism": "none", "random_state": 7, "classes": np.array([0, 1]), "l2": np.float64(0.01)},
    ],
    ids=lambda p: str(p["mechanism"])[:12],
)
def test_round_trip_is_exact(rows, tmp_path, kind, parameters):
    model = fitted(rows, kind=kind, **parameters)
    save_model(model, tmp_path / "model.json")
    copy = load_model(tmp_path / "model.json")
    assert type(copy) is kind
    assert copy.coef_.tobytes() == model.coef_.tobytes()
    assert copy.intercept_.tobytes() == model.intercept_.tobytes()
    assert copy.decision_function(rows[0]).tobytes() == model.decision_function(rows[0]).tobytes()
    assert copy.privacy_ == model.privacy_
    assert copy.certificate_ == model.certificate_
    expected = {**model.get_params(), "classes": None if model.classes is None else list(model.classes)}
    assert copy.get_params() == expected
    refitted = copy.set_params(random_state=3).fit(rows[0], model.predict(rows[0]))
    assert refitted.coef_.shape == model.coef_.shape


@pytest.mark.together
@pytest.mark.parametrize(
    "parameters",
    [
        {"mechanism": "adassp", "y_range": (0, 10)},
        {"mechanism": "output", "residual_bound": 0.5, "y_range": (-2.5, 1.0), "fit_intercept": False},
        {"mechanism": DPGD(steps=3), "y_range": (-1, 1), "neighbours": "add-remove", "max_rows": 500},
        {"mechanism": "none", "y_range": (-1, 1), "random_state": 3},
    ],
    ids=lambda p: str(p["mechanism"])[:8],
)
def test_a_regression_comes_back_as_it_was(rows, tmp_path, parameters):
    X, _ = rows
    model = PrivateLinearRegression(**parameters).fit(X, X[:, 0])
    save_model(model, tmp_path / "model.json")
    copy = load_model(tmp_path / "model.json")
    assert type(copy) is PrivateLinearRegression
    assert copy.coef_.shape == model.coef_.shape
    assert copy.predict(X).tobytes() == model.predict(X).tobytes()
    assert copy.get_params() == model.get_params()
    assert copy.privacy_ == model.privacy_
    assert copy.certificate_ == model.certificate_
    assert copy.set_params(random_state=3).fit(X, X[:, 0]).coef_.shape == model.coef_.shape


REGRESSION = [
    ("classes", [0, 1]),
    ("label_type", "str"),
    ("coefficients", [[1.0, 2.0, 3.0]]),
    ("intercept", [0.0]),
    ("intercept", None),
    ("parameters/y_range", [0.0]),
    ("parameters/y_range", [0.0, 1.0, 2.0]),
    ("parameters/y_range", "ab"),
    ("parameters/y_range", None),
    ("parameters/y_range", [0.0, "1"]),
    ("parameters/residual_bound", None),
    ("parameters/classes", None),
    ("estimator", "PrivateLinearSVC"),
    ("certificate/targets/low", "0"),
]


@pytest.mark.together
@pytest.mark.parametrize(("place", "value"), REGRESSION, ids=[f"{p}={v}" for p, v in REGRESSION])
def test_hostile_regressions_are_refused(rows, tmp_path, place, value):
    path = tmp_path / "bad.json"
    model = PrivateLinearRegression(mechanism="adassp", y_range=(-1, 1))
    save_model(model.fit(rows[0], rows[0][:, 0]), path)
    path.write_text(json.dumps(changed(json.loads(path.read_text()), place, value)))
    with pytest.raises(InvalidInput, match=r"^bad\.json is not a usable model file: "):
        load_model(path)


@pytest.mark.together
@pytest.mark.parametrize(
    "labels",
    [
        ("no", "yes"),
        (False, True),
        (-1.0, 2.0),
        np.array([3, 250], dtype=np.uint8),
        np.array([1, 3], dtype=np.float32),
        np.array(["a", "longer"], dtype=object),
    ],
    ids=lambda v: type(v[0]).__name__,
)
def test_labels_keep_their_type(rows, tmp_path, labels):
    model = fitted(rows, labels)
    save_model(model, tmp_path / "m.json")
    copy = load_model(tmp_path / "m.json")
    assert copy.classes_.dtype == model.classes_.dtype
    before, after = model.predict(rows[0]), copy.predict(rows[0])
    assert before.dtype == after.dtype
    assert before.tolist() == after.tolist()


def test_feature_names_and_schema_travel(rows, tmp_path):
    X, positive = rows
    frame = pd.DataFrame(X, columns=["a", "kind=x", "kind=y"])
    model = PrivateLogisticRegression(mechanism="none").fit(frame, positive)
    save_model(model, tmp_path / "m.json", schema=SCHEMA)
    copy, schema = read_model(tmp_path / "m.json")
    assert schema == SCHEMA
    assert copy.feature_names_in_.tolist() == list(frame.columns)
    assert copy.predict(frame).tolist() == model.predict(frame).tolist()
    document = json.loads((tmp_path / "m.json").read_text())
    assert (document["format"], document["version"], document["library"]) == ("dperm model", 1, __version__)


def test_a_schema_of_another_width_is_refused(rows, tmp_path):
    wide = Schema.from_dict({**SCHEMA.to_dict(), "features": {"a": {"range": [0, 1]}}})
    with pytest.raises(InvalidInput, match=r"1 columns.* 3 coefficients"):
        save_model(fitted(rows), tmp_path / "m.json", schema=wide)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved_is_refused(rows, tmp_path):
    class Other(PrivateLogisticRegression):
        pass

    with pytest.raises(NotFittedError):
        save_model(PrivateLogisticRegression(), tmp_path / "m.json")
    with pytest.raises(InvalidInput, match="Other"):
        save_model(fitted(rows, kind=Other), tmp_path / "m.json")
    with pytest.raises(InvalidInput, match="random_state"):
        save_model(fitted(rows, random_state=np.random.default_rng(0)), tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(rows, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("old")

    def torn(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dperm.models.atomic.os.replace", torn)
    with pytest.raises(OSError, match="No space"):
        save_model(fitted(rows), path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("m.json", "old")]


def test_atomic_path_keeps_the_old_file_when_the_block_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def torn():
        with atomic_path(path) as unfinished:
            unfinished.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        torn()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
    with atomic_path(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert [p.read_text() for p in tmp_path.iterdir()] == ["new"]


@pytest.fixture(scope="module")
def document(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    model = fitted(rows, ("no", "yes"), mechanism=RSGDAR(epochs=2))
    save_model(model, path, schema=SCHEMA)
    return json.loads(path.read_text())


def changed(document, place, value):
    copy = json.loads(json.dumps(document))
    *parents, key = place.split("/")
    inner = copy
    for parent in parents:
        inner = inner[parent]
    if value is KeyError:
        del inner[key]
    else:
        inner[key] = value
    return copy


HOSTILE = [
    ("format", "pickle"),
    ("version", 0),
    ("version", 2),
    ("version", 1.0),
    ("version", True),
    ("version", "1"),
    ("estimator", "os.system"),
    ("estimator", ["PrivateLinearSVC"]),
    ("estimator", KeyError),
    ("extra", 1),
    ("library", 3),
    ("coefficients", []),
    ("coefficients", [1.0, 2.0]),
    ("coefficients", [[1.0, 2.0, 3.0]]),
    ("coefficients", [1.0, 2.0, "3"]),
    ("coefficients", [1.0, 2.0, None]),
    ("coefficients", [1.0, 2.0, 10**400]),
    ("coefficients", {"a": 1.0}),
    ("intercept", "0"),
    ("intercept", [0.0]),
    ("classes", ["no"]),
    ("classes", ["no", "no"]),
    ("classes", ["no", ["yes"]]),
    ("classes", ["no", 1]),
    ("classes", "no"),
    ("label_type", "int8"),
    ("label_type", "datetime64[s]"),
    ("label_type", ["str"]),
    ("feature_names", ["a"]),
    ("feature_names", "abc"),
    ("feature_names", ["a", "b", 3]),
    ("parameters", []),
    ("parameters/epsilon", "1"),
    ("parameters/epsilon", True),
    ("parameters/epsilon", 10**400),
    ("parameters/delta", KeyError),
    ("parameters/extra", 1),
    ("parameters/neighbours", "next-door"),
    ("parameters/classes", {"a": 1}),
    ("parameters/max_rows", 1.5),
    ("parameters/random_state", "seed"),
    ("parameters/fit_intercept", 1),
    ("parameters/mechanism", "magic"),
    ("parameters/mechanism", 3),
    ("parameters/mechanism/name", "magic"),
    ("parameters/mechanism/name", ["rsgd"]),
    ("parameters/mechanism/name", "output"),
    ("parameters/mechanism/settings", []),
    ("parameters/mechanism/settings/epochs", 0),
    ("parameters/mechanism/settings/epochs", "2"),
    ("parameters/mechanism/settings/step_size", "large"),
    ("parameters/mechanism/settings/extra", 1),
    ("certificate", None),
    ("certificate", {}),
    ("certificate/digest", "0" * 64),
    ("certificate/guarantee", None),
    ("certificate/guarantee", {"epsilon": 0.1, "delta": 1e-6}),
    ("certificate/guarantee", "yes"),
    ("certificate/budget/epsilon", KeyError),
    ("certificate/budget/epsilon", 10**400),
    ("certificate/assumptions", "none"),
    ("certificate/assumptions", [1]),
    ("certificate/assumptions", ["One person contributes one row."]),
    ("certificate/mechanism/used", {"epochs": [1]}),
    ("certificate/mechanism/asked", {"name": "rsgd"}),
    ("certificate/problem/n_units", 1e6),
    ("certificate/releases", [{}]),
    ("certificate/releases", {}),
    ("certificate/targets", {"kind": "classes"}),
    ("certificate/targets/kind", ["classes"]),
    ("certificate/entropy/secure", 1),
    ("certificate/model/sha256", "0" * 64),
    ("certificate/model/sha256", None),
    ("certificate/libraries/numpy", 2),
    ("certificate/version", True),
    ("certificate/extra", 1),
    ("schema", []),
    ("schema/features", {"a": {"range": [0, 1]}}),
    ("schema/target", {}),
]


@pytest.mark.together
@pytest.mark.parametrize(("place", "value"), HOSTILE, ids=[f"{p}={str(v)[:20]}" for p, v in HOSTILE])
def test_hostile_documents_are_refused(document, tmp_path, place, value):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(document, place, value)))
    with pytest.raises(InvalidInput, match=r"^bad\.json is not a usable model file: "):
        load_model(path)


def test_the_unchanged_document_loads(document, tmp_path):
    path = tmp_path / "good.json"
    path.write_text(json.dumps(document))
    assert load_model(path).classes_.tolist() == ["no", "yes"]


@pytest.mark.together
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": 1, "a": 2}',
        b'{"a": 1, "\\u0061": 2}',
        b"1" * 5000,
        b"{'a': 1}",
        b"[" * 25 + b"]" * 25,
        b'{"format": "\\ud800"}',
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda t: str(t[:8]),
)
def test_what_is_not_a_model_is_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match="not a usable model file"):
        load_model(path)


@pytest.mark.together
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(document, tmp_path, number):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(document, "intercept", 12345.5)).replace("12345.5", number))
    with pytest.raises(InvalidInput, match="not a usable model file"):
        load_model(path)


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 20)
    path = tmp_path / "huge.json"
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidInput, match="larger than 1 MiB"):
        load_model(path)


def test_every_cut_of_a_file_is_refused(document, tmp_path):
    text = json.dumps(document).encode()
    path = tmp_path / "bad.json"
    for length in range(0, len(text), 97):
        path.write_bytes(text[:length])
        with pytest.raises(InvalidInput, match="not a usable model file"):
            load_model(path)


def test_half_a_character_is_refused(document, tmp_path):
    path = tmp_path / "bad.json"
    for place in ("classes", "feature_names", "parameters/classes", "certificate/assumptions"):
        value = ["no", "\ud800"] if "classes" in place else ["a", "b", "\udfff"]
        path.write_text(json.dumps(changed(document, place, value)))
        with pytest.raises(InvalidInput, match="not a usable model file"):
            load_model(path)
