"""Comparisons under add-remove with a declared capacity: models are planned for it and judged on their rows."""

import numpy as np
import pytest

from dperm import Budget, PrivateLogisticRegression
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare
from dperm.experiments.results import Study
from dperm.losses import Logistic
from dperm.mechanisms import resolve
from dperm.problem import INTERCEPT_SCALE, Problem
from dperm.unit import Neighbours

RNG = np.random.default_rng(0)
X = RNG.normal(size=(201, 3)) / 3
Y = np.where(X[:, 0] + 0.2 * RNG.normal(size=201) > 0, 1, 0)


def results(mechanisms, n=201, **settings):
    given = {
        "epsilons": [1.0],
        "delta": 1e-6,
        "folds": 2,
        "repeats": 1,
        "l2": 0.01,
        "neighbours": "add-remove",
    }
    return compare(X[:n], Y[:n], dataset="capacity", mechanisms=mechanisms, **{**given, **settings})


@pytest.mark.parametrize("name", ["output", "rsgd", "dp-gd", "objective", "ssp"])
def test_models_are_planned_for_the_capacity(name):
    found = results([name], max_rows=500)
    problem = Problem(
        loss=Logistic(), l2=0.01, x_norm=1.0, n_rows=500, n_features=3, intercept=INTERCEPT_SCALE,
        neighbours=Neighbours.ADD_REMOVE,
    )  # fmt: skip
    scale = resolve(name).plan(problem, Budget(1.0, 1e-6)).noise.scale
    assert found["noise_scale"].to_pylist() == [scale, scale]
    assert Study.of(found).max_rows == 500


def test_models_are_trained_on_a_table_filled_up_and_judged_on_their_rows():
    """The minimiser without noise is that of the estimator with the same capacity, on the published part."""
    held_out = np.arange(len(X)) % 2 == 1
    found = results(["none"], max_rows=500, held_out=held_out)
    model = PrivateLogisticRegression(
        mechanism="none", l2=0.01, classes=[0, 1], neighbours="add-remove", max_rows=500
    ).fit(X[~held_out], Y[~held_out])
    assert found["accuracy"].to_pylist() == [pytest.approx(model.score(X[held_out], Y[held_out]))]
    signs = 2 * Y[~held_out] - 1
    rows = X[~held_out] * np.minimum(1, 1 / np.linalg.norm(X[~held_out], axis=1))[:, None]
    loss = np.logaddexp(0, -signs * (rows @ model.coef_[0] + model.intercept_)).mean()
    weights = np.append(model.coef_[0], model.intercept_ / INTERCEPT_SCALE)
    assert found["objective"].to_pylist() == [pytest.approx(loss + 0.005 * weights @ weights, rel=1e-4)]


@pytest.mark.parametrize("name", ["output", "none"])
def test_without_a_capacity_it_is_the_number_of_training_rows(name):
    bare, full, wider = (results([name], n=200, max_rows=rows) for rows in (None, 100, 150))
    for column in ("accuracy", "objective", "noise_scale"):
        assert bare[column].equals(full[column])
    assert not bare["objective"].equals(wider["objective"])


def test_oracles_and_searches_take_it_too():
    from dperm.experiments.tuning import oracle, search

    found = results(
        [oracle("output", tolerance=[1e-4, 1e-3]), search("output", tolerance=[1e-4, 1e-3])], max_rows=300
    )
    assert len(found) == 4


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="more training rows than max_rows"):
        results(["output"], max_rows=100)
    with pytest.raises(InvalidInput, match="belongs to neighbours='add-remove'"):
        results(["output"], max_rows=500, neighbours="replace-one")
    with pytest.raises(InvalidInput):
        results(["output"], max_rows=0)


def test_a_capacity_is_a_part_of_the_identity():
    assert len({Study.of(results(["majority"], max_rows=rows)).identity for rows in (None, 300, 301)}) == 3
