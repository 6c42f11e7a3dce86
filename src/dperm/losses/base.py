"""What a loss declares: its formulas in the margin and the constants that privacy rests on."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Labels = Literal["binary", "real", "classes"]


class Loss(ABC):
    r"""A convex loss :math:`\phi(m, y)` of the margin :math:`m = \langle x, w \rangle`.

    A row's gradient is :math:`\phi'(m, y)\, x`, so with :math:`\lVert x \rVert \le r` it has norm at
    most ``lipschitz * r`` and its Hessian :math:`\phi'' x x^\top` has norm at most ``smoothness * r**2``.

    ``lipschitz``      supremum of the norm of the derivative in the margin;
    ``smoothness``     Lipschitz constant of that derivative (the curvature bound);
    ``sign_definite``  the derivative in ``y * margin`` never changes sign;
    ``outputs``        margins per row: 1, or C for a loss over C classes (last axis);
    ``labels``         ``binary`` (-1 and +1), ``real``, or ``classes`` (0..C-1);
    ``parameters``     what a compiled kernel needs besides the name.

    The three formulas take arrays that broadcast against each other, keep the dtype of ``margin``,
    and are finite for margins from -1000 to 1000.
    """

    name: ClassVar[str]
    labels: ClassVar[Labels] = "binary"
    sign_definite: ClassVar[bool] = False
    outputs: int = 1

    @property
    @abstractmethod
    def lipschitz(self) -> float: ...

    @property
    @abstractmethod
    def smoothness(self) -> float: ...

    @property
    def parameters(self) -> tuple[float, ...]:
        return ()

    @abstractmethod
    def value(self, margin: Array, y: Array) -> Array: ...

    @abstractmethod
    def slope(self, margin: Array, y: Array) -> Array: ...

    @abstractmethod
    def curvature(self, margin: Array, y: Array) -> Array: ...
