"""What a loss declares: its formulas in the margin and the constants that privacy rests on; and a loss with weights."""

from __future__ import annotations

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.arithmetic import rounded_up
from dperm.errors import InvalidInput
from dperm.typing import Array

Formula = Callable[..., float]
"""A function of ``margin, y, one`` and then the loss's ``kernel_parameters``, one by one."""


@dataclass(frozen=True)
class Kernel:
    """The formulas of a loss of one margin, for the engine's compiled passes.

    - ``slope``: the derivative in the margin, as ``Loss.slope``;
    - ``value``: the loss itself, or a part of it if there is an ``excess``;
    - ``excess``: a number e from 0 to 1 for a loss that is ``value`` + log(1 + e). A pass then multiplies the 1 + e of
      many rows and takes one logarithm for all of them.

    They are module-level functions. Sums in them may be reordered and contracted, but nothing is assumed to be
    finite. They are called in float32 or float64; ``one`` is 1 in that precision, and constants are made from it
    (``one + one``, ``one - one``), because a literal would widen float32. Of functions they may call ``abs``,
    ``min``, ``max``, those of ``math`` and ``exponential``.

    ``gpu`` is the number of the branch of ``engine/device/triton_kernels.py`` that holds the same formulas for the GPU,
    or None: then ``Loss.slope`` and ``Loss.value`` are evaluated there.
    """

    slope: Formula
    value: Formula
    excess: Formula | None = None
    gpu: int | None = None


def exponential(x: float) -> float:
    """e^x, cut off where it would underflow or overflow. Compiled code has a fast one in its place."""
    return math.exp(min(max(x, -708.0), 709.0))


_PLAIN = (int, float, complex, str, bytes, np.generic, type(None))
_NAMED = (ModuleType, BuiltinFunctionType, np.ufunc, type)


def fingerprint(kernel: Kernel) -> str:
    """Of the formulas' code and of everything that they refer to; it changes when any of that does."""
    text = "\n".join(_described(function, set()) for function in (kernel.slope, kernel.value, kernel.excess))
    return hashlib.sha256(text.encode()).hexdigest()


def _described(value: object, seen: set[FunctionType]) -> str:
    if isinstance(value, FunctionType):
        return value.__qualname__ if value in seen else _function(value, seen | {value})
    if isinstance(value, CodeType):
        constants = [_described(part, seen) for part in value.co_consts]
        return f"{value.co_code.hex()} {value.co_names} {value.co_varnames} {constants}"
    if isinstance(value, tuple | frozenset):
        return f"{type(value).__name__} {sorted(_described(part, seen) for part in value)} {value!r}"
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, _NAMED):
        return f"{type(value).__name__} {value.__name__}"
    raise InvalidInput(
        f"a compiled formula refers to a {type(value).__name__}; it may use functions, modules and plain numbers."
    )


def _function(function: FunctionType, seen: set[FunctionType]) -> str:
    """Its module, by which compiled code finds it again, its code and, in turn, all that the code names."""
    code, outside = function.__code__, function.__globals__
    parts = [f"{name} = {_described(outside[name], seen)}" for name in code.co_names if name in outside]
    parts += [_described(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    known = [str(function.__module__), _described(code, seen)]
    return "\n".join([*known, *parts, _described(function.__defaults__, seen)])


def namespace(array: Any) -> Any:
    """NumPy, or torch for its tensors: formulas that ``take tensors`` use what both have, under one name."""
    return np if isinstance(array, np.ndarray | np.generic) else sys.modules["torch"]


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)) without overflow: only exp of a non-positive number is taken."""
    xp = namespace(z)
    if xp is not np:
        found: Array = xp.sigmoid(z)
        return found
    decay = np.exp(-np.abs(z))
    return np.asarray(np.where(z > 0, 1, decay) / (1 + decay))


def softplus(z: Array) -> Array:
    """log(1 + exp(z)) without overflow."""
    xp = namespace(z)
    found: Array = xp.log1p(xp.exp(-xp.abs(z))) + xp.clip(z, 0, None)
    return found


def logistic_density(z: Array) -> Array:
    """The derivative of ``sigmoid``."""
    decay = namespace(z).exp(-namespace(z).abs(z))
    found: Array = decay / (1 + decay) ** 2
    return found


Labels = Literal["binary", "real", "classes"]


class Loss(ABC):
    r"""A convex loss :math:`\phi(m, y)` of the margin :math:`m = \langle x, w \rangle`.

    A row's gradient is :math:`\phi'(m, y)\, x`, so with :math:`\lVert x \rVert \le r` it has norm at
    most ``lipschitz * r`` and its Hessian :math:`\phi'' x x^\top` has norm at most ``smoothness * r**2``.

    - ``lipschitz``: supremum of the norm of the derivative in the margin;
    - ``smoothness``: Lipschitz constant of that derivative (the curvature bound);
    - ``sign_definite``: the derivative in ``y * margin`` never changes sign;
    - ``outputs``: margins per row: 1, or C for a loss over C classes (last axis);
    - ``labels``: ``binary`` (-1 and +1), ``real``, or ``classes`` (0..C-1);
    - ``parameters``: the numbers that, with the name and ``outputs``, tell it apart;
    - ``coupling``: a constant by which the curvature vanishes where the slope is largest, or None. With
      a = \|slope\| / ``lipschitz``, the curvature is at most ``coupling`` a (1 - a) if the loss is ``sign_definite``
      and ``coupling`` (1 - a^2) otherwise.

    The three formulas take arrays that broadcast against each other, keep the dtype of ``margin``,
    and are finite for margins from -1000 to 1000.

    What else its own file says of it, so that no other file has a list of losses:

    - ``aliases``: other names; the first is how the command line calls it;
    - ``is_model``: False for a loss that only tests and audits use;
    - ``kernel``: its formulas for compiled passes, or None: then the three above are used. It belongs to the
      class that declares it: a subclass, which may change a formula, has none until it declares one;
    - ``takes_tensors``: whether the three formulas take tensors of torch too, written by ``namespace``; of the class
      itself, as ``kernel`` is. Without it a device computes them by way of the host;
    - ``kernel_parameters``: what the kernel takes beside margin and label: the parameters, or what follows from them;
    - ``falls_to_zero``: whether its infimum over the margin is 0, whatever the label;
    - ``has_log_odds``: whether ``log_odds`` tells what probabilities a margin stands for;
    - ``examples``: instances to try it with: the first in catalogues and audits, all of them in tests.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[Labels] = "binary"
    sign_definite: ClassVar[bool] = False
    is_model: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = False
    has_log_odds: ClassVar[bool] = False
    kernel: ClassVar[Kernel | None] = None
    takes_tensors: ClassVar[bool] = False
    outputs: int = 1

    @property
    @abstractmethod
    def lipschitz(self) -> float: ...

    @property
    @abstractmethod
    def smoothness(self) -> float: ...

    @property
    def coupling(self) -> float | None:
        return None

    @property
    def curvature_lipschitz(self) -> float | None:
        """Lipschitz constant of ``continuous_curvature`` in the margin; None where coefficients have no intervals."""
        return None

    @property
    def at_zero(self) -> float | None:
        """The loss at margin 0, which bounds how far it can fall from there; None where nothing does."""
        if not self.falls_to_zero or self.labels == "real":
            return None
        margin = np.zeros(1) if self.outputs == 1 else np.zeros((1, self.outputs))
        return float(self.value(margin, np.ones(1))[0])

    @property
    def parameters(self) -> tuple[float, ...]:
        return ()

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return self.parameters

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(),)

    @classmethod
    def from_parameters(cls, parameters: Sequence[float], outputs: int) -> Self:
        """The loss that has these ``parameters`` and ``outputs``."""
        return cls(*parameters)

    @property
    def heaviest(self) -> float:
        """The largest weight that a row can have: 1 where rows have none."""
        return 1.0

    @property
    def unweighted(self) -> Loss:
        """The loss of a row of weight 1."""
        return self

    def for_classes(self, n_classes: int) -> Loss:
        """The loss that stands for this one when there are ``n_classes`` labels."""
        if self.labels == "binary" and n_classes == 2:
            return self
        raise InvalidInput(f"the {self.name} loss is not for {n_classes} classes.")

    @abstractmethod
    def value(self, margin: Array, y: Array) -> Array: ...

    @abstractmethod
    def slope(self, margin: Array, y: Array) -> Array: ...

    @abstractmethod
    def curvature(self, margin: Array, y: Array) -> Array: ...

    def continuous_curvature(self, margin: Array, y: Array) -> Array:
        """The curvature, with a ramp in place of a jump: rounding of a margin at a jump would move a whole row."""
        return self.curvature(margin, y)

    def log_odds(self, margin: Array) -> Array:
        r"""The log odds of y = 1 for which this margin has the least expected loss; of C outputs one up to a constant.

        For a label of -1 or +1 they are :math:`\log|\phi'(m, -1)| - \log|\phi'(m, 1)|`.
        """
        raise InvalidInput(f"margins of the {self.name} loss do not stand for probabilities.")


TARGET = np.dtype([("target", np.float64), ("weight", np.float64)])
"""What stands for a target where rows have weights: it goes wherever a target goes."""

PREFIX = "weighted-"
BOUND_RANGE = (1e-9, 1e9)


def weighted_targets(targets: ArrayLike, weights: ArrayLike) -> NDArray[Any]:
    """One pair of target and weight for each row."""
    pairs = np.empty(len(np.asarray(targets)), TARGET)
    pairs["target"], pairs["weight"] = targets, weights
    return pairs


def has_weights(y: NDArray[Any]) -> bool:
    return y.dtype == TARGET


def targets_alone(y: NDArray[Any]) -> NDArray[Any]:
    """The targets without their weights, where they have some."""
    return np.asarray(y["target"]) if has_weights(y) else y


def weights_alone(y: NDArray[Any]) -> NDArray[Any]:
    """The weights, 1 where rows have none."""
    return np.asarray(y["weight"]) if has_weights(y) else np.ones(np.shape(y))


@dataclass(frozen=True)
class Weighted(Loss):
    r""":math:`\omega\,\phi(m, y)` with the weight :math:`0 \le \omega \le W` of the row; W = ``bound``.

    Every constant is W times that of ``base``, also ``coupling`` (docs/proofs/weights.md). A target is a pair
    (``TARGET``); a plain number is that of an empty row, whose gradient is zero. It has no name in the registry:
    estimators make one from class weights or sample weights, and theorems about one very loss, which look at its type,
    do not take it for that one.
    """

    base: Loss
    bound: float

    def __post_init__(self) -> None:
        low, high = BOUND_RANGE
        if not (isinstance(self.bound, int | float) and low <= self.bound <= high):
            raise InvalidInput(f"the bound on weights must lie between {low:g} and {high:g}.")
        if isinstance(self.base, Weighted):
            raise InvalidInput("a weighted loss cannot be weighted again.")
        own = {"name": PREFIX + self.base.name}
        same = ("labels", "sign_definite", "is_model", "falls_to_zero", "has_log_odds", "outputs")
        for name, value in {**own, **{name: getattr(self.base, name) for name in same}}.items():
            object.__setattr__(self, name, value)

    @property
    def lipschitz(self) -> float:
        return self.bound * self.base.lipschitz

    @property
    def smoothness(self) -> float:
        return self.bound * self.base.smoothness

    @property
    def coupling(self) -> float | None:
        coupling = self.base.coupling
        return None if coupling is None else rounded_up(Fraction(float(self.bound)) * Fraction(coupling))

    @property
    def at_zero(self) -> float | None:
        return None if self.base.at_zero is None else self.bound * self.base.at_zero

    @property
    def heaviest(self) -> float:
        return self.bound

    @property
    def unweighted(self) -> Loss:
        return self.base

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.bound, *self.base.parameters)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return self.base.kernel_parameters

    def for_classes(self, n_classes: int) -> Loss:
        return Weighted(self.base.for_classes(n_classes), self.bound)

    def value(self, margin: Array, y: Array) -> Array:
        return self._weight(margin, y) * self.base.value(margin, self._target(margin, y))

    def slope(self, margin: Array, y: Array) -> Array:
        return self._per_output(margin, y) * self.base.slope(margin, self._target(margin, y))

    def curvature(self, margin: Array, y: Array) -> Array:
        return self._per_output(margin, y) * self.base.curvature(margin, self._target(margin, y))

    def log_odds(self, margin: Array) -> Array:
        """Among rows counted by their weights."""
        return self.base.log_odds(margin)

    @staticmethod
    def _target(margin: Array, y: Array) -> Array:
        """Tensors of targets with weights have a last axis for both."""
        return np.asarray(targets_alone(y), margin.dtype) if namespace(margin) is np else y[..., 0]

    @staticmethod
    def _weight(margin: Array, y: Array) -> Array:
        return np.asarray(weights_alone(y), margin.dtype) if namespace(margin) is np else y[..., 1]

    def _per_output(self, margin: Array, y: Array) -> Array:
        weight = self._weight(margin, y)
        return weight if self.outputs == 1 else weight[..., None]
