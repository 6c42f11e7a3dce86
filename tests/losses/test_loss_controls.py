"""Losses that are wrong in one thing: the laws must catch each, and registration what shows on a few margins."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from loss_laws import check_dtype_and_shape, check_formulas, search_constants

from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, Logistic, Softmax, register_loss


@dataclass(frozen=True)
class TooSmallSlope(Logistic):
    name: ClassVar[str] = "too-small-slope"
    lipschitz = 0.99


@dataclass(frozen=True)
class TooSmallCurvature(Logistic):
    name: ClassVar[str] = "too-small-curvature"
    smoothness = 0.2499


@dataclass(frozen=True)
class TooSmallCoupling(Logistic):
    name: ClassVar[str] = "too-small-coupling"
    coupling = 0.99


@dataclass(frozen=True)
class ChangesSign(ClippedSquared):
    name: ClassVar[str] = "changes-sign"
    sign_definite: ClassVar[bool] = True


@dataclass(frozen=True)
class Unbounded(ClippedSquared):
    """The squared loss without its clip."""

    name: ClassVar[str] = "unbounded"

    def value(self, margin, y):
        return (margin - y) ** 2 / 2

    def slope(self, margin, y):
        return margin - y


@dataclass(frozen=True)
class NarrowSoftmax(Softmax):
    name: ClassVar[str] = "narrow-softmax"
    lipschitz = 1.0


@dataclass(frozen=True)
class OtherSlope(Logistic):
    """A slope that keeps the constants but is not the value's."""

    name: ClassVar[str] = "other-slope"

    def slope(self, margin, y):
        return super().slope(margin, y) * margin.dtype.type(0.9)


@dataclass(frozen=True)
class OtherCurvature(Logistic):
    name: ClassVar[str] = "other-curvature"

    def curvature(self, margin, y):
        return super().curvature(margin, y) * margin.dtype.type(0.9)


@dataclass(frozen=True)
class Overflows(Logistic):
    name: ClassVar[str] = "overflows"

    def value(self, margin, y):
        return np.log(1 + np.exp(-y * margin))


@dataclass(frozen=True)
class Imprecise(Logistic):
    """The slope from the difference of two numbers near 1."""

    name: ClassVar[str] = "imprecise"

    def slope(self, margin, y):
        z = np.abs(y * margin)
        small = 1 + np.exp(-z) * margin.dtype.type(1e-6) - 1
        return -y * np.where(y * margin >= 0, small * 1e6, 1) / (1 + np.exp(-z))


@dataclass(frozen=True)
class Widens(Logistic):
    name: ClassVar[str] = "widens"

    def slope(self, margin, y):
        return super().slope(margin.astype(np.float64), y)


@dataclass(frozen=True)
class NotConvex(Logistic):
    name: ClassVar[str] = "not-convex"
    sign_definite: ClassVar[bool] = False
    smoothness = 1.0

    def value(self, margin, y):
        return np.cos(margin)

    def slope(self, margin, y):
        return -np.sin(margin)

    def curvature(self, margin, y):
        return np.abs(np.cos(margin))


def all_laws(loss):
    for dtype in (np.float32, np.float64):
        check_dtype_and_shape(loss, dtype)
    search_constants(loss)
    for dtype in (np.float32, np.float64):
        check_formulas(loss, dtype)


@pytest.mark.together
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (TooSmallSlope(), "lipschitz"),
        (TooSmallCurvature(), "smoothness"),
        (ChangesSign(), "sign"),
        (Unbounded(), "lipschitz"),
        (NarrowSoftmax(3), "lipschitz"),
        (OtherSlope(), "slope"),
        (OtherCurvature(), "curvature"),
        (Overflows(), "finite"),
        (Imprecise(), "slope|smoothness"),
        (Widens(), "dtype"),
        (NotConvex(), "convex"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_laws_catch_a_loss_that_breaks_one(wrong, law):
    with pytest.raises(AssertionError, match=law):
        all_laws(wrong)


@pytest.mark.together
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (TooSmallSlope, "slopes reach 1, above lipschitz = 0.99"),
        (TooSmallCurvature, "curvatures must lie"),
        (TooSmallCoupling, "curvatures exceed what coupling = 0.99 allows"),
        (ChangesSign, "sign_definite"),
        (Unbounded, "above lipschitz"),
        (NarrowSoftmax, "slopes reach 1.41421, above lipschitz = 1"),
        (Overflows, "be finite"),
        (Widens, "keep the dtype"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_registration_refuses_what_a_few_margins_show(wrong, why):
    with pytest.raises(InvalidInput, match=f"{wrong.__name__} cannot be registered as a loss: .*{why}"):
        register_loss(wrong)
