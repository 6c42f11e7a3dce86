"""Every loss: its formulas against 50-digit arithmetic, and its constants, never exceeded and attained."""

from typing import Any

import numpy as np
import pytest
from loss_laws import (
    FAR,
    NEAR,
    TARGETS,
    check_dtype_and_shape,
    check_formulas,
    labels_of,
    mp,
    search_constants,
)

from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax, registered_losses

EVERY = [example for kind in registered_losses() for example in kind.examples()]
SCALAR_LOSSES = [loss for loss in EVERY if loss.outputs == 1]
SOFTMAXES = [loss for loss in EVERY if isinstance(loss, Softmax)]
OURS = [loss for loss in SCALAR_LOSSES if type(loss) in (Logistic, HuberHinge, ClippedSquared, Linear)]
DTYPES = [np.float32, np.float64]
H = mp.mpf(10) ** -18


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
    return [(loss, y) for loss in OURS for y in TARGETS[loss.labels]]


@pytest.mark.cover(1)
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


def test_huber_hinge_at_its_knots() -> None:
    loss = HuberHinge(0.5)  # knots at 0.5 and 1.5, exact in binary
    m, y = np.array([0.5, 1.5]), np.ones(2)
    assert loss.value(m, y).tolist() == [0.5, 0.0]
    assert loss.slope(m, y).tolist() == [-1.0, 0.0]
    assert loss.curvature(m, y).tolist() == [1.0, 1.0]
    outside = np.array([0.5 - 1e-12, 1.5 + 1e-12])
    assert loss.curvature(outside, y).tolist() == [0.0, 0.0]


@pytest.mark.cover(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", EVERY, ids=name)
def test_formulas_belong_together_and_are_precise(loss: Loss, dtype: type) -> None:
    check_formulas(loss, dtype)


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", EVERY, ids=name)
def test_dtype_shape_and_inputs_are_kept(loss: Loss, dtype: type) -> None:
    check_dtype_and_shape(loss, dtype)


@pytest.mark.together
@pytest.mark.parametrize("loss", EVERY, ids=name)
def test_constants_hold_and_the_loss_is_convex(loss: Loss) -> None:
    search_constants(loss)


@pytest.mark.together
@pytest.mark.parametrize("loss", SCALAR_LOSSES, ids=name)
def test_constants_are_attained(loss: Loss) -> None:
    """A constant that nothing reaches would be safe but wasteful: more noise than the theorem asks for."""
    m = np.concatenate([np.linspace(-1000, 1000, 2001), np.linspace(-3, 3, 601)])[:, None]
    y = np.array(labels_of(loss))
    slope, curvature = loss.slope(m, y), loss.curvature(m, y)
    assert 0.99 * loss.lipschitz <= np.abs(slope).max() <= loss.lipschitz
    assert 0.99 * loss.smoothness <= np.abs(curvature).max() <= loss.smoothness * (1 + 1e-15)
    if loss.labels == "binary":
        along = y * slope
        assert loss.sign_definite == bool((along >= 0).all() or (along <= 0).all())
    else:
        assert not loss.sign_definite
        assert slope.min() < 0 < slope.max()


# Softmax: margins on the last axis, one label per row.


def softmax_margins(n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(n_classes)
    rows = [rng.normal(scale=scale, size=(20, n_classes)) for scale in (0.1, 1, 10, 300)]
    corners = 1000.0 * (2 * np.eye(n_classes) - 1)
    return np.clip(np.vstack([*rows, corners, np.zeros((1, n_classes))]), -1000, 1000)


@pytest.mark.cover(1)
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
    assert [loss.outputs for loss in SOFTMAXES] == [3, 2, 10]
    assert all(loss.outputs == 1 for loss in SCALAR_LOSSES)
    assert Softmax(2).lipschitz ** 2 >= 2


@pytest.mark.together
@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_widths_and_bounds_are_refused(width: float) -> None:
    with pytest.raises(InvalidInput, match="width"):
        HuberHinge(width)
    with pytest.raises(InvalidInput, match="residual_bound"):
        ClippedSquared(width)


@pytest.mark.together
@pytest.mark.parametrize("n_classes", [1, 0, -3, 2.5, True, "3"])
def test_bad_class_counts_are_refused(n_classes: object) -> None:
    with pytest.raises(InvalidInput, match="n_classes"):
        Softmax(n_classes)  # type: ignore[arg-type]
