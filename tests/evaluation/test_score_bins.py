"""Bins follow from the public model: areas of real models are covered, and the threshold is an edge."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from dperm import Budget, PrivateLogisticRegression, evaluate
from dperm.counting.bins import Scale, scales_of
from dperm.evaluation.model import evaluated_model
from dperm.mechanisms import DPGD

RUNS, N = 60, 5000
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.45, 0.45, (40_000, 5))
MARGIN = X @ RNG.normal(0, 3, 5)
EASY = {"epsilon": 30.0, "delta": 1e-5, "random_state": 0}


def labels(intercept, stretch=1.0):
    return (RNG.random(len(X)) < expit(stretch * MARGIN + intercept)).astype(int)


CASES = {
    "shrunk": ({"l2": 3.0}, labels(0.0)),
    "rare": ({}, labels(-3.5)),
    "strong": ({}, labels(0.0, 4.0)),
    "standardised": ({"mechanism": DPGD(standardise="linear")}, labels(-1.0)),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("case", CASES)
def test_areas_of_real_models_are_covered(case):
    options, y = CASES[case]
    model = PrivateLogisticRegression(classes=[0, 1], **EASY, **options).fit(X[:10_000], y[:10_000])
    rows, y = X[10_000:], y[10_000:]
    true, rng, held = roc_auc_score(y, model.decision_function(rows)), np.random.default_rng(1), 0
    widths = []
    for run in range(RUNS):
        drawn = rng.integers(0, len(rows), N)
        area = evaluate(model, rows[drawn], y[drawn], Budget(1.0, 1e-6), random_state=run).metrics["auc"]
        held += area.low <= true <= area.high
        widths.append(area.high - area.low)
    assert held >= binom.ppf(5e-5, RUNS, 0.95)
    assert np.mean(widths) < (0.25 if case == "rare" else 0.06)


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("line", [0.0, 0.7, -40.0, 1e5, None])
@pytest.mark.parametrize("bins", [2, 3, 12, 64])
def test_edges_rise_and_the_line_is_one_of_them(line, bins):
    for scale in (Scale(0.3, 1.0, line), Scale(-5.0, 1e-300, line), Scale(0.0, 1e6, line)):
        edges = scale.edges(bins)
        assert len(edges) == bins - 1
        assert (np.diff(edges) >= 0).all()
        if line is not None:
            assert edges[scale.cut(bins) - 1] == line
            scores = np.array([line, np.nextafter(line, np.inf)])
            assert (scale.place(scores, bins) >= scale.cut(bins)).tolist() == [False, True]
        assert scale.place(np.array([np.nan, np.inf, -np.inf]), bins).tolist()[1:] == [bins - 1, 0]


def test_what_is_in_the_file_tells_the_edges_without_the_model():
    y = np.digitize(MARGIN, [-1.0, 1.0])
    for targets in (labels(0.0), y):
        model = PrivateLogisticRegression(**EASY).fit(X[:5000], targets[:5000])
        found = evaluate(model, X[:2000], targets[:2000], Budget(1.0, 1e-6))
        scales = scales_of(evaluated_model(model))
        stated = {one.pop("name"): Scale(**one) for one in found.to_dict()["release"]["scales"]}
        assert stated == scales
        if found.roc:
            edges = stated["scores"].edges(found.release["bins"])
            assert [point.threshold for point in found.roc] == pytest.approx(expit(edges[::-1]).tolist())
