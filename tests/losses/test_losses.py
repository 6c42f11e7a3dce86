"""Every loss: its formulas against 50-digit arithmetic, and its constants, never exceeded and attained."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax

SCALAR_LOSSES: list[Loss] = [
    Logistic(),
    HuberHinge(),
    HuberHinge(0.05),
    HuberHinge(2.0),
    ClippedSquared(),
    ClippedSquared(0.3),
    Linear(),
]
SOFTMAXES = [Softmax(2), Softmax(3), Softmax(10)]
DTYPES = [np.float32, np.float64]
LABELS = {"binary": [-1.0, 1.0], "real": [-0.75, 0.0, 2.5]}
FAR = [-1000.0, -746.0, -700.0, -100.0, -37.0, -17.0, -4.0, 4.0, 17.0, 37.0, 100.0, 700.0, 746.0, 1000.0]
NEAR = [-2.5, -1.5, -1.0, -0.5, -0.125, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.125, 0.5, 1.0, 1.5, 2.5]

mp = mpmath.MPContext()  # a context of our own, so that no other test changes its precision
mp.dps = 60
H = mp.mpf(10) ** -18

margins = st.floats(-1000, 1000)
near_margins = st.floats(-4, 4)


def name(loss: Loss) -> str:
    return repr(loss)


def knots(loss: Loss, y: float) -> list[float]:
    """Margins where the curvature jumps."""
    if isinstance(loss, HuberHinge):
        return [y * (1 - loss.width), y * (1 + loss.width)]
    if isinstance(loss, ClippedSquared):
        return [y - loss.residual_bound, y + loss.residual_bound]
    return []


def grid(loss: Loss, y: float, dtype: type) -> np.ndarray:
    close = [knot + shift for knot in knots(loss, y) for shift in (-1e-3, -1e-6, 0.0, 1e-6, 1e-3)]
    return np.array(FAR + NEAR + close, dtype=dtype)


def exact(loss: Loss, m: Any, y: Any) -> Any:
    """The definition of the loss, piece by piece, in 60 digits."""
    z = y * m
    if isinstance(loss, Logistic):
        return mp.log1p(mp.exp(-z))
    if isinstance(loss, HuberHinge):
        h = mp.mpf(loss.width)
        return mp.mpf(0) if z > 1 + h else 1 - z if z < 1 - h else (1 + h - z) ** 2 / (4 * h)
    if isinstance(loss, ClippedSquared):
        r, b = abs(m - y), mp.mpf(loss.residual_bound)
        return r * r / 2 if r <= b else b * (r - b / 2)
    assert isinstance(loss, Linear)
    return -z


def exact_slope(loss: Loss, m: Any, y: Any) -> Any:
    return (exact(loss, m + H, y) - exact(loss, m - H, y)) / (2 * H)


def exact_curvature(loss: Loss, m: Any, y: Any) -> Any:
    return (exact(loss, m + H, y) - 2 * exact(loss, m, y) + exact(loss, m - H, y)) / (H * H)


def each_label() -> list[tuple[Loss, float]]:
    return [(loss, y) for loss in SCALAR_LOSSES for y in LABELS[loss.labels]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("loss", "y"), each_label(), ids=str)
def test_formulas_agree_with_sixty_digit_differences(loss: Loss, y: float, dtype: type) -> None:
    m = grid(loss, y, dtype)
    labels = np.full_like(m, y)
    value, slope, curvature = (f(m, labels) for f in (loss.value, loss.slope, loss.curvature))
    eps = float(np.finfo(dtype).eps)
    # The engines promise slopes to 1e-14 of the Lipschitz constant in float64, so the formulas must keep it.
    slope_error = 1e-14 * loss.lipschitz if dtype is np.float64 else 16 * eps * max(1, loss.smoothness)
    for i, margin in enumerate(m):
        at = mp.mpf(float(margin)), mp.mpf(float(labels[i]))
        want = exact(loss, *at)
        assert abs(float(value[i]) - want) <= 8 * eps * (1 + abs(want) + loss.smoothness)
        assert abs(float(slope[i]) - exact_slope(loss, *at)) <= slope_error
        if min((abs(margin - knot) for knot in knots(loss, y)), default=1) > 1e-4:
            assert abs(float(curvature[i]) - exact_curvature(loss, *at)) <= 8 * eps * max(
                loss.smoothness, 1e-3
            )


@pytest.mark.parametrize("loss", SCALAR_LOSSES, ids=name)
def test_formulas_agree_with_plain_differences(loss: Loss) -> None:
    """The three formulas belong together: each is the derivative of the one before."""
    for y in LABELS[loss.labels]:
        m = np.linspace(-6.01, 6.03, 401)
        away = np.array([min((abs(v - k) for k in knots(loss, y)), default=1) > 1e-3 for v in m])
        labels, h = np.full_like(m, y), 1e-5
        first = (loss.value(m + h, labels) - loss.value(m - h, labels)) / (2 * h)
        second = (loss.slope(m + h, labels) - loss.slope(m - h, labels)) / (2 * h)
        np.testing.assert_allclose(first[away], loss.slope(m, labels)[away], atol=1e-8)
        np.testing.assert_allclose(second[away], loss.curvature(m, labels)[away], atol=1e-8)


def test_huber_hinge_at_its_knots() -> None:
    loss = HuberHinge(0.5)  # knots at 0.5 and 1.5, exact in binary
    m, y = np.array([0.5, 1.5]), np.ones(2)
    assert loss.value(m, y).tolist() == [0.5, 0.0]
    assert loss.slope(m, y).tolist() == [-1.0, 0.0]
    assert loss.curvature(m, y).tolist() == [1.0, 1.0]
    outside = np.array([0.5 - 1e-12, 1.5 + 1e-12])
    assert loss.curvature(outside, y).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", SCALAR_LOSSES, ids=name)
def test_dtype_shape_and_inputs_are_kept(loss: Loss, dtype: type) -> None:
    m = np.array(FAR + NEAR, dtype=dtype)[:, None]
    y = np.array(LABELS[loss.labels], dtype=dtype)
    m.flags.writeable = y.flags.writeable = False
    for formula in (loss.value, loss.slope, loss.curvature):
        out = formula(m, y)
        assert out.dtype == dtype
        assert out.shape == (len(m), len(y))
        assert np.isfinite(out).all()
        one_by_one = np.array(
            [[formula(m[i], y[j : j + 1])[0] for j in range(len(y))] for i in range(len(m))]
        )
        np.testing.assert_array_equal(out, one_by_one)


@pytest.mark.parametrize("loss", SCALAR_LOSSES, ids=name)
def test_constants_are_attained(loss: Loss) -> None:
    """A constant that nothing reaches would be safe but wasteful: more noise than the theorem asks for."""
    m = np.concatenate([np.linspace(-1000, 1000, 2001), np.linspace(-3, 3, 601)])[:, None]
    y = np.array(LABELS[loss.labels])
    slope, curvature = loss.slope(m, y), loss.curvature(m, y)
    assert 0.99 * loss.lipschitz <= np.abs(slope).max() <= loss.lipschitz
    assert 0.99 * loss.smoothness <= np.abs(curvature).max() <= loss.smoothness * (1 + 1e-15)
    if loss.labels == "binary":
        along = y * slope
        assert loss.sign_definite == bool((along >= 0).all() or (along <= 0).all())
    else:
        assert not loss.sign_definite
        assert slope.min() < 0 < slope.max()


@pytest.mark.parametrize("loss", SCALAR_LOSSES, ids=name)
@settings(max_examples=60, deadline=None)
@given(a=margins | near_margins, b=margins | near_margins, label=st.integers(0, 2), t=st.floats(0, 1))
def test_constants_hold_and_the_loss_is_convex(loss: Loss, a: float, b: float, label: int, t: float) -> None:
    choices = LABELS[loss.labels]
    y = np.full(3, choices[label % len(choices)])
    m = np.array([a, b, t * a + (1 - t) * b])
    value, slope, curvature = loss.value(m, y), loss.slope(m, y), loss.curvature(m, y)
    slack = 1e-12 * (1 + np.abs(m).max())
    assert (np.abs(slope) <= loss.lipschitz).all()
    assert ((curvature >= 0) & (curvature <= loss.smoothness * (1 + 1e-15))).all()
    assert abs(slope[0] - slope[1]) <= loss.smoothness * abs(a - b) + 1e-13
    assert abs(value[0] - value[1]) <= loss.lipschitz * abs(a - b) + slack
    assert (slope[0] - slope[1]) * (a - b) >= -1e-13 * abs(a - b)
    assert value[2] <= t * value[0] + (1 - t) * value[1] + slack
    if loss.sign_definite:
        assert (y * slope <= 0).all()


# Softmax: margins on the last axis, one label per row.


def softmax_margins(n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(n_classes)
    rows = [rng.normal(scale=scale, size=(20, n_classes)) for scale in (0.1, 1, 10, 300)]
    corners = 1000.0 * (2 * np.eye(n_classes) - 1)
    return np.clip(np.vstack([*rows, corners, np.zeros((1, n_classes))]), -1000, 1000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", SOFTMAXES, ids=name)
def test_softmax_agrees_with_fifty_digits(loss: Softmax, dtype: type) -> None:
    m = softmax_margins(loss.n_classes).astype(dtype)
    y = np.arange(len(m)) % loss.n_classes
    m.flags.writeable = y.flags.writeable = False
    value, slope, curvature = loss.value(m, y), loss.slope(m, y), loss.curvature(m, y)
    assert value.dtype == slope.dtype == curvature.dtype == dtype
    assert value.shape == y.shape
    assert slope.shape == curvature.shape == m.shape
    eps = float(np.finfo(dtype).eps)
    for i, row in enumerate(m):
        exact_row = [mp.mpf(float(v)) for v in row]
        weights = [mp.exp(v) for v in exact_row]
        total = mp.fsum(weights)
        share = [weight / total for weight in weights]
        assert abs(float(value[i]) - (mp.log(total) - exact_row[y[i]])) <= 8 * eps * (
            1 + float(np.abs(row).max())
        )
        for c in range(loss.n_classes):
            assert abs(float(slope[i, c]) - (share[c] - (c == y[i]))) <= 64 * eps
            assert abs(float(curvature[i, c]) - share[c] * (1 - share[c])) <= 64 * eps
    assert np.isfinite(value).all()


def test_softmax_with_two_classes_is_logistic() -> None:
    rng = np.random.default_rng(0)
    m = np.concatenate([rng.normal(scale=3, size=(200, 2)), [[500, -500], [-500, 500]]])
    y = rng.integers(0, 2, len(m))
    gap, sign = m[:, 1] - m[:, 0], 2.0 * y - 1
    two, one = Softmax(2), Logistic()
    np.testing.assert_allclose(two.value(m, y), one.value(gap, sign), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(two.slope(m, y)[:, 1], one.slope(gap, sign), atol=1e-14)
    np.testing.assert_allclose(two.slope(m, y)[:, 0], -one.slope(gap, sign), atol=1e-14)
    np.testing.assert_allclose(two.curvature(m, y)[:, 1], one.curvature(gap, sign), atol=1e-14)


@pytest.mark.parametrize("loss", SOFTMAXES, ids=name)
def test_softmax_constants_hold_and_are_attained(loss: Softmax) -> None:
    rng = np.random.default_rng(loss.n_classes)
    a = softmax_margins(loss.n_classes)
    b = a + rng.normal(scale=0.1, size=a.shape)
    y = rng.integers(0, loss.n_classes, len(a))
    slope = loss.slope(a, y)
    assert np.linalg.norm(slope, axis=1).max() <= loss.lipschitz
    moved = np.linalg.norm(slope - loss.slope(b, y), axis=1)
    assert (moved <= loss.smoothness * np.linalg.norm(a - b, axis=1) + 1e-13).all()
    middle = loss.value((a + b) / 2, y)
    assert (middle <= (loss.value(a, y) + loss.value(b, y)) / 2 + 1e-9).all()
    corner = np.full((1, loss.n_classes), -1000.0)
    corner[0, 0] = 1000.0
    assert np.linalg.norm(loss.slope(corner, np.array([1]))) >= 0.99 * loss.lipschitz
    level = np.full((1, loss.n_classes), -1000.0)
    level[0, :2] = 0.0
    step = np.zeros_like(level)
    step[0, :2] = [1e-4, -1e-4]
    moved = loss.slope(level + step, np.array([0])) - loss.slope(level - step, np.array([0]))
    assert np.linalg.norm(moved) >= 0.99 * loss.smoothness * np.linalg.norm(2 * step)


def test_softmax_declares_its_outputs() -> None:
    assert [loss.outputs for loss in SOFTMAXES] == [2, 3, 10]
    assert all(loss.outputs == 1 for loss in SCALAR_LOSSES)
    assert Softmax(2).lipschitz ** 2 >= 2


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_widths_and_bounds_are_refused(width: float) -> None:
    with pytest.raises(InvalidInput, match="width"):
        HuberHinge(width)
    with pytest.raises(InvalidInput, match="residual_bound"):
        ClippedSquared(width)


@pytest.mark.parametrize("n_classes", [1, 0, -3, 2.5, True, "3"])
def test_bad_class_counts_are_refused(n_classes: object) -> None:
    with pytest.raises(InvalidInput, match="n_classes"):
        Softmax(n_classes)  # type: ignore[arg-type]
