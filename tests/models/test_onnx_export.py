"""Exported graphs predict what the model predicts, from encoded rows and from raw columns, and name its guarantee."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline

from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PublicEncoder,
    export_onnx,
    save_model,
)
from dperm.errors import InvalidInput, Unsupported
from dperm.mechanisms import DPGD, Output
from dperm.schema import Schema, encode

onnx = pytest.importorskip("onnx", reason="onnx is an extra")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime checks what onnx wrote")

N = 400
FEATURES = {
    "age": {"range": [18, 90], "missing": [999]},
    "income": {"range": [0, 1e5], "log": True, "indicator": True, "spline": 5, "centre": 2e4},
    "height": {"range": [1, 2], "spline": 0},
    "visits": {"range": [0, 50], "bins": [1, 5, 20]},
    "home": {"categories": ["rent", "own", "other"], "missing": ["?"]},
    "grade": {"categories": [1, 2, 5], "missing": [9], "missing_as": 5},
    "member": {"categories": [True, False]},
}


def people(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.choice([999, 10, 25, 47.5, 120], N),
            "income": np.where(rng.random(N) < 0.1, np.nan, rng.exponential(3e4, N)),
            "height": rng.normal(1.7, 0.3, N),
            "visits": rng.integers(0, 60, N).astype(float),
            "home": rng.choice(["rent", "own", "other", "?", "tent", ""], N),
            "grade": rng.choice([1.0, 2.0, 5.0, 9.0, 7.0, np.nan], N),
            "member": rng.random(N) < 0.5,
        }
    )


def schema(classes=("no", "yes"), **rows):
    target = {"name": "t", "classes": list(classes)} if classes else {"name": "t", "range": [0, 100]}
    return Schema.from_dict({"target": target, "features": FEATURES, **({"rows": rows} if rows else {})})


def labels(classes, frame):
    return np.array(classes)[np.random.default_rng(1).integers(0, len(classes), len(frame))]


def run(path, inputs):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def columns(frame):
    kinds = {"home": object, "member": np.bool_}
    return {name: frame[[name]].to_numpy(kinds.get(name, np.float64)) for name in frame}


def check(model, found, X):
    assert (found["label"] == model.predict(X)).mean() > 0.99  # a margin may be 0 to rounding
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=2e-6)


MODELS = {
    "auto": lambda classes: PrivateLogisticRegression(classes=classes),
    "bounded": lambda classes: PrivateLogisticRegression(
        classes=classes, mechanism=DPGD(standardise="bounded")
    ),
    "output": lambda classes: PrivateLogisticRegression(
        classes=classes, mechanism=Output(), l2=0.01, x_norm=0.4
    ),
    "hard": lambda classes: PrivateLinearClassifier(
        loss="hard-clipped-logistic", classes=classes, mechanism="dp-gd"
    ),
    "margin": lambda classes: PrivateLinearClassifier(
        loss="margin-logistic", classes=classes, mechanism="dp-gd"
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("raw", [False, True])
def test_a_graph_predicts_what_the_model_predicts(kind, raw, tmp_path):
    declared, frame = schema(), people()
    model = MODELS[kind](["no", "yes"])
    model.fit(encode(frame, declared), labels(["no", "yes"], frame))
    path = tmp_path / "model.onnx"
    export_onnx(model, path, raw=raw, schema=declared)
    new = people(seed=7)
    X = encode(new, declared)
    check(model, run(path, columns(new) if raw else {"X": X.astype(np.float32)}), X)


@pytest.mark.parametrize("raw", [False, True])
def test_several_classes_of_numbers(raw, tmp_path):
    declared, frame = schema((1, 2, 4)), people()
    pipeline = make_pipeline(PublicEncoder(declared), PrivateLogisticRegression(classes=[1, 2, 4]))
    pipeline.fit(frame, labels([1, 2, 4], frame))
    export_onnx(pipeline, tmp_path / "model.onnx", raw=raw)
    X = encode(frame, declared)
    found = run(tmp_path / "model.onnx", columns(frame) if raw else {"X": X.astype(np.float32)})
    assert found["label"].dtype == np.int64
    check(pipeline[-1], found, X)


def test_crossed_features_and_shortened_rows(tmp_path):
    declared, frame = schema(cross=[["home", "visits"], ["grade", "member"]], norm_share=0.5), people()
    model = PrivateLogisticRegression(classes=["no", "yes"])
    model.fit(encode(frame, declared), labels(["no", "yes"], frame))
    save_model(model, tmp_path / "model.json", schema=declared)
    export_onnx(tmp_path / "model.json", tmp_path / "model.onnx", raw=True)
    check(model, run(tmp_path / "model.onnx", columns(frame)), encode(frame, declared))


def test_dates_come_as_days(tmp_path):
    """Every day of 400 years around 1970, so that every leap day is among them, and some hours."""
    declared = Schema.from_dict(
        {
            "target": {"name": "t", "classes": ["no", "yes"]},
            "features": {
                "seen": {
                    "date": ["1800-01-01", "2199-12-31"],
                    "cycles": ["month", "weekday", "hour"],
                    "missing": ["1900-01-01"],
                    "indicator": True,
                    "spline": 5,
                }
            },
        }
    )
    days = np.append(np.arange(-62_200.0, 84_010.0), np.nan)
    days[::3] += np.arange(len(days[::3])) % 24 / 24 + 1 / 97
    stamps = np.full(len(days), "NaT", "M8[ms]")
    stamps[:-1] = np.round(days[:-1] * 86_400_000).astype("M8[ms]")
    X = encode({"seen": pa.array(stamps)}, declared)
    model = PrivateLogisticRegression(classes=["no", "yes"], epsilon=50.0, mechanism="output")
    model.fit(X[:N], labels(["no", "yes"], X[:N]))
    export_onnx(model, tmp_path / "m.onnx", raw=True, schema=declared)
    asked = days.copy()
    asked[:-1] = stamps[:-1].astype(np.int64) / 86_400_000
    check(model, run(tmp_path / "m.onnx", {"seen": asked[:, None]}), X)


def test_a_regression_gives_a_number_and_a_machine_gives_scores(tmp_path):
    declared, frame = schema(classes=()), people()
    X = encode(frame, declared)
    model = PrivateLinearRegression(y_range=(0, 100)).fit(X, frame["height"] * 40)
    export_onnx(model, tmp_path / "r.onnx", raw=True, schema=declared)
    np.testing.assert_allclose(
        run(tmp_path / "r.onnx", columns(frame))["variable"][:, 0], model.predict(X), rtol=1e-5, atol=1e-4
    )
    machine = PrivateLinearSVC(classes=[False, True], mechanism="output", l2=0.1).fit(X, X[:, 0] > 0)
    export_onnx(machine, tmp_path / "m.onnx")
    found = run(tmp_path / "m.onnx", {"X": X.astype(np.float32)})
    assert found["label"].dtype == np.bool_
    np.testing.assert_allclose(found["scores"][:, 0], machine.decision_function(X), atol=1e-5)


def test_the_metadata_name_the_guarantee_and_the_certificate(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2)) / 3
    model = PrivateLogisticRegression(epsilon=0.5, delta=1e-7, classes=[0, 1]).fit(X, X[:, 0] > 0)
    export_onnx(model, tmp_path / "m.onnx")
    told = {each.key: each.value for each in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert told["dperm.epsilon"] == "0.5"
    assert told["dperm.delta"] == "1e-07"
    assert told["dperm.certificate"] == model.certificate_["digest"]
    bare = PrivateLogisticRegression(mechanism="none", classes=[0, 1], l2=0.1).fit(X, X[:, 0] > 0)
    export_onnx(bare, tmp_path / "m.onnx")
    told = {each.key: each.value for each in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert told["dperm.epsilon"] == ""
    assert told["dperm.guarantee"].startswith("NOT PRIVATE")


def test_what_cannot_be_expressed_is_refused_and_nothing_is_written(tmp_path):
    hashed = Schema.from_dict(
        {"target": {"name": "t", "classes": [0, 1]}, "features": {"note": {"hashed": 8, "words": True}}}
    )
    named = Schema.from_dict(
        {"target": {"name": "t", "classes": [0, 1]}, "features": {"label": {"range": [0, 1], "spline": 7}}}
    )
    folded = Schema.from_dict(
        {
            "target": {"name": "t", "classes": [0, 1]},
            "features": {"a": {"categories": list("abcdefgh"), "fold": True}},
        }
    )
    X = np.random.default_rng(0).normal(size=(100, 8)) / 9
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, X[:, 0] > 0)
    for declared, word in (
        (hashed, "cannot express"),
        (folded, "cannot express"),
        (named, "name of an output"),
    ):
        with pytest.raises(Unsupported, match=word):
            export_onnx(model, tmp_path / "m.onnx", raw=True, schema=declared)
    with pytest.raises(InvalidInput, match="needs a schema"):
        export_onnx(model, tmp_path / "m.onnx", raw=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("declared", [["nein", "ja"], ["tief", "mitte", "hoch"]])
def test_classes_that_are_declared_unsorted(declared, tmp_path):
    frame = people()
    X = encode(frame, schema(declared))
    y = np.array(declared)[np.digitize(frame["height"], [1.6, 1.8][: len(declared) - 1])]
    model = PrivateLogisticRegression(classes=declared, mechanism="output", epsilon=20.0).fit(X, y)
    if len(declared) == 2:
        model.tune_threshold(X, y, epsilon=5.0, objective="recall>=0.9")
    export_onnx(model, tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", {"X": X.astype(np.float32)})
    check(model, found, X)
    assert (found["label"] == y).mean() > 0.5
