"""What every loss must keep, whatever it is: the laws take a loss and know none by name.

Formulas are held against themselves in 60 digits: NumPy runs them on arrays of mpmath numbers. The value is the
definition; slope and curvature must be its derivatives, and floats must be close to all three.
"""

from typing import Any

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.losses import Loss

mp = mpmath.MPContext()  # a context of our own: its numbers get the methods that NumPy's functions call
mp.dps = 60
for _name in ("exp", "log", "log1p", "expm1", "sqrt", "tanh", "cosh", "sinh", "arctan"):
    _function = getattr(mp, {"arctan": "atan"}.get(_name, _name))
    setattr(mp.mpf, _name, lambda self, function=_function: function(self))
H = mp.mpf(10) ** -18

FAR = [-1000.0, -746.0, -700.0, -100.0, -37.0, -17.0, -4.0, 4.0, 17.0, 37.0, 100.0, 700.0, 746.0, 1000.0]
NEAR = [-2.5, -1.5, -1.0, -0.5, -0.125, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.125, 0.5, 1.0, 1.5, 2.5]
TARGETS = {"binary": [-1.0, 1.0], "real": [-0.75, 0.0, 2.5]}


def labels_of(loss: Loss) -> list[float]:
    return TARGETS[loss.labels] if loss.labels != "classes" else [float(c) for c in range(loss.outputs)]


def margins_of(loss: Loss) -> np.ndarray:
    """Margins from -1000 to 1000, ``(n, outputs)``; of several outputs each goes through them all, beside others."""
    steps = np.array(FAR + NEAR)
    if loss.outputs == 1:
        return steps[:, None]
    rng = np.random.default_rng(loss.outputs)
    rows = [rng.normal(scale=scale, size=(8, loss.outputs)) for scale in (0.1, 1, 10, 300)]
    one_by_one = [step * np.eye(loss.outputs)[c % loss.outputs] for c, step in enumerate(steps)]
    return np.clip(np.vstack([*rows, *one_by_one, 1000 * (2 * np.eye(loss.outputs) - 1)]), -1000, 1000)


def shaped(loss: Loss, margin: Any) -> np.ndarray:
    """As a loss takes margins: one output has no axis of its own."""
    return margin[..., 0] if loss.outputs == 1 else margin


def spread(loss: Loss, slope: np.ndarray) -> np.ndarray:
    """Slopes or curvatures with an axis for the outputs."""
    return slope[..., None] if loss.outputs == 1 else slope


def exact(loss: Loss, margin: np.ndarray, y: np.ndarray) -> Any:
    """Value, slope and curvature in 60 digits: the value's own formula, and differences of it along each output."""

    def value(m: Any) -> Any:
        return np.asarray(loss.value(shaped(loss, m), y if loss.labels == "classes" else digits(y)), object)

    m = digits(margin)
    at, slopes, curvatures = value(m), [], []
    for c in range(loss.outputs):
        step = np.zeros(m.shape, object)
        step[:, c] = H
        ahead, behind = value(m + step), value(m - step)
        slopes.append((ahead - behind) / (2 * H))
        curvatures.append((ahead - 2 * at + behind) / (H * H))
    return at, np.stack(slopes, axis=-1), np.stack(curvatures, axis=-1)


def digits(values: np.ndarray) -> np.ndarray:
    return np.array([mp.mpf(float(v)) for v in values.ravel()], object).reshape(values.shape)


def check_formulas(loss: Loss, dtype: type) -> None:
    """Value, slope and curvature belong together, and floats are as close to them as the engines promise."""
    eps = float(np.finfo(dtype).eps)
    contract = max(loss.lipschitz, loss.smoothness / 5)
    slope_error = 1e-14 * contract if dtype is np.float64 else 64 * eps * max(1, loss.smoothness)
    for label in labels_of(loss)[: 3 if loss.outputs == 1 else 1]:
        margin = margins_of(loss).astype(dtype)
        y = np.full(len(margin), label, dtype)
        formulas = (loss.value, loss.slope, loss.curvature)
        value, slope, curvature = (formula(shaped(loss, margin), y) for formula in formulas)
        want, want_slope, want_curvature = exact(loss, margin, y)
        scale = 1 + np.abs(margin).max(axis=1) * (loss.outputs > 1) + loss.smoothness + np.abs(want)
        assert (np.abs(value - want) <= 8 * eps * scale).all(), "value"
        assert (np.abs(spread(loss, slope) - want_slope) <= slope_error).all(), "slope"
        smooth = ~jumps(loss, margin, y)
        off = np.abs(spread(loss, curvature) - want_curvature)[smooth]
        assert smooth.mean() > 0.5
        assert (off <= 64 * eps * max(loss.smoothness, 1e-3)).all(), "curvature"


def jumps(loss: Loss, margin: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where the curvature is not the same on both sides, as at the knots of a loss made of pieces."""
    left, right = (exact(loss, margin + shift, y)[2] for shift in (-1e-3, 1e-3))
    return np.asarray((np.abs(left - right) > 0.01 * loss.smoothness).any(axis=1), bool)


def check_dtype_and_shape(loss: Loss, dtype: type) -> None:
    margin = margins_of(loss).astype(dtype)[:, None]
    y = np.array(labels_of(loss), dtype)
    margin.flags.writeable = y.flags.writeable = False
    for formula in (loss.value, loss.slope, loss.curvature):
        out = formula(shaped(loss, margin), y)
        assert out.dtype == dtype, "dtype"
        assert np.isfinite(out).all(), "finite"
        per_output = loss.outputs > 1 and formula != loss.value
        out = np.broadcast_to(out, (len(margin), len(y), *[loss.outputs] * per_output))
        for j in range(len(y)):
            alone = formula(shaped(loss, margin[:, 0]), np.full(len(margin), y[j]))
            np.testing.assert_array_equal(out[:, j], alone)


def search_constants(loss: Loss, examples: int = 60) -> None:
    """Look for margins and a label that break a constant or the convexity."""
    point = st.lists(
        st.floats(-1000, 1000) | st.floats(-4, 4), min_size=loss.outputs, max_size=loss.outputs
    ).map(np.array)

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, report_multiple_bugs=False
    )
    @given(a=point, b=point, label=st.sampled_from(labels_of(loss)), t=st.floats(0, 1))
    def law(a: np.ndarray, b: np.ndarray, label: float, t: float) -> None:
        check_constants(loss, a, b, label, t)

    law()


def check_constants(loss: Loss, a: np.ndarray, b: np.ndarray, label: float, t: float) -> None:
    m, y = np.stack([a, b, t * a + (1 - t) * b]), np.full(3, label)
    value = loss.value(shaped(loss, m), y)
    slope, curvature = (spread(loss, formula(shaped(loss, m), y)) for formula in (loss.slope, loss.curvature))
    apart, reach = float(np.linalg.norm(a - b)), 1e-12 * (1 + np.abs(m).max())
    rounding = 0 if loss.outputs == 1 else 1e-15
    assert np.linalg.norm(slope, axis=1).max() <= loss.lipschitz * (1 + rounding), "lipschitz"
    assert curvature.min() >= 0, "convex"
    assert curvature.max() <= loss.smoothness * (1 + 1e-15), "smoothness"
    moved = slope[0] - slope[1]
    assert np.linalg.norm(moved) <= loss.smoothness * apart + 1e-13, "smoothness"
    assert abs(value[0] - value[1]) <= loss.lipschitz * apart + reach, "lipschitz"
    assert moved @ (a - b) >= -1e-13 * apart, "convex"
    assert value[2] <= t * value[0] + (1 - t) * value[1] + reach, "convex"
    if loss.sign_definite:
        assert (label * slope <= 0).all(), "sign"
