"""The stated deviations are those of released numbers over many fits; each claim has a control that must fail."""

import numpy as np
import pytest
from scipy.stats import chi2

from dperm import PrivateLinearSVC, PrivateLogisticRegression, summary
from dperm.datasets import load_adult
from dperm.mechanisms import DPGD, Objective, Output, registered
from dperm.models.deviations import weight_noise
from dperm.models.summary import summary_of
from dperm.schema import Schema, encode

pytestmark = pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning", "ignore::dperm.UtilityWarning")
FITS = 60
PLAIN_OBJECTIVE = Objective(standardise=False)  # weights are then the coefficients


def released(mechanism, X, y, schema=None, fits=FITS, kind=PrivateLogisticRegression, **settings):
    """Changes and stated deviations of many fits to the same rows; ``random_state`` makes them the same every time."""
    told = [
        summary_of(kind(mechanism=mechanism, classes=[0, 1], random_state=seed, **settings).fit(X, y), schema)
        for seed in range(fits)
    ]
    changes = np.array([[row.change for row in one.rows] for one in told])
    noises = np.array([[np.nan if row.noise is None else row.noise for row in one.rows] for one in told])
    return changes, noises, told[0]


def agrees(changes, deviation):
    """Whether independent numbers have this deviation: a two-sided test that errs once in a million times."""
    squares = ((changes - changes.mean(axis=0)) ** 2).sum(axis=0) / deviation**2
    degrees = (len(changes) - 1) * changes.shape[1]
    return 1e-6 / 2 < chi2.cdf(squares.sum(), degrees) < 1 - 1e-6 / 2


def rows(n=300, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, (X[:, 0] > 0).astype(int)


def test_noise_on_the_weights_is_told_exactly():
    X, y = rows()
    changes, noises, told = released(Output(standardise=False), X, y, l2=0.05)
    assert told.sure == "exact"
    assert agrees(changes[:, :8], noises[0, :8])
    assert not agrees(changes[:, :8], 0.8 * noises[0, :8])
    assert not agrees(changes[:, :8], 1.25 * noises[0, :8])


def test_it_passes_through_the_map_of_the_rows():
    """Weights that are drawn anew, as the mechanism draws them, and seen through the map that one fit has released."""
    X, y = rows()
    model = PrivateLogisticRegression(mechanism=Output(standardise="linear"), classes=[0, 1]).fit(X, y)
    weights = model.row_map_.weights(model.coef_[0], model.intercept_[0])
    rng = np.random.default_rng(0)
    drawn = [
        np.append(*model.row_map_.coefficients(weights + model.privacy_.noise_scale * rng.normal(size=9)))
        for _ in range(2000)
    ]
    stated = np.array([row.noise for row in summary(model).rows])
    assert np.std(drawn, axis=0) == pytest.approx(stated, rel=0.1)
    assert np.std(drawn, axis=0) != pytest.approx(np.full(9, model.privacy_.noise_scale), rel=0.1)


def test_noise_in_the_objective_reaches_its_bound_where_rows_say_nothing():
    """Without curvature but that of the penalty the bound is the deviation, so half of it would be too little."""
    X, y = np.zeros((300, 8)), np.arange(300) % 2
    model = PrivateLogisticRegression(mechanism=PLAIN_OBJECTIVE, classes=[0, 1], l2=0.1).fit(X, y)
    bound = weight_noise(model).deviation
    changes, _, told = released(PLAIN_OBJECTIVE, X, y, l2=0.1)
    assert told.sure == "not known"
    assert agrees(changes[:, :8], bound)
    assert not agrees(changes[:, :8], 0.8 * bound)


def test_noise_in_the_objective_stays_below_its_bound():
    X, y = rows()
    changes, _, _ = released(PLAIN_OBJECTIVE, X, y, l2=0.1)
    model = PrivateLogisticRegression(mechanism=PLAIN_OBJECTIVE, classes=[0, 1], l2=0.1).fit(X, y)
    bound = weight_noise(model).deviation
    assert (changes[:, :8].std(axis=0, ddof=1) < bound).all()
    assert changes[:, :8].std(axis=0, ddof=1).max() > bound / 3


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("tail", [0.0, 0.5])
def test_noise_in_steps_reaches_its_bound_on_a_flat_function(momentum, tail):
    X, y = np.zeros((300, 8)), np.arange(300) % 2
    mechanism = DPGD(
        steps=12, step_size=0.5, momentum=momentum, tail_average=tail, adaptive=False, standardise=False
    )
    changes, _, _ = released(mechanism, X, y, l2=1e-9, kind=PrivateLinearSVC)
    model = PrivateLinearSVC(mechanism=mechanism, classes=[0, 1], l2=1e-9).fit(X, y)
    bound = weight_noise(model).deviation
    assert agrees(changes[:, :8], bound)
    assert not agrees(changes[:, :8], 0.8 * bound)


def test_noise_in_steps_stays_below_its_bound():
    X, y = rows()
    changes, noises, told = released(DPGD(steps=30), X, y, l2=0.01, epsilon=20.0)
    assert told.sure == "at most"
    assert (changes.std(axis=0, ddof=1) < noises.mean(axis=0)).all()
    assert not (changes.std(axis=0, ddof=1) < noises.mean(axis=0) / 10).all()


SCHEMA = Schema.from_dict(
    {
        "target": {"name": "t", "classes": [0, 1]},
        "features": {
            "age": {"range": [18, 90], "spline": 4},
            "income": {"range": [0, 100], "spline": 0},
            "home": {"categories": ["a", "b", "c"]},
            "copy": {"categories": ["a", "b", "c"]},
        },
    }
)


def crowd(copied, n=3000):
    rng = np.random.default_rng(1)
    home = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    table = {
        "age": rng.uniform(18, 90, n),
        "income": rng.uniform(0, 100, n),
        "home": home,
        "copy": home if copied else rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
    }
    y = (rng.random(n) < 1 / (1 + np.exp(-(table["age"] - 54) / 15))).astype(int)
    return encode(table, SCHEMA), y


def test_the_default_is_told_by_released_moments_where_features_are_independent():
    """And far too small for a feature that follows from another: the words beside it say so."""
    changes, noises, told = released("auto", *crowd(copied=False), SCHEMA)
    assert told.sure == "at least"
    ratio = noises.mean(axis=0) / changes.std(axis=0, ddof=1)
    assert 0.75 < np.exp(np.log(ratio).mean()) < 1.3
    assert ((ratio > 0.6) & (ratio < 1.7)).all()
    changes, noises, told = released("auto", *crowd(copied=True), SCHEMA)
    ratio = noises.mean(axis=0) / changes.std(axis=0, ddof=1)
    copies = [place for place, row in enumerate(told.rows) if row.feature in ("home", "copy")]
    assert (ratio[copies] < 0.6).all()
    assert "several times, where one nearly follows from others" in told.noise


def test_bounds_that_no_change_stands_out_of_are_not_shown():
    """Labels say nothing, and rows curve the objective thirty times more than l2: the noise moves little."""
    X, y = rows(n=3000, d=2)[0], np.random.default_rng(1).integers(2, size=3000)
    model = PrivateLogisticRegression(mechanism=PLAIN_OBJECTIVE, classes=[0, 1], l2=0.003).fit(X, y)
    assert (
        np.abs(model.coef_).max() < weight_noise(model).deviation / 2
    )  # where two deviations would stand out
    told = summary(model)
    assert told.sure == "not known"
    assert "too wide" in told.noise
    assert {row.noise for row in told.rows} == {None}


def test_every_mechanism_has_an_answer_or_says_that_it_has_none():
    X, y = rows(n=120, d=3)
    for kind in registered():
        if not kind.__module__.startswith("dperm."):
            continue
        try:
            model = PrivateLogisticRegression(mechanism=kind.name, classes=[0, 1], epsilon=2.0, l2=0.1).fit(
                X, y
            )
        except ValueError:
            continue  # not for this loss
        told = summary(model)
        assert str(told)
        assert (told.sure == "not known") == (told.rows[0].noise is None)
        assert (kind.family == "output") <= (told.sure == "exact")
        assert (kind.private) or {row.noise for row in told.rows} == {0.0}


@pytest.mark.slow
def test_what_the_page_says_of_adult():
    adult = load_adult()
    changes, noises, _ = released(
        "auto", encode(adult.table, adult.schema), (adult.y == adult.classes[1]).astype(int), adult.schema, 30
    )
    ratio = noises.mean(axis=0) / changes.std(axis=0, ddof=1)
    assert len(ratio) == 105
    assert np.quantile(ratio, [0.0, 0.05, 0.5, 0.95]) == pytest.approx([0.19, 0.31, 0.76, 1.18], rel=0.1)
