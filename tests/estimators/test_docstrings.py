"""help() of every public estimator lists what it takes and what it stores, with an example that runs."""

import doctest
import inspect
import re
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import dperm
from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PublicEncoder,
    PublicHasher,
)

ESTIMATORS = sorted(
    (
        value
        for value in map(dperm.__getattr__, dperm.__all__)
        if isinstance(value, type) and issubclass(value, BaseEstimator)
    ),
    key=lambda kind: kind.__name__,
)
MODELS = [PrivateLinearClassifier, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression]


def section(doc, title):
    """Names of the entries of a numpydoc section, one for each comma."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^(\w[\w, ]*?) :", found[1], re.MULTILINE) if found else []
    return [name.strip() for head in heads for name in head.split(",")]


def test_all_public_estimators_are_looked_at():
    assert (
        sorted([*MODELS, PrivateSearchCV, PublicEncoder, PublicHasher], key=lambda kind: kind.__name__)
        == ESTIMATORS
    )


@pytest.mark.together
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_docstring_lists_the_parameters_of_the_signature(kind):
    assert section(inspect.getdoc(kind), "Parameters") == list(inspect.signature(kind).parameters)
    assert kind.__doc__ is not kind.__mro__[1].__doc__


@pytest.mark.together
@pytest.mark.parametrize("kind", MODELS)
def test_a_default_is_shown_as_it_is(kind):
    for name, parameter in inspect.signature(kind).parameters.items():
        shown = f'"{parameter.default}"' if isinstance(parameter.default, str) else repr(parameter.default)
        assert re.search(rf"^{name} : .*, default={re.escape(shown)}$", kind.__doc__, re.MULTILINE)


@pytest.mark.together
@pytest.mark.parametrize("kind", MODELS)
def test_the_docstring_lists_what_fit_stores(kind):
    rows = np.random.default_rng(0).normal(size=(100, 2)) / 3
    settings = {"y_range": (0, 1)} if kind is PrivateLinearRegression else {"classes": [0, 1]}
    model = kind(mechanism="output", **settings).fit(rows, (rows[:, 0] > 0).astype(int))
    stored = {name for name in vars(model) if name.endswith("_")} | {"certificate_", "feature_names_in_"}
    assert set(section(inspect.getdoc(kind), "Attributes")) == stored
    assert hasattr(model, "certificate_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_example_of_the_docstring_runs(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs={})
    assert len(example.examples) >= 3
    report = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert results.failed == 0, "".join(report)


def test_no_placeholder_is_left():
    for kind in MODELS:
        assert not re.search(r"\{\w", kind.__doc__)
