"""A weighted loss has the constants of its base times the largest weight, for every loss that there is."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dperm.certificate.constants import loss_constants
from dperm.errors import InvalidInput
from dperm.losses import (
    Linear,
    Logistic,
    Weighted,
    rebuild_loss,
    register_loss,
    registered_losses,
    resolve_loss,
)
from dperm.losses.base import weighted_targets

BOUND = 3.0
LOSSES = [loss for kind in registered_losses() for loss in kind.examples()]
each_loss = pytest.mark.parametrize(
    "base", LOSSES, ids=lambda loss: f"{loss.name}{loss.parameters}{loss.outputs}"
)


def places(base, n=4000):
    """Margins of all sizes, labels, and weights from 0 to the bound, both ends included."""
    rng = np.random.default_rng(0)
    shape = (n,) if base.outputs == 1 else (n, base.outputs)
    margin = rng.normal(size=shape) * 10 ** rng.uniform(-2, 2.5, size=(n,) + (1,) * (len(shape) - 1))
    y = {
        "binary": lambda: rng.choice([-1.0, 1.0], n),
        "real": lambda: rng.uniform(-1, 1, n),
        "classes": lambda: rng.integers(base.outputs, size=n).astype(float),
    }[base.labels]()
    weights = rng.uniform(0, BOUND, n)
    weights[: n // 3] = BOUND
    weights[: n // 20] = 0.0
    return margin, y, weights


@pytest.mark.together
@each_loss
def test_constants_are_kept_and_nearly_reached(base):
    loss, (margin, y, weights) = Weighted(base, BOUND), places(base)
    pairs = weighted_targets(y, weights)
    slope, curvature, value = (
        loss.slope(margin, pairs),
        loss.curvature(margin, pairs),
        loss.value(margin, pairs),
    )
    size = np.abs(slope) if base.outputs == 1 else np.linalg.norm(slope, axis=-1)
    assert size.max() <= loss.lipschitz * (1 + 1e-12)
    assert size.max() > 0.6 * loss.lipschitz  # the control: the constants of the base would not do
    assert curvature.max() <= loss.smoothness * (1 + 1e-12)
    per_output = weights if base.outputs == 1 else weights[:, None]
    assert np.array_equal(slope, per_output * base.slope(margin, y))
    assert np.array_equal(value, weights * base.value(margin, y))
    if loss.at_zero is not None:
        ends = np.zeros_like(margin[:2])
        largest = loss.value(ends, weighted_targets(y[:2], [BOUND, BOUND])).max()
        assert largest <= loss.at_zero * (1 + 1e-12)


@pytest.mark.together
@each_loss
def test_curvature_stays_coupled_to_the_slope(base):
    loss, (margin, y, weights) = Weighted(base, BOUND), places(base)
    if loss.coupling is None:
        pytest.skip("not coupled")
    pairs = weighted_targets(y, weights)
    share = np.abs(loss.slope(margin, pairs)) / loss.lipschitz
    most = loss.coupling * (share * (1 - share) if loss.sign_definite else 1 - share**2)
    assert (loss.curvature(margin, pairs) <= most + 1e-12 * loss.smoothness).all()
    light = most / BOUND
    assert not (loss.curvature(margin, pairs) <= light + 1e-12 * loss.smoothness).all()  # the control


@pytest.mark.together
@each_loss
def test_names_and_parameters_give_the_loss_back_and_the_certificate_knows_it(base):
    loss = Weighted(base, BOUND)
    assert rebuild_loss(loss.name, loss.parameters, loss.outputs) == loss
    assert (loss.labels, loss.outputs, loss.sign_definite) == (base.labels, base.outputs, base.sign_definite)
    if base == Linear():
        return
    stated = {"loss": loss.name, "loss_parameters": loss.parameters, "outputs": loss.outputs}
    known = loss_constants(stated)
    assert (known.slope, known.curvature) == pytest.approx((loss.lipschitz, loss.smoothness), rel=1e-12)
    assert (known.monotone, known.heaviest) == (loss.sign_definite, BOUND)
    for mine, theirs in ((known.coupling, loss.coupling), (known.at_zero, loss.at_zero)):
        assert (mine is None) == (theirs is None)
        assert mine is None or mine == pytest.approx(theirs, rel=1e-12)


@pytest.mark.together
@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan, 1e12])
def test_bounds_that_are_none_are_refused(bound):
    with pytest.raises(InvalidInput, match="bound on weights"):
        Weighted(Logistic(), bound)


def test_it_is_no_loss_to_ask_for_and_its_names_are_taken():
    with pytest.raises(InvalidInput, match="not a registered loss"):
        resolve_loss(Weighted(Logistic(), 2.0))
    with pytest.raises(InvalidInput, match="no loss is named"):
        resolve_loss("weighted-logistic")
    with pytest.raises(InvalidInput, match="weighted again"):
        Weighted(Weighted(Logistic(), 2.0), 2.0)

    @dataclass(frozen=True)
    class Mine(Linear):
        name: ClassVar[str] = "weighted-mine"

    with pytest.raises(InvalidInput, match="losses with weights"):
        register_loss(Mine)
    assert "weighted" not in " ".join(kind.name for kind in registered_losses())
