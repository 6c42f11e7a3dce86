"""Curvature: exact on quadratics, by differences elsewhere, and earlier figures of one data set."""

import importlib

import numpy as np
import pytest

from dperm.datasets import load_dataset
from dperm.engine import open_rows
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax
from dperm.problem import Problem
from dperm.solvers import Solution
from dperm_papers.analysis import measure_curvature
from records import loaded_or_skipped


def case(X, y, loss, l2):
    problem = Problem(loss=loss, l2=l2, x_norm=1.0, n_rows=len(X), n_features=X.shape[1])
    return open_rows(X, y, problem), problem


def random_case(loss, l2=0.01, n=300, p=5):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, p))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)) * 1.001
    return X, np.sign(X @ rng.normal(size=p) + 0.3 * rng.normal(size=n)), loss, l2


@pytest.fixture
def quadratic():
    """Rows along the axes: the Hessian is diagonal, with entries known by hand."""
    lengths = np.array([1.0, 0.5, 0.2, 0.1])
    X = np.tile(np.diag(lengths), (5, 1))
    y = np.tile([0.9, -0.4, 0.3, -0.2], 5)
    table, problem = case(X, y, ClippedSquared(1e3), 0.01)
    diagonal = lengths**2 / 4 + 0.01
    minimiser = lengths * np.array([0.9, -0.4, 0.3, -0.2]) / 4 / diagonal
    return table, problem, diagonal, minimiser


def test_a_quadratic_exactly(quadratic):
    table, problem, diagonal, minimiser = quadratic
    scales = (0.01, 1.0, 7.0)
    for point in (np.zeros(4), np.array([1.0, -2.0, 0.5, 3.0])):
        found = measure_curvature(table, problem, scales, at=point)
        assert found.minimum == pytest.approx(0.0125, rel=1e-12)
        assert found.average == pytest.approx((1 + 0.25 + 0.04 + 0.01) / 16 + 0.01, rel=1e-12)
        assert found.maximum == pytest.approx(0.26, rel=1e-12)
        away = point - minimiser
        assert found.distance == pytest.approx(np.linalg.norm(away), rel=1e-9)
        for s in scales:
            wanted = (diagonal.sum() * s**2 + away @ (diagonal * away)) / (4 * s**2 + away @ away)
            assert found.expected[s] == pytest.approx(wanted, rel=1e-9)


def test_the_formula_is_the_expectation_it_stands_for(quadratic):
    """Eq. 5 on a quadratic against its definition, by quadrature: z = ±scale on each axis has the right moments."""
    table, problem, diagonal, minimiser = quadratic
    scale = 0.8
    z = scale * np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    away = z - minimiser
    wanted = np.sum(away * (diagonal * away)) / np.sum(away * away)
    found = measure_curvature(table, problem, [scale, 2 * scale]).expected
    assert found[scale] == pytest.approx(wanted, rel=1e-9)
    assert found[2 * scale] != pytest.approx(wanted, rel=1e-3)


def test_at_the_minimiser_only_the_average_is_left(quadratic):
    table, problem, _, minimiser = quadratic
    found = measure_curvature(table, problem, (0.1, 1.0), at=minimiser)
    assert list(found.expected.values()) == pytest.approx([found.average] * 2, rel=1e-9)


def test_far_along_the_flattest_direction_nothing_is_gained(quadratic):
    """So the infimum over all points, which the paper's definition asks for, is the minimum curvature."""
    table, problem, _, minimiser = quadratic
    flattest = np.array([0.0, 0.0, 0.0, 1.0])
    far = measure_curvature(table, problem, [1.0], at=minimiser + 5e3 * flattest)
    near = measure_curvature(table, problem, [1.0])
    assert far.expected[1.0] == pytest.approx(far.minimum, rel=1e-5)
    assert near.expected[1.0] > 2 * near.minimum


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), ClippedSquared(0.5)], ids=lambda loss: loss.name)
def test_other_losses_by_differences(loss):
    X, y, _, l2 = random_case(loss)
    table, problem = case(X, y, loss, l2)
    point = np.random.default_rng(8).normal(size=5)
    found = measure_curvature(table, problem, (1e-4, 0.3, 1e4), at=point)

    def gradient(w):
        return X.T @ loss.slope(X @ w, y) / len(X) + l2 * w

    step = 1e-7  # so short that no row passes a knot
    jacobian = np.array(
        [(gradient(point + step * e) - gradient(point - step * e)) / (2 * step) for e in np.eye(5)]
    )
    eigenvalues = np.linalg.eigvalsh((jacobian + jacobian.T) / 2)
    assert [found.minimum, found.average, found.maximum] == pytest.approx(
        [eigenvalues[0], eigenvalues.mean(), eigenvalues[-1]], rel=1e-5
    )
    # Between the limits of no noise and much noise it is their weighted mean.
    quiet, middle, loud = found.expected.values()
    share = 5 * 0.3**2 / (5 * 0.3**2 + found.distance**2)
    assert loud == pytest.approx(found.average, rel=1e-6)
    assert middle == pytest.approx(share * found.average + (1 - share) * quiet, rel=1e-6)
    assert min(quiet, middle, loud) >= l2


def ipums_by_the_authors():
    """Columns scaled to [0, 1] over the whole file and a column of ones, as in the code of Lee & Kifer.

    The caller divides each row by its norm. Any rows of norm one give the average 4.8e-3; of the weights 0.1, 0.3,
    0.5, 1 and 2 of the constant column, put in before the division, 1 comes closest in the expected curvature.
    """
    data = loaded_or_skipped(load_dataset, "ipums-br", fetch=False)
    X = np.column_stack([data.table[f"c{j:02d}"].to_numpy() for j in range(52)]).astype(np.float64)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    return np.column_stack([X, np.ones(len(X))]), np.where(data.y == 1, 1.0, -1.0)


def test_ipums_figures():
    """An earlier computation gave average 4.8e-3, nu 2.52e-3 at noise 1 and 2.05e-3 at small noise.

    On all rows we find 2.526e-3 and 2.058e-3. A random 80 % of the rows moves them by about 1 %, so a split may
    explain the last digit; the tolerance is 0.5 %.
    """
    rows, y = ipums_by_the_authors()
    table, problem = case(rows / np.linalg.norm(rows, axis=1, keepdims=True), y, Logistic(), 1e-4)
    found = measure_curvature(table, problem, (1.0, 1e-2, 1e-3))
    assert found.minimum == pytest.approx(1e-4, rel=1e-6)
    assert found.average == pytest.approx(4.8e-3, rel=0.005)
    assert found.expected[1.0] == pytest.approx(2.52e-3, rel=0.005)
    assert found.expected[1e-2] == pytest.approx(2.05e-3, rel=0.005)
    assert found.expected[1e-3] == pytest.approx(found.expected[1e-2], rel=1e-4)
    # Control: one common divisor instead misses all but the minimum.
    common, problem = case(rows / np.linalg.norm(rows, axis=1).max(), y, Logistic(), 1e-4)
    other = measure_curvature(common, problem, (1.0, 1e-2))
    assert other.average < 4e-3
    assert other.expected[1.0] < 2.1e-3
    assert other.expected[1e-2] < 1.8e-3


def test_it_says_that_it_is_not_private(quadratic):
    table, problem, *_ = quadratic
    assert str(measure_curvature(table, problem)).startswith("NOT PRIVATE")


def test_refusals(quadratic):
    table, problem, *_ = quadratic
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="noise scales"):
            measure_curvature(table, problem, [scale])
    with pytest.raises(InvalidInput, match=r"shape \(4,\)"):
        measure_curvature(table, problem, at=np.zeros(3))
    X, y, *_ = random_case(Logistic())
    table, problem = case(X, (y > 0).astype(float), Softmax(2), 0.01)
    with pytest.raises(Unsupported, match="one output"):
        measure_curvature(table, problem)
    with pytest.raises(Unsupported, match="l2 > 0"):
        measure_curvature(*case(X, y, Logistic(), 0.0))


def test_an_unfinished_minimiser_is_refused(quadratic, monkeypatch):
    module = importlib.import_module("dperm_papers.analysis.curvature")
    table, problem, *_ = quadratic
    start = Solution(points=np.zeros((4, 1)), gradient_norms=np.array([0.1]))
    monkeypatch.setattr(module, "minimise", lambda *_: start)
    with pytest.raises(NotCertified, match="minimiser was not found"):
        measure_curvature(table, problem)
