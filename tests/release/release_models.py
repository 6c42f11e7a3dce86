"""Small fitted models of every kind, and what a deployment file may say about them."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

from dperm import (
    Ledger,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    save_model,
)
from dperm.errors import PrivacyWarning
from dperm.mechanisms import DPGD, FrankWolfe, Output
from dperm.schema import Schema
from noise_stream import kept

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
N = 400

SCHEMA = {
    "target": {"name": "owns", "classes": ["no", "yes"]},
    "rows": {"spline": 0},
    "features": {
        "age": {"range": [18, 90]},
        "home": {"categories": ["rent", "own", "other"]},
    },
}

ANSWERS = {
    "product": {
        "name": "Who owns",
        "description": "Predicts who owns a home.",
        "version": "2",
        "purpose": "Planning.",
        "audience": "The council.",
        "access": "public",
        "releases": "one",
        "future": "None.",
        "publication_date": "2026-12-01",
    },
    "dataset": {
        "name": "Homes 2025",
        "description": "One row for each household.",
        "region": "Exampleland",
        "sector": "Government",
        "source": "static",
        "most_rows_per_person": 3,
        "collection": "By letter.",
    },
    "curator": {"organisations": ["City of Example"], "contact": "data@city.example"},
    "made_by": [{"name": "A. Analyst", "role": "statistician", "contact": "a@city.example"}],
    "approved_by": [{"name": "P. Officer", "role": "data protection officer"}],
    "privacy": {
        "justification": "The council allows 1.",
        "preprocessing": "None.",
        "actors": "Two analysts.",
        "security": "A locked room.",
        "other_releases": "None so far.",
    },
    "registry": {"authors": ["A. Analyst"], "sources": ["https://city.example/homes"], "notes": "A test."},
}


def data(columns=4):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, columns)) / 3
    return X, X[:, 0] + 0.1 * rng.normal(size=N)


def _classes(score, count=2):
    return np.digitize(score, [0.0, 0.3][: count - 1])


def _logistic(folder):
    X, score = data()
    model = PrivateLogisticRegression(mechanism="output", classes=["no", "yes"])
    return model.fit(X, np.array(["no", "yes"])[_classes(score)]), Schema.from_dict(SCHEMA)


def _no_schema(folder):
    return _logistic(folder)[0], None


def _svm(folder):
    X, score = data()
    return PrivateLinearSVC(mechanism="output", classes=[0, 1]).fit(X, _classes(score)), None


def _softmax(folder):
    X, score = data()
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1, 2])
    return model.fit(X, _classes(score, 3)), None


def _regression(folder):
    X, score = data()
    return PrivateLinearRegression(mechanism="adassp", y_range=(-2, 2)).fit(X, score), None


def _removable(folder):
    X, score = data()
    model = PrivateLogisticRegression(
        mechanism="output", classes=[0, 1], neighbours="add-remove", max_rows=500
    )
    return model.fit(X, _classes(score)), None


def _persons(folder):
    """Of three rows each."""
    X, score = data()
    model = PrivateLogisticRegression(mechanism="output", classes=["no", "yes"])
    labels = np.array(["no", "yes"])[_classes(score)]
    return model.fit(X, labels, groups=np.arange(N) // 3), Schema.from_dict(SCHEMA)


def _removable_persons(folder):
    X, score = data()
    model = PrivateLogisticRegression(
        mechanism="output",
        classes=[0, 1],
        neighbours="add-remove",
        max_rows=200,
        person_loss="sum",
        max_rows_per_person=2,
    )
    return model.fit(X, _classes(score), groups=np.arange(N) // 3), None


def _pure(folder):
    X, score = data()
    model = PrivateLogisticRegression(mechanism=FrankWolfe(steps=3), delta=0.0, classes=[0, 1])
    return model.fit(X, _classes(score)), None


def _steps(folder):
    """A mechanism of which some sensitivities cannot be checked."""
    X, score = data()
    return PrivateLogisticRegression(mechanism=DPGD(steps=5), classes=[0, 1]).fit(X, _classes(score)), None


def _standardised(folder):
    X, score = data()
    model = PrivateLogisticRegression(mechanism=Output(standardise=True), classes=[0, 1])
    return model.fit(X, _classes(score)), None


def _intervals(folder):
    X, score = data()
    return PrivateLogisticRegression(classes=[0, 1], inference=True).fit(X, _classes(score)), None


def _seeded(folder):
    X, score = data()
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1], random_state=0)
    return model.fit(X, _classes(score)), None


def _baseline(folder):
    X, score = data()
    return PrivateLogisticRegression(mechanism="none", classes=[0, 1]).fit(X, _classes(score)), None


def _searched(folder):
    X, score = data()
    inner = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
    search = PrivateSearchCV(inner, {"l2": [0.01, 0.1]}, epsilon=1.0, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return search.fit(X, _classes(score)).best_estimator_, None


def _paid(folder):
    X, score = data()
    ledger = Ledger.create(folder / "budget.db", 2.0, 1e-5)
    for epsilon in (0.3, 0.8, 0.2):  # the second is the model
        model = PrivateLogisticRegression(
            epsilon=epsilon, delta=1e-6, mechanism="output", classes=[0, 1], ledger=ledger
        ).fit(X, _classes(score))
        if epsilon == 0.8:
            kept = model
    return kept, None


MODELS = {
    "logistic": _logistic,
    "no schema": _no_schema,
    "svm": _svm,
    "softmax": _softmax,
    "regression": _regression,
    "removable": _removable,
    "persons": _persons,
    "removable persons": _removable_persons,
    "pure": _pure,
    "steps": _steps,
    "standardised": _standardised,
    "intervals": _intervals,
    "paid": _paid,
    "seeded": _seeded,
    "baseline": _baseline,
    "searched": _searched,
}
PRIVATE = tuple(name for name in MODELS if name not in ("seeded", "baseline", "searched"))

PERSONS = ("persons", "removable persons")

_FOLDER = tempfile.TemporaryDirectory()


@kept
def model_file(name):
    """The file of a model, made once; beside it what it was made with."""
    folder = Path(_FOLDER.name) / name.replace(" ", "-")
    folder.mkdir()
    model, schema = MODELS[name](folder)
    save_model(model, folder / "model.json", schema=schema)
    return folder / "model.json"
