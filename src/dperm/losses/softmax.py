"""Cross-entropy over C classes: one loss for all classes, so one budget for all classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Labels, Loss, namespace
from dperm.typing import Array


@dataclass(frozen=True)
class Softmax(Loss):
    r""":math:`\log \sum_c e^{m_c} - m_y` with margins on the last axis and labels 0..C-1.

    The derivative is softmax(m) - e_y, of norm below sqrt(2); the Hessian diag(s) - s s^T has norm at
    most 1/2. ``curvature`` returns its diagonal s (1 - s).
    """

    n_classes: int = 2
    name: ClassVar[str] = "softmax"
    labels: ClassVar[Labels] = "classes"
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.n_classes, int) and self.n_classes >= 2):
            raise InvalidInput(f"n_classes must be a whole number of at least 2; got {self.n_classes!r}.")
        object.__setattr__(self, "outputs", self.n_classes)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(3), cls(2), cls(10))

    @classmethod
    def from_parameters(cls, parameters: Sequence[float], outputs: int) -> Self:
        return cls(outputs)

    def for_classes(self, n_classes: int) -> Loss:
        return Softmax(n_classes)

    @property
    def lipschitz(self) -> float:
        # sqrt(2) rounded up: the float nearest to sqrt(2) lies above it already.
        return 1.4142135623730951

    @property
    def smoothness(self) -> float:
        return 0.5

    def _chosen(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        classes = xp.arange(self.n_classes, device=margin.device)
        chosen: Array = xp.asarray(xp.asarray(y)[..., None] == classes, dtype=margin.dtype)
        return chosen

    def _probabilities(self, margin: Array) -> Array:
        xp = namespace(margin)
        if xp is not np:
            found: Array = xp.softmax(margin, -1)
            return found
        shifted = np.exp(margin - margin.max(axis=-1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))

    def value(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        top = xp.amax(margin, axis=-1, keepdims=True)
        log_sum = xp.log(xp.exp(margin - top).sum(axis=-1)) + top[..., 0]
        found: Array = log_sum - (margin * self._chosen(margin, y)).sum(axis=-1)
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        return self._probabilities(margin) - self._chosen(margin, y)

    def curvature(self, margin: Array, y: Array) -> Array:
        s = self._probabilities(margin)
        return s * (1 - s)

    def log_odds(self, margin: Array) -> Array:
        return margin
