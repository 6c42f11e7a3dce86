"""What a loss declares: its formulas in the margin and the constants that privacy rests on."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.losses.kernel import Kernel

Array = NDArray[np.floating[Any]]
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
    def unweighted(self) -> "Loss":
        """The loss of a row of weight 1."""
        return self

    def for_classes(self, n_classes: int) -> "Loss":
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

    def log_odds(self, margin: Array) -> Array:
        r"""The log odds of y = 1 for which this margin has the least expected loss; of C outputs one up to a constant.

        For a label of -1 or +1 they are :math:`\log|\phi'(m, -1)| - \log|\phi'(m, 1)|`.
        """
        raise InvalidInput(f"margins of the {self.name} loss do not stand for probabilities.")
