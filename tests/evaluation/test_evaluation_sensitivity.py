"""One row moves the vector of an evaluation by no more than is stated, and some row by as much."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import comb

from dperm import Budget, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.counting.bins import ScoreBins
from dperm.counting.classification import Classification
from dperm.counting.design import STEP, Design, Histogram, Shares
from dperm.counting.regression import FINE, WEIGHTS, Moments, Regression
from dperm.evaluation import evaluate, evaluation
from dperm.unit import Neighbours
from dperm_audit import evaluation as audit
from dperm_audit.evaluation import worst_cases
from dperm_audit.gates import SilentGate

BUDGET = Budget(1.0, 1e-6)
RUNS = 6000
RELATIONS = list(Neighbours)
RNG = np.random.default_rng(0)
TRAIN = RNG.uniform(-0.5, 0.5, (400, 3))


def fitted(kind):
    y = TRAIN[:, 0] + 0.3 * RNG.normal(size=400)
    if kind == "regression":
        return PrivateLinearRegression(epsilon=5, delta=1e-3, y_range=(-1.0, 1.0), random_state=0).fit(
            TRAIN, y
        )
    if kind == "svm":
        return PrivateLinearSVC(epsilon=5, delta=1e-3, random_state=0).fit(TRAIN, (y > 0).astype(int))
    classes = np.digitize(y, [0.0] if kind == "binary" else [-0.2, 0.2])
    return PrivateLogisticRegression(epsilon=5, delta=1e-3, random_state=0).fit(TRAIN, classes)


MODELS = {kind: fitted(kind) for kind in ("binary", "classes", "svm", "regression")}


def adversarial_rows(kind, rng):
    """Long rows, zeros, numbers that overflow a product, and rows on the very edge of the threshold."""
    rows = np.concatenate(
        [
            rng.uniform(-1, 1, (12, 3)),
            1e3 * rng.normal(size=(6, 3)),
            np.zeros((2, 3)),
            np.full((2, 3), 1e308),
            np.full((2, 3), -1e308),
        ]
    )
    targets = (
        3 * rng.normal(size=len(rows)) if kind == "regression" else rng.choice(classes_of(kind), len(rows))
    )
    return rows, targets


def classes_of(kind):
    return MODELS[kind].classes_


def released(monkeypatch, kind, X, y, neighbours, **more):
    """What meets the noise, by the very road of a user's call."""
    gate = SilentGate()
    monkeypatch.setattr(
        evaluation, "Gate", type("Door", (), {"from_random_state": staticmethod(lambda _: gate)})
    )
    hidden = {"neighbours": "add-remove", "max_rows": 100} if neighbours is Neighbours.ADD_REMOVE else {}
    found = evaluate(MODELS[kind], X, y, BUDGET, **hidden, **more)
    return gate.exact[0], found.release["sensitivity"]


@pytest.mark.cover(1)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_neighbours_replayed(monkeypatch, kind, neighbours):
    rng = np.random.default_rng(1)
    X, y = adversarial_rows(kind, rng)
    whole, stated = released(monkeypatch, kind, X, y, neighbours)
    new_rows, new_targets = adversarial_rows(kind, rng)
    farthest = 0.0
    for row in range(len(X)):
        if neighbours is Neighbours.ADD_REMOVE:
            others = [(np.delete(X, row, axis=0), np.delete(y, row))]
        else:
            others = []
            for other in (row, (row + 7) % len(X)):
                changed, targets = X.copy(), y.copy()
                changed[row], targets[row] = new_rows[other], new_targets[other]
                others.append((changed, targets))
        for changed, targets in others:
            vector, again = released(monkeypatch, kind, changed, targets, neighbours)
            assert again == stated
            farthest = max(farthest, float(np.linalg.norm(vector - whole)))
    assert 0.5 * stated < farthest <= stated * (1 + 1e-12)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_an_error_beyond_the_bound_counts_as_the_bound(monkeypatch, neighbours):
    """However wrong, a row moves the sums no further than one whose error is the bound."""
    rows, targets = np.zeros((4, 3)), np.zeros(4)
    stated, found = [], []
    for last in (0.0, 0.5, 1e6):
        targets[-1] = MODELS["regression"].predict(rows[:1])[0] + last
        vector, sensitivity = released(monkeypatch, "regression", rows, targets, neighbours, error_bound=0.25)
        found.append(vector)
        stated.append(sensitivity)
    assert len(set(stated)) == 1
    first = int(neighbours is Neighbours.ADD_REMOVE) + list(WEIGHTS).index("size")
    errors = [
        vector[first : first + 3] for vector in found
    ]  # |e|, e2 and e4 of the error in units of the bound
    np.testing.assert_array_equal(errors[1], errors[2])
    np.testing.assert_allclose(
        errors[1] - errors[0], [WEIGHTS[name] for name in ("size", "e2", "e4")], atol=1e-5
    )
    assert max(np.linalg.norm(found[0] - other) for other in found[1:]) <= stated[0] * (1 + 1e-12)


def test_a_replay_notices_a_row_that_counts_twice(monkeypatch):
    """The control: rows that weigh by their company move the counts further than stated."""
    honest = evaluation._counts

    def greedy(task, rows):
        odd = rows[1].count % 2
        return {name: counts * (2 if odd else 1) for name, counts in honest(task, rows).items()}

    monkeypatch.setattr(evaluation, "_counts", greedy)
    X, y = adversarial_rows("binary", np.random.default_rng(2))
    whole, stated = released(monkeypatch, "binary", X, y, Neighbours.ADD_REMOVE)
    less, _ = released(monkeypatch, "binary", X[1:], y[1:], Neighbours.ADD_REMOVE)
    assert np.linalg.norm(whole - less) > stated


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_worst_cases_attain_the_sensitivity(neighbours):
    for case in worst_cases(neighbours):
        stated = case.plan.noise.sensitivity
        assert stated * (1 - 1e-5) <= case.gap <= stated * (1 + 1e-12), case.name


def test_the_sensitivity_follows_from_the_parts():
    two = Design((Histogram("a", 4), Histogram("b", 7, 0.5), Shares("c", (1.0, 0.5))))
    assert two.sensitivity(Neighbours.REPLACE_ONE) == math.sqrt(2 + 2 / 4 + 1 + 1 / 4)
    assert two.sensitivity(Neighbours.ADD_REMOVE) == math.sqrt(1 + 1 / 4 + 1 + 1 / 4)
    for n_classes, has_probabilities in product((2, 3, 10, 40), (True, False)):
        parts = Classification(n_classes, has_probabilities, ScoreBins(16, {})).design.parts
        assert all(math.log2(weight).is_integer() for part in parts for weight in part.weights)
    assert all((4 * weight).is_integer() for weight in WEIGHTS.values())


def test_the_vector_is_exact():
    design = Classification(10, True, ScoreBins(16, {})).design
    counts = {part.name: RNG.integers(0, 2**52, part.size) for part in design.parts}
    vector = design.vector(counts)
    scales = [Fraction(float(scale)) for scale in design.weights * design.units]
    joined = np.concatenate([counts[part.name] for part in design.parts]).tolist()
    assert [Fraction(float(v)) for v in vector] == [
        scale * c for scale, c in zip(scales, joined, strict=True)
    ]


# The lemma on moments: no pair of rows is farther apart than t = e = 1 and t = -1, e = 0.


def moment_vectors(t, e):
    square = e**2
    columns = (t, t**2, t**3, t**4, np.abs(e), square, square**2, square * t, square * t**2)
    return np.array(columns).T * Moments().weights


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_search_over_pairs_reaches_the_bound_on_moments_and_never_exceeds_it(neighbours):
    bound = math.sqrt(Moments().squared_gap(neighbours)) - (STEP + FINE) * math.hypot(*WEIGHTS.values())
    grid = np.linspace(-1, 1, 41)
    rows = moment_vectors(*(part.ravel() for part in np.meshgrid(grid, np.linspace(0, 1, 21))))
    if neighbours is Neighbours.ADD_REMOVE:
        farthest = np.linalg.norm(rows, axis=1).max()
    else:
        squares = (rows**2).sum(axis=1)
        farthest = math.sqrt((squares[:, None] + squares - 2 * rows @ rows.T).max())
    assert farthest == pytest.approx(bound, rel=1e-12)


def bernstein(coefficients, low, high):
    """Coefficients of a polynomial, lowest power first, in the Bernstein form on [low, high]; exact."""
    degree = len(coefficients) - 1
    moved = [
        sum(
            coefficients[k] * comb(k, j, exact=True) * low ** (k - j) * (high - low) ** j
            for k in range(j, degree + 1)
        )
        for j in range(degree + 1)
    ]
    return [
        sum(Fraction(comb(i, j, exact=True), comb(degree, j, exact=True)) * moved[j] for j in range(i + 1))
        for i in range(degree + 1)
    ]


def test_targets_alone_move_their_powers_by_the_ends_of_the_range():
    """4 (a^2 + c^2) - h(u) of the proof is not negative on [0, 2], by its Bernstein coefficients, piece by piece."""
    a, b, c, d = (Fraction(WEIGHTS[name]) ** 2 for name in ("t", "t2", "t3", "t4"))
    poly = np.polynomial.polynomial
    u, v = [Fraction(0), Fraction(1)], [Fraction(2), Fraction(-1)]

    def times(*factors):
        product_ = [Fraction(1)]
        for factor in factors:
            product_ = list(poly.polymul(np.array(product_, object), np.array(factor, object)))
        return product_

    def plus(*terms):
        longest = max(map(len, terms))
        return [sum((term[k] if k < len(term) else Fraction(0)) for term in terms) for k in range(longest)]

    def scaled(factor, term):
        return [factor * value for value in term]

    cubes = plus(scaled(3, times(v, v)), times(u, u))
    squares = plus(times(u, u), times(v, v))
    inner = plus(
        [a],
        scaled(b, times(v, v)),
        scaled(c / 16, times(cubes, cubes)),
        scaled(d / 4, times(v, v, squares, squares)),
    )
    gap = plus([4 * (a + c)], scaled(Fraction(-1), times(u, u, inner)))
    pieces = [Fraction(2 * k, 16) for k in range(17)]
    assert all(min(bernstein(gap, low, high)) >= 0 for low, high in pairwise(pieces))


def test_designs_of_a_regression_count_rows_only_where_their_number_is_private():
    assert Regression((-1, 1), None, Neighbours.REPLACE_ONE).design.size == len(WEIGHTS)
    assert Regression((-1, 1), None, Neighbours.ADD_REMOVE).design.size == len(WEIGHTS) + 1


def test_the_attack_leaves_the_real_release_standing_and_refutes_one_with_half_the_noise():
    for neighbours in RELATIONS:
        for case in worst_cases(neighbours):
            honest = audit.attacked(case, RUNS)
            assert not honest.refuted, case.name
            assert honest.null == 0
            assert honest.ratio > 0.4
            assert audit.attacked(case, RUNS, noise_share=0.5).refuted, case.name


def test_the_noise_of_a_real_call_has_the_stated_scale():
    """Through the operating system's source: empty add-remove tables release noise alone."""
    model, empty = MODELS["binary"], (np.zeros((0, 3)), np.zeros(0, int))
    hidden = {"neighbours": "add-remove", "max_rows": 10_000}
    drawn = []
    for _ in range(60):
        release = evaluate(model, *empty, Budget(0.5, 1e-6), **hidden).release
        drawn += [value / release["noise_scale"] for value in release["numbers"]]
    squares = float(np.square(drawn).sum())
    low, high = (len(drawn) * (1 + sign * 6 * math.sqrt(2 / len(drawn))) for sign in (-1, 1))
    assert low < squares < high
    assert not low < squares / 4 < high  # half the noise would show
