"""Evaluations and mean predictions of every kind, and the forger's tools: an edit, and a digest that fits it."""

import copy
import functools
import json

import numpy as np

import dperm
from dperm import Budget, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.strict_json import digest

RNG = np.random.default_rng(0)
N = 3000
X = RNG.uniform(-0.5, 0.5, (N, 2))
SCORE = X[:, 0] + 0.2 * RNG.normal(size=N)
PERSONS = RNG.integers(0, 900, N)
WARD = RNG.choice(["A", "B"], N)
EASY = {"epsilon": 3.0, "delta": 1e-5, "random_state": 0}
BUDGET = Budget(1.0, 1e-6)
HIDDEN = {"neighbours": "add-remove", "max_rows": 9000}


def labelled(n_classes):
    return np.digitize(SCORE, np.linspace(-0.3, 0.3, n_classes + 1)[1:-1])


@functools.cache
def model(kind):
    if kind == "regression":
        return PrivateLinearRegression(y_range=(-1, 1), **EASY).fit(X, SCORE)
    if kind == "svm":
        return PrivateLinearSVC(classes=[0, 1], **EASY).fit(X, labelled(2))
    return PrivateLogisticRegression(classes=list(range(kind)), **EASY).fit(X, labelled(kind))


def evaluated(kind, budget=BUDGET, **options):
    y = SCORE if kind == "regression" else labelled(kind if isinstance(kind, int) else 2)
    return dperm.evaluate(model(kind), X, y, budget, **options)


def averaged(kind=2, budget=BUDGET, **options):
    return dperm.mean_predictions(model(kind), X, budget, **options)


BY_WARD = {"by": WARD, "values": ["A", "B"]}
CASES = {
    "two classes": lambda: evaluated(2),
    "two classes, hidden rows": lambda: evaluated(2, **HIDDEN),
    "two classes, 8 bins": lambda: evaluated(2, bins=8),
    "two classes, persons": lambda: evaluated(2, groups=PERSONS),
    "persons, hidden": lambda: evaluated(2, groups=PERSONS, **HIDDEN),
    "much noise": lambda: evaluated(2, Budget(0.01, 1e-6)),
    "svm": lambda: evaluated("svm"),
    "four classes": lambda: evaluated(4, **HIDDEN),
    "regression": lambda: evaluated("regression"),
    "regression, hidden rows": lambda: evaluated("regression", error_bound=0.5, **HIDDEN),
    "regression, persons": lambda: evaluated("regression", groups=PERSONS),
    "means": lambda: averaged(**BY_WARD),
    "means, hidden rows": lambda: averaged(**BY_WARD, other="elsewhere", bounds=(0.1, 0.9), **HIDDEN),
    "means of all": lambda: averaged("regression"),
    "means, persons": lambda: averaged(**BY_WARD, groups=PERSONS),
}
NOT_PRIVATE = {
    "seeded": lambda: evaluated(2, random_state=0),
    "seeded means": lambda: averaged(random_state=0),
    "local": lambda: evaluated(2, None, local=True),
    "local regression": lambda: evaluated("regression", None, local=True),
    "local, persons": lambda: evaluated(2, None, local=True, groups=PERSONS),
}


@functools.cache
def _made(name):
    return (CASES | NOT_PRIVATE)[name]()


def document_of(name):
    """As a file holds it; the caller may change it."""
    return json.loads(json.dumps(_made(name).to_dict()))


def signed(document):
    """The same with a digest that fits: who edits a file computes it anew."""
    body = {key: value for key, value in document.items() if key != "digest"}
    return {**body, "digest": digest(body)}


def edited(document, path, value):
    """With another value at a path of keys and places; ``value`` may be a function of the old one."""
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return signed(document)


def leaves(value, path=()):
    """Paths to all that is neither an object nor a list."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path
