"""The certificate's constants of the losses are its own, complete, and those that the losses declare."""

from dataclasses import astuple
from itertools import product

import numpy as np
import pytest

from dperm.certificate.constants import is_known, loss_constants
from dperm.certificate.verdict import Check, Verdict
from dperm.errors import InvalidInput
from dperm.losses import (
    ClippedSquared,
    HardClippedLogistic,
    HuberHinge,
    MarginLogistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
    registered_losses,
)

USABLE = [kind for kind in registered_losses() if kind.is_model]
NUMBERS = np.geomspace(1e-3, 1e3, 13)
SHARES = (1e-3, 0.1, 0.35, 0.5, 0.7, 0.9, 0.999, 1 - 1e-10)
MANY = {
    HuberHinge: [(width,) for width in NUMBERS],
    ClippedSquared: [(bound,) for bound in NUMBERS],
    SoftClippedLogistic: list(product(SHARES, SHARES)),
    HardClippedLogistic: [(clip,) for clip in SHARES],
    MarginLogistic: [(shift,) for shift in SHARES],
    SoftClippedSquared: list(product(NUMBERS, SHARES)),
    Softmax: [(2,), (3,), (7,), (1000,)],
}


def stated(loss):
    return {"loss": loss.name, "loss_parameters": list(loss.parameters), "outputs": loss.outputs}


@pytest.mark.together
@pytest.mark.parametrize("kind", USABLE, ids=lambda kind: kind.name)
def test_every_loss_of_a_model_has_constants_of_its_own_here(kind):
    assert is_known(kind.name)
    losses = [*kind.examples(), *(kind(*values) for values in MANY.get(kind, ()))]
    for loss in losses:
        slope, curvature, sign, coupling, at_zero, heaviest = astuple(loss_constants(stated(loss)))
        assert (slope, curvature) == pytest.approx((loss.lipschitz, loss.smoothness), rel=1e-12)
        assert (sign, heaviest) == (loss.sign_definite, 1.0)
        assert coupling == (None if loss.coupling is None else pytest.approx(loss.coupling, rel=1e-12))
        assert at_zero == (None if loss.at_zero is None else pytest.approx(loss.at_zero, rel=1e-9))


def test_the_losses_with_a_number_are_tried_on_many():
    """A loss with parameters that is not in ``MANY`` would be tried on its examples alone."""
    assert {kind for kind in USABLE if kind.examples()[0].parameters} <= set(MANY)


@pytest.mark.together
@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (
            {"loss": "linear", "loss_parameters": [], "outputs": 1},
            "no independent constants for the loss 'linear'",
        ),
        ({"loss": "logistic", "loss_parameters": [1.0], "outputs": 1}, "these parameters are not known"),
        ({"loss": "logistic", "loss_parameters": [], "outputs": 2}, "these parameters are not known"),
        ({"loss": "huber-hinge", "loss_parameters": [], "outputs": 1}, "these parameters are not known"),
        ({"loss": "softmax", "loss_parameters": [], "outputs": 1}, "these parameters are not known"),
        ({"loss": "soft-clipped-logistic", "loss_parameters": [1.0, 0.5], "outputs": 1}, "must be below 1"),
        ({"loss": "soft-clipped-squared", "loss_parameters": [1.0, 1.5], "outputs": 1}, "must be below 1"),
        ({"loss": "squared", "loss_parameters": [0.0], "outputs": 1}, "must be above 0"),
        ({"loss": "squared", "loss_parameters": [float("nan")], "outputs": 1}, "must be above 0"),
    ],
)
def test_others_are_refused(problem, why):
    with pytest.raises(InvalidInput, match=why):
        loss_constants(problem)


def test_what_is_not_confirmed_is_no_guarantee():
    passed = Check(name="all", route="structure", passed=True, detail="")
    claim = {"epsilon": 1.0, "delta": 1e-6}
    for unmet, unproven in (((), ("x",)), (("NOT MET: y",), ("x",))):
        verdict = Verdict(checks=(passed,), claim=claim, reason=None, unmet=unmet, unproven=unproven)
        assert verdict.accepted
        assert not verdict.ok
        assert verdict.guarantee is None
        assert verdict.objections == (*unmet, *unproven)
    assert Verdict(checks=(passed,), claim=claim, reason=None).ok
