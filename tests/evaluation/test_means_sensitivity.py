"""One row moves the sums of mean predictions by no more than is stated, and some row by as much."""

import math

import numpy as np
import pytest
from scipy import sparse

from dperm import Budget, PrivateLinearRegression, PrivateLogisticRegression, mean_predictions
from dperm.counting.design import WHOLE
from dperm.evaluation import means
from dperm.evaluation.groups import GroupSums, means_design
from dperm.evaluation.means import quantity_of
from dperm.evaluation.model import evaluated_model
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

BUDGET = Budget(1.0, 1e-6)
RELATIONS = list(Neighbours)
RNG = np.random.default_rng(0)
TRAIN = RNG.uniform(-0.5, 0.5, (600, 3))
SCORE = TRAIN[:, 0] + 0.3 * RNG.normal(size=600)
EASY = {"epsilon": 5.0, "delta": 1e-3, "random_state": 0}
MODELS = {
    "binary": PrivateLogisticRegression(classes=[0, 1], **EASY).fit(TRAIN, (SCORE > 0).astype(int)),
    "twelve": PrivateLogisticRegression(classes=list(range(12)), **EASY).fit(
        TRAIN, np.digitize(SCORE, np.linspace(-0.5, 0.5, 11))
    ),
    "regression": PrivateLinearRegression(y_range=(-0.2, 0.2), **EASY).fit(TRAIN, SCORE),
}
LABELS = {"twelve": 3}
WARDS = ["A", "B", "C"]


def adversarial_rows(rng):
    """Long rows, zeros, and numbers that overflow a product; wards that are declared, and others."""
    rows = np.concatenate(
        [
            rng.uniform(-1, 1, (8, 3)),
            1e3 * rng.normal(size=(8, 3)),
            np.zeros((2, 3)),
            np.full((2, 3), 1e308),
            np.full((2, 3), -1e308),
        ]
    )
    return rows, rng.choice([*WARDS, "Z"], len(rows))


def released(monkeypatch, kind, rows, wards, neighbours):
    """The exact vector that meets the gate, and the stated sensitivity, by the very road of a user's call."""
    gate = SilentGate()
    monkeypatch.setattr(means, "Gate", type("Door", (), {"from_random_state": staticmethod(lambda _: gate)}))
    hidden = {"neighbours": "add-remove", "max_rows": 100} if neighbours is Neighbours.ADD_REMOVE else {}
    options = {"by": wards, "values": WARDS, "other": "elsewhere", "label": LABELS.get(kind)}
    found = mean_predictions(MODELS[kind], rows, BUDGET, **options, **hidden)
    return gate.exact[0], found.release["sensitivity"]


@pytest.mark.cover(1)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_neighbours_replayed(monkeypatch, kind, neighbours):
    rng = np.random.default_rng(1)
    X, wards = adversarial_rows(rng)
    whole, stated = released(monkeypatch, kind, X, wards, neighbours)
    assert stated == math.sqrt(2.0 * neighbours.rows_changed)
    new_rows, new_wards = adversarial_rows(rng)
    farthest = 0.0
    for row in range(len(X)):
        if neighbours is Neighbours.ADD_REMOVE:
            others = [(np.delete(X, row, axis=0), np.delete(wards, row))]
        else:
            others = []
            for other in (row, (row + 7) % len(X)):
                changed, places = X.copy(), wards.copy()
                changed[row], places[row] = new_rows[other], new_wards[other]
                others.append((changed, places))
        for changed, places in others:
            vector, again = released(monkeypatch, kind, changed, places, neighbours)
            assert again == stated
            farthest = max(farthest, float(np.linalg.norm(vector - whole)))
    assert 0.7 * stated < farthest <= stated * (1 + 1e-12)


def test_a_replay_notices_a_prediction_that_is_not_cut_off(monkeypatch):
    """The control: a row counts with what the regression really says, however far from the range."""
    monkeypatch.setattr(np, "clip", lambda values, *_: values)
    rng = np.random.default_rng(2)
    X, wards = adversarial_rows(rng)
    X = np.clip(X, -1e3, 1e3)[:16]
    whole, stated = released(monkeypatch, "regression", X, wards[:16], Neighbours.ADD_REMOVE)
    gaps = [
        np.linalg.norm(
            whole
            - released(
                monkeypatch,
                "regression",
                np.delete(X, row, 0),
                np.delete(wards[:16], row),
                Neighbours.ADD_REMOVE,
            )[0]
        )
        for row in range(len(X))
    ]
    assert max(gaps) > stated


def contributions(steps):
    """What rows with these t, in steps, add to their group, in steps; exact integers."""
    t = np.asarray(steps, np.int64)
    return np.stack([GroupSums(1).count(np.zeros(1, np.int64), np.array([one / WHOLE])) for one in t])


@pytest.mark.together
@pytest.mark.parametrize("seed", range(3))
def test_no_pair_of_rows_is_farther_apart_than_the_theorem_says(seed):
    """In whole numbers, rounding and all: steps next to the ends, to the middle, and anywhere."""
    rng = np.random.default_rng(seed)
    near = np.arange(12)
    middle = round(WHOLE * math.sqrt(0.5)) + near
    steps = np.concatenate([WHOLE - near, near, middle, rng.integers(0, WHOLE, 40)])
    rows = contributions(np.concatenate([steps, -steps])).astype(object)
    lengths = (rows**2).sum(axis=1)
    assert max(lengths) == 2 * WHOLE**2  # comes or goes, or twice this in two groups
    between = max(((rows - row) ** 2).sum(axis=1).max() for row in rows)
    assert between == 4 * WHOLE**2  # replaced within a group


def test_the_spread_would_cost_if_it_were_counted_by_squares():
    """The control of the design: with t**2 in place of 1 - t**2 the longest row is longer."""
    t = np.linspace(-1, 1, 2001)
    assert (1 + t**2 + (1 - t**2) ** 2).max() == pytest.approx(2.0)
    assert (1 + t**2 + t**4).max() == pytest.approx(3.0)


@pytest.mark.together
@pytest.mark.parametrize("mean", [0.0, 0.3, 0.76, 1.0])
def test_equal_weights_leave_the_least_noise_under_replace_one(mean):
    """The variance of a mean is the squared sensitivity times 1 / w_t**2 + mean**2 / w_n**2; w_t = 1 here."""
    w = np.exp(np.linspace(-3, 3, 6001))
    variance = np.maximum(2 * (w**2 + 1), 4) * (1 + mean**2 / w**2)
    assert 4 * (1 + mean**2) <= variance.min() * (1 + 1e-12)
    hidden = (w**2 + 1) * (1 + mean**2 / w**2)
    assert 2 * (1 + mean**2) <= 2 * hidden.min() * (1 + 1e-12)


def test_sums_are_exact_in_any_order():
    rng = np.random.default_rng(0)
    places, t = rng.integers(0, 4, 5000), rng.uniform(-1, 1, 5000)
    order = rng.permutation(5000)
    assert np.array_equal(GroupSums(4).count(places, t), GroupSums(4).count(places[order], t[order]))
    assert means_design(4).size == 12


@pytest.mark.parametrize("kind", MODELS)
def test_a_row_has_the_same_bits_wherever_it_stands_and_whoever_is_beside_it(kind):
    quantity = quantity_of(evaluated_model(MODELS[kind]), LABELS.get(kind), None)
    rows = RNG.normal(size=(300, 3))
    whole = quantity.in_halves(rows, Neighbours.ADD_REMOVE)
    for first, last in ((1, 300), (3, 200), (7, 8), (61, 63)):
        assert np.array_equal(quantity.in_halves(rows[first:last], Neighbours.ADD_REMOVE), whole[first:last])
    assert np.array_equal(
        quantity.in_halves(sparse.csr_array(rows)[5:9], Neighbours.ADD_REMOVE),
        quantity.in_halves(sparse.csr_array(rows), Neighbours.ADD_REMOVE)[5:9],
    )


def test_the_noise_of_a_real_call_has_the_stated_scale():
    """Through the operating system's source: empty add-remove tables release noise alone."""
    hidden = {"neighbours": "add-remove", "max_rows": 10_000, "by": [], "values": list("abcdefgh")}
    drawn = []
    for _ in range(60):
        release = mean_predictions(MODELS["binary"], np.zeros((0, 3)), Budget(0.5, 1e-6), **hidden).release
        drawn += [value / release["noise_scale"] for value in release["numbers"]]
    squares = float(np.square(drawn).sum())
    low, high = (len(drawn) * (1 + sign * 6 * math.sqrt(2 / len(drawn))) for sign in (-1, 1))
    assert low < squares < high
    assert not low < squares / 4 < high  # half the noise would show
