"""Settings are frozen at fit: no parameter that is set afterwards changes what a fitted model says, gives or saves."""

import copy
import json
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

import dperm
from dperm import (
    Ledger,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from dperm.losses import HuberHinge, Logistic

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning", "ignore::UserWarning")

RNG = np.random.default_rng(23)
X = RNG.uniform(-0.5, 0.5, (400, 3))
LABELS = (X[:, 0] + 0.2 * RNG.normal(size=400) > 0).astype(int)
THREE = (X[:, 0] > -0.1).astype(int) + (X[:, 1] > 0.1)
NUMBERS = 3 * X[:, 0] + RNG.normal(size=400)
IDS = np.arange(400) // 2
REMOVABLE = {"neighbours": "add-remove", "max_rows": 450}
OTHERS = {
    "epsilon": 7.0,
    "delta": 1e-3,
    "mechanism": "rsgd-ar",
    "l2": 0.7,
    "x_norm": 0.01,
    "classes": ["no", "yes"],
    "positive": 0,
    "fit_intercept": False,
    "max_rows": 9,
    "class_weight": {1: 50.0},
    "sample_weight_bound": 3.0,
    "person_loss": "sum",
    "max_rows_per_person": 2,
    "y_range": (-1000.0, 1000.0),
    "residual_bound": 0.1,
    "dataset": "another",
    "mean_candidates": 3.0,
    "runs": "poisson",
    "validation": 0.5,
    "scoring": "roc_auc",
    "refit_share": 0.5,
    "public_data": (X, LABELS),
    "cv": 3,
    "param_grid": {"l2": [5.0]},
    "estimator": PrivateLinearSVC(),
}


def made(kind):
    if kind == "search":
        model = PrivateLogisticRegression(classes=[0, 1], mechanism="output")
        return PrivateSearchCV(model, {"l2": [1e-2, 1e-1]}, epsilon=2.0, delta=1e-6).fit(X, LABELS)
    model, y, groups = {
        "logistic": (PrivateLogisticRegression(classes=[0, 1]), LABELS, None),
        "removable": (
            PrivateLogisticRegression(classes=[0, 1], mechanism="output", **REMOVABLE),
            LABELS,
            None,
        ),
        "persons": (PrivateLogisticRegression(classes=[0, 1], mechanism="output"), LABELS, IDS),
        "weighted": (
            PrivateLogisticRegression(classes=[0, 1], mechanism="output", class_weight={0: 1.0, 1: 4.0}),
            LABELS,
            None,
        ),
        "hinge": (PrivateLinearSVC(classes=[0, 1], mechanism="output"), LABELS, None),
        "own loss": (
            PrivateLinearClassifier(loss=Logistic(), classes=[0, 1], mechanism="output"),
            LABELS,
            None,
        ),
        "softmax": (PrivateLogisticRegression(classes=[0, 1, 2], mechanism="dp-gd"), THREE, None),
        "regression": (PrivateLinearRegression(y_range=(-4, 4), mechanism="output"), NUMBERS, None),
        "intervals": (PrivateLogisticRegression(classes=[0, 1], inference=True, epsilon=5.0), LABELS, None),
    }[kind]
    return model.fit(X, y) if groups is None else model.fit(X, y, groups=groups)


KINDS = (
    "logistic",
    "removable",
    "persons",
    "weighted",
    "hinge",
    "own loss",
    "softmax",
    "regression",
    "intervals",
    "search",
)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    return request.param, made(request.param)


def another(name, value, folder):
    """A value that the parameter does not have; of most it is one that the fit would have taken."""
    if name == "ledger":
        return Ledger.create(folder / f"{len(list(folder.iterdir()))}.db", epsilon=1.0, delta=1e-6)
    if name == "neighbours":
        return "add-remove" if value == "replace-one" else "replace-one"
    if name == "loss":
        return HuberHinge() if isinstance(value, Logistic) else "absolute"
    if name == "random_state":
        return np.random.default_rng(1)
    if name == "inference":
        return not value
    return OTHERS[name]


def acts(kind, model, folder):
    """All that a fitted model can do, as comparable values."""
    inner = getattr(model, "best_estimator_", model)
    y = {"softmax": THREE, "regression": NUMBERS}.get(kind, LABELS)
    groups = {"groups": IDS} if kind == "persons" else {}
    done = {
        "predict": model.predict(X).tolist(),
        "score": model.score(X, y),
        "text": str(model.privacy_),
        "dict": model.privacy_.to_dict(),
        "page": model.privacy_._repr_html_(),
        "certificate": inner.certificate_,
        "summary": str(inner.summary()),
    }
    for name in ("decision_function", "predict_proba"):
        done[name] = getattr(model, name)(X).tolist() if hasattr(model, name) else None
    inner.save(folder / "model.json")
    done["file"] = (folder / "model.json").read_bytes()
    if kind == "intervals":
        done["intervals"] = str(inner.confidence_intervals())
    budget, seed = dperm.Budget(1.0, 1e-6), {"random_state": 5}
    done["evaluation"] = dperm.evaluate(model, X, y, budget, **groups, **seed).to_dict()
    if hasattr(inner, "predict_proba") or kind == "regression":
        label = {"label": 1} if kind == "softmax" else {}
        done["means"] = dperm.mean_predictions(model, X, budget=budget, **label, **groups, **seed).to_dict()
    if find_spec("onnx"):
        dperm.export_onnx(inner, folder / "model.onnx")
        done["onnx"] = (folder / "model.onnx").read_bytes()
    if kind not in ("softmax", "regression"):
        tuned = copy.deepcopy(inner).tune_threshold(X, y, epsilon=0.5, **groups, **seed)
        done["threshold"] = tuned.threshold_.to_dict()
        done["total"] = tuned.privacy_.to_dict()
        tuned.save(folder / "tuned.json")
        done["tuned file"] = (folder / "tuned.json").read_bytes()
        done["tuned predict"] = tuned.predict(X).tolist()
    return done


def test_no_parameter_changes_what_a_fitted_model_does(fitted, tmp_path):
    kind, model = fitted
    before = acts(kind, model, tmp_path)
    parameters = model.get_params(deep=False)
    for name, value in parameters.items():
        changed, other = copy.deepcopy(model), another(name, value, tmp_path)
        assert str(other) != str(value), name
        changed.set_params(**{name: other})
        assert changed.get_params(deep=False)[name] is other  # as scikit-learn expects
        assert (
            str(clone(changed).get_params(deep=False)[name]).split(" at ")[0] == str(other).split(" at ")[0]
        )
        after = acts(kind, changed, tmp_path)
        assert [act for act in before if before[act] != after[act]] == [], name
    assert len(parameters) >= 14


def test_all_parameters_at_once_and_the_file_verifies(fitted, tmp_path):
    kind, model = fitted
    changed = copy.deepcopy(model)
    for name, value in model.get_params(deep=False).items():
        setattr(changed, name, another(name, value, tmp_path))
    inner = getattr(changed, "best_estimator_", changed)
    inner.save(tmp_path / "m.json")
    verdict = dperm.verify(tmp_path / "m.json")
    assert verdict.accepted, verdict.failures
    assert verdict.ok == (kind != "search")
    loaded = dperm.load_model(tmp_path / "m.json")
    kept = (getattr(model, "best_estimator_", model)).get_params(deep=False)
    for name, value in loaded.get_params(deep=False).items():
        assert value == kept[name] or str(value) == str(kept[name]), name


def test_a_loaded_model_is_frozen_too(tmp_path):
    made("removable").save(tmp_path / "m.json")
    loaded = dperm.load_model(tmp_path / "m.json").set_params(
        neighbours="replace-one", max_rows=None, epsilon=0.1
    )
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()
    loaded.tune_threshold(X, LABELS, epsilon=0.5)
    assert loaded.threshold_.neighbours == "add-remove"
    assert loaded.threshold_.n_units == 450


def test_parameters_changed_in_place_change_nothing(tmp_path):
    classes, weights = [0, 1], {0: 1.0, 1: 4.0}
    model = PrivateLogisticRegression(classes=classes, class_weight=weights, mechanism="output").fit(
        X, LABELS
    )
    model.save(tmp_path / "m.json")
    classes[1], weights[1] = 7, 9.0
    model.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def test_the_next_fit_takes_what_was_set(tmp_path):
    model = made("weighted").set_params(epsilon=3.0, class_weight=None).fit(X, LABELS)
    assert model.privacy_.epsilon == 3.0
    model.save(tmp_path / "m.json")
    stored = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["parameters"]
    assert stored["epsilon"] == 3.0
    assert stored["class_weight"] is None


def test_a_generator_cannot_be_stored_whatever_is_set_later(tmp_path):
    model = PrivateLogisticRegression(classes=[0, 1], random_state=np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, LABELS)
    model.set_params(random_state=None)
    with pytest.raises(dperm.errors.InvalidInput, match="random_state holds a Generator"):
        model.save(tmp_path / "m.json")
    assert model.privacy_.guarantee is None
