"""A loss's compiled formulas: the same numbers as its own, never a parent's, compiled anew when their code changes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dperm.engine import Table
from dperm.engine.base.blocked import compiled_kind, has_compiled_softmax
from dperm.engine.base.formulas import formulas_of
from dperm.errors import InvalidInput
from dperm.losses import HuberHinge, Linear, Logistic, Softmax, Weighted, registered_losses
from dperm.losses.base import Kernel, exponential, fingerprint, weighted_targets
from dperm.row_map import RowMap

COMPILED = [example for kind in registered_losses() if kind.kernel is not None for example in kind.examples()]
MARGINS = np.concatenate(
    [np.linspace(-1000, 1000, 201), np.linspace(-3, 3, 241), np.arange(-30, 31) * math.log(2) / 2]
)
TARGETS = {"binary": (-1.0, 1.0), "real": (-2.0, 0.0, 0.7)}


def off(loss, models, storage, precise):
    """Largest difference of the dense engine's slopes and values from the loss's own formulas, row by row."""
    worst, n = [0.0, 0.0], len(MARGINS)
    for y in TARGETS[loss.labels]:
        labels = np.full(n, y)
        if isinstance(loss, Weighted):
            labels = weighted_targets(labels, np.random.default_rng(0).uniform(0.9, 1, n) * loss.bound)
        rows = Table(0.5 * np.eye(n), labels, row_map=RowMap(x_norm=1.0), n_rows=n).open(
            storage=storage, precise=precise
        )
        W = np.repeat(2 * MARGINS[:, None], models, axis=1)
        at = rows.margins(W.astype(rows.arithmetic(models).name).astype(np.float64))[:, 0]
        slopes = 2 * rows.gradient_sum(loss, W)[:, -1]
        worst[0] = max(worst[0], np.abs(slopes - loss.slope(at, labels)).max())
        value = loss.value(at, labels)
        worst[1] = max(worst[1], abs(rows.value_sum(loss, W)[-1] - value.sum()) / (n + np.abs(value).sum()))
    return worst


def allowed(loss, storage, precise):
    if precise or storage == "float64":
        return 2e-14 * max(loss.lipschitz, loss.smoothness / 5), 2e-14
    return 1e-6 * max(loss.lipschitz, loss.smoothness), 1e-6


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize(("models", "precise"), [(1, True), (1, False), (3, False)])
@pytest.mark.parametrize("loss", COMPILED, ids=repr)
def test_compiled_formulas_are_those_of_the_loss(loss, models, precise, storage):
    assert all(np.less_equal(off(loss, models, storage, precise), allowed(loss, storage, precise)))


@pytest.mark.cover(1)
@pytest.mark.parametrize(("models", "precise"), [(1, True), (1, False), (3, False)])
@pytest.mark.parametrize("loss", COMPILED, ids=repr)
def test_weights_leave_the_errors_within_those_of_the_largest(loss, models, precise):
    """In float64 half of what the others are allowed here, which is what an engine promises."""
    weighted = Weighted(loss, 7.3)
    most = allowed(weighted, "float32", precise)
    share = 0.5 if precise else 1.0
    assert all(np.less_equal(off(weighted, models, "float32", precise), [share * most[0], 7.3 * most[1]]))


def steeper(margin, y, one):
    return -y / (one + exponential(y * margin)) * 1.0001


def halved(margin, y, one):
    return max(-y * margin, one - one) / (one + one)


@pytest.mark.parametrize(("wrong", "which"), [({"slope": steeper}, 0), ({"value": halved}, 1)])
@pytest.mark.parametrize("models", [1, 3])
def test_a_formula_that_is_not_the_loss_s_is_noticed(wrong, which, models):
    kernel = Kernel(**{**vars(Logistic.kernel), **wrong})
    loss = dataclass(frozen=True)(type("Wrong", (Logistic,), {"kernel": kernel}))()
    for storage in ("float32", "float64"):
        precise = models == 1
        assert off(loss, models, storage, precise)[which] > allowed(loss, storage, precise)[which]


@dataclass(frozen=True)
class Steeper(HuberHinge):
    """Twice the loss, by the three formulas alone."""

    name: ClassVar[str] = "steeper"
    lipschitz = 2.0

    def value(self, margin, y):
        return 2 * super().value(margin, y)

    def slope(self, margin, y):
        return 2 * super().slope(margin, y)


@pytest.mark.parametrize("models", [1, 3])
def test_a_subclass_does_not_run_its_parent_s_formulas(models):
    assert compiled_kind(Steeper()) is None
    assert compiled_kind(HuberHinge()) is not None
    rows = Table(np.eye(3), np.ones(3), row_map=RowMap(x_norm=1.0), n_rows=3).open()
    W = np.zeros((3, models))
    np.testing.assert_allclose(
        rows.gradient_sum(Steeper(), W), 2 * rows.gradient_sum(HuberHinge(), W), rtol=1e-12
    )
    np.testing.assert_allclose(rows.value_sum(Steeper(), W), 2 * rows.value_sum(HuberHinge(), W), rtol=1e-12)


def test_formulas_of_one_margin_are_not_run_on_several():
    several = type("Several", (Softmax,), {"kernel": Logistic.kernel})
    assert compiled_kind(several(3)) is None


def test_a_subclass_of_softmax_does_not_run_its_parent_s_formulas():
    assert has_compiled_softmax(Softmax(3))
    assert not has_compiled_softmax(type("Other", (Softmax,), {})(3))


BASE = "FACTOR = {factor}\n\n\ndef helper(x):\n    return x * {inner}\n\n\ndef slope(margin, y, one):\n    {body}\n"


def kernel_of(factor="2.0", inner="3.0", body="return FACTOR * helper(margin) * y"):
    scope = {}
    exec(BASE.format(factor=factor, inner=inner, body=body), scope)
    return Kernel(slope=scope["slope"], value=scope["slope"])


def test_a_fingerprint_follows_the_code_and_all_it_refers_to():
    assert fingerprint(kernel_of()) == fingerprint(kernel_of())
    others = [
        kernel_of(factor="2.5"),
        kernel_of(factor="(1.0, 2.0)"),
        kernel_of(factor="(2.0, 1.0)"),
        kernel_of(inner="4.0"),
        kernel_of(body="return FACTOR + helper(margin) * y"),
        kernel_of(body="return FACTOR * helper(y) * margin"),
        Kernel(slope=kernel_of().slope, value=kernel_of().slope, excess=kernel_of().slope),
    ]
    assert len({fingerprint(kernel) for kernel in (kernel_of(), *others)}) == len(others) + 1


def test_formulas_may_refer_to_what_can_be_told_apart_only():
    with pytest.raises(InvalidInput, match="a compiled formula refers to a list; it may use"):
        fingerprint(kernel_of(factor="[1.0]"))


def test_each_loss_has_a_type_of_its_own():
    kinds = [formulas_of(kind.kernel).dtype for kind in (Logistic, HuberHinge, Linear)]
    assert len(set(kinds)) == 3
    assert formulas_of(Logistic.kernel).dtype == compiled_kind(Logistic()).dtype
