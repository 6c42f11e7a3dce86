"""The formulas on tensors are those of the losses."""

import numpy as np
import pytest

from dperm.losses import Logistic, example_losses

torch = pytest.importorskip("torch", reason="rows on a device need torch")

from dperm.engine.device.engine import OnHost, tensor_formulas  # noqa: E402

MARGINS = np.concatenate([[-1000.0, -40.0, 40.0, 1000.0], np.linspace(-8, 8, 1601)])


def cases(loss, dtype):
    rng = np.random.default_rng(0)
    if loss.labels == "classes":
        margin = rng.choice(MARGINS, (700, 2, loss.outputs))
        y = rng.integers(loss.outputs, size=(700, 1)).astype(float)
    else:
        margin = np.stack([MARGINS, MARGINS[::-1] / 3], axis=1)
        y = rng.standard_normal((len(margin), 1))
        if loss.labels == "binary":
            y = np.sign(y)
    return margin.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", example_losses(), ids=repr)
def test_every_registered_loss_has_its_own(loss, dtype):
    formulas = tensor_formulas(loss)
    assert not isinstance(formulas, OnHost)
    margin, y = cases(loss, dtype)
    size = 2e-6 if dtype == "float32" else 1e-14
    for name in ("value", "slope", "curvature"):
        found = getattr(formulas, name)(torch.from_numpy(margin), torch.from_numpy(y)).numpy()
        expected = getattr(loss, name)(margin, y)
        assert found.dtype == np.dtype(dtype)
        assert np.isfinite(found).all()
        scale = max(loss.lipschitz, loss.smoothness) if name != "value" else 1 + np.abs(expected)
        away = np.ones(found.shape, bool)
        if name == "curvature":  # it jumps at knots, where a rounding decides
            step = margin.dtype.type(1e-4)
            away = np.abs(loss.curvature(margin + step, y) - loss.curvature(margin - step, y)) < 1e-2 * scale
            assert away.mean() > 0.9
        assert (np.abs(found - expected) <= size * scale)[away].all()


@pytest.mark.parametrize("name", ["value", "slope", "curvature"])
def test_a_subclass_is_computed_on_the_host(name):
    class Other(Logistic):
        pass

    formulas = tensor_formulas(Other())
    assert isinstance(formulas, OnHost)
    margin, y = cases(Logistic(), "float32")
    found = getattr(formulas, name)(torch.from_numpy(margin), torch.from_numpy(y))
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), getattr(Logistic(), name)(margin, y))
