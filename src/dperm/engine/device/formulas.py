"""The losses' formulas on tensors: those of their own files, once more, because NumPy's functions take no tensor.

``tests/engine/test_torch_formulas.py`` compares each with its loss. A loss that has none here is computed on the host.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from dperm.engine.device.tensors import load_torch
from dperm.losses import (
    ClippedSquared,
    HardClippedLogistic,
    HuberHinge,
    Linear,
    Logistic,
    Loss,
    MarginLogistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
    Weighted,
)


class Formulas(Protocol):
    """As the three of ``Loss``, for tensors of one dtype on one device."""

    def value(self, margin: Any, y: Any) -> Any: ...

    def slope(self, margin: Any, y: Any) -> Any: ...

    def curvature(self, margin: Any, y: Any) -> Any: ...


class OnHost:
    """The formulas of any loss, by a way over the host."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def value(self, margin: Any, y: Any) -> Any:
        return self._there(self._loss.value, margin, y)

    def slope(self, margin: Any, y: Any) -> Any:
        return self._there(self._loss.slope, margin, y)

    def curvature(self, margin: Any, y: Any) -> Any:
        return self._there(self._loss.curvature, margin, y)

    def _there(self, formula: Any, margin: Any, y: Any) -> Any:
        found = np.ascontiguousarray(formula(margin.cpu().numpy(), y.cpu().numpy()))
        return load_torch().from_numpy(found).to(device=margin.device, dtype=margin.dtype)


class _OfLogistic:
    """Of z = y m - shift."""

    def __init__(self, loss: Logistic | MarginLogistic) -> None:
        self._torch = load_torch()
        (self._shift,) = loss.kernel_parameters or (0.0,)

    def value(self, margin: Any, y: Any) -> Any:
        return _log_one_plus_exp(-(y * margin - self._shift))

    def slope(self, margin: Any, y: Any) -> Any:
        return -y * self._torch.sigmoid(self._shift - y * margin)

    def curvature(self, margin: Any, y: Any) -> Any:
        return _bell(y * margin - self._shift)


class _OfHardClipped:
    def __init__(self, loss: HardClippedLogistic) -> None:
        self._torch = load_torch()
        self._most = loss.smoothness
        self._clip, self._knot = loss.kernel_parameters

    def value(self, margin: Any, y: Any) -> Any:
        z = y * margin
        linear = self._clip * (self._knot - z) - math.log1p(-self._clip)
        return self._torch.where(z < self._knot, linear, _log_one_plus_exp(-z))

    def slope(self, margin: Any, y: Any) -> Any:
        return -y * self._torch.sigmoid(-y * margin).clamp(max=self._clip)

    def curvature(self, margin: Any, y: Any) -> Any:
        z = y * margin
        return self._torch.where(z < self._knot, 0.0, _bell(z)).clamp(max=self._most)


class _OfSoftClipped:
    def __init__(self, loss: SoftClippedLogistic) -> None:
        self._torch = load_torch()
        self._most = loss.smoothness
        self._clip, self._room, self._knot, self._rate = loss.kernel_parameters
        self._bend = self._clip - self._room

    def value(self, margin: Any, y: Any) -> Any:
        z = y * margin
        below = z.clamp(min=self._knot) - z
        saturating = self._clip * below + self._room / self._rate * (-self._rate * below).expm1()
        return self._torch.where(z < self._knot, saturating - math.log1p(-self._bend), _log_one_plus_exp(-z))

    def slope(self, margin: Any, y: Any) -> Any:
        z = y * margin
        power = self._power(z)
        return -y * self._torch.where(z < self._knot, self._clip - self._room * power, power / (1 + power))

    def curvature(self, margin: Any, y: Any) -> Any:
        z = y * margin
        power = self._power(z)
        saturating = self._bend * (1 - self._bend) * power
        return self._torch.where(z < self._knot, saturating, power / (1 + power) ** 2).clamp(max=self._most)

    def _power(self, z: Any) -> Any:
        below = self._rate * (z - self._knot).clamp(max=0)
        return self._torch.where(z < self._knot, below, -z).exp()


class _OfHuberHinge:
    def __init__(self, loss: HuberHinge) -> None:
        self._width = loss.width

    def value(self, margin: Any, y: Any) -> Any:
        z = y * margin
        rounded = (1 + self._width - z).clamp(0, 2 * self._width)
        return rounded * rounded / (4 * self._width) + (1 - self._width - z).clamp(min=0)

    def slope(self, margin: Any, y: Any) -> Any:
        return -y * ((1 + self._width - y * margin) / (2 * self._width)).clamp(0, 1)

    def curvature(self, margin: Any, y: Any) -> Any:
        return ((1 - y * margin).abs() <= self._width).to(margin.dtype) / (2 * self._width)


class _OfSquared:
    def __init__(self, loss: ClippedSquared) -> None:
        self._bound = loss.residual_bound

    def value(self, margin: Any, y: Any) -> Any:
        size = (margin - y).abs()
        inner = size.clamp(max=self._bound)
        return inner * (size - inner / 2)

    def slope(self, margin: Any, y: Any) -> Any:
        return (margin - y).clamp(-self._bound, self._bound)

    def curvature(self, margin: Any, y: Any) -> Any:
        return ((margin - y).abs() <= self._bound).to(margin.dtype)


class _OfSoftSquared:
    def __init__(self, loss: SoftClippedSquared) -> None:
        self._bound, self._bend, self._room = loss.kernel_parameters

    def value(self, margin: Any, y: Any) -> Any:
        size = (margin - y).abs()
        inner = size.clamp(max=self._bend)
        beyond = size - inner
        return inner * inner / 2 + self._bound * beyond + self._room**2 * (-beyond / self._room).expm1()

    def slope(self, margin: Any, y: Any) -> Any:
        residual = margin - y
        size = residual.abs()
        beyond = (size - self._bend).clamp(min=0)
        found = size.clamp(max=self._bend) - self._room * (-beyond / self._room).expm1()
        return residual.sign() * found.clamp(max=self._bound)

    def curvature(self, margin: Any, y: Any) -> Any:
        return (-((margin - y).abs() - self._bend).clamp(min=0) / self._room).exp()


class _OfLinear:
    def __init__(self, loss: Linear) -> None:
        pass

    def value(self, margin: Any, y: Any) -> Any:
        return -y * margin

    def slope(self, margin: Any, y: Any) -> Any:
        return (-y).expand_as(margin).clone()

    def curvature(self, margin: Any, y: Any) -> Any:
        return margin * 0


class _OfSoftmax:
    def __init__(self, loss: Softmax) -> None:
        self._torch, self._classes = load_torch(), loss.outputs

    def value(self, margin: Any, y: Any) -> Any:
        own = (margin * self._chosen(margin, y)).sum(dim=-1)
        return self._torch.logsumexp(margin, dim=-1) - own

    def slope(self, margin: Any, y: Any) -> Any:
        return self._torch.softmax(margin, dim=-1) - self._chosen(margin, y)

    def curvature(self, margin: Any, y: Any) -> Any:
        share = self._torch.softmax(margin, dim=-1)
        return share * (1 - share)

    def _chosen(self, margin: Any, y: Any) -> Any:
        return (y[..., None] == self._torch.arange(self._classes, device=y.device)).to(margin.dtype)


class _OfWeighted:
    """y has a last axis of target and weight."""

    def __init__(self, loss: Weighted) -> None:
        self._base, self._outputs = tensor_formulas(loss.base), loss.outputs

    def value(self, margin: Any, y: Any) -> Any:
        return y[..., 1] * self._base.value(margin, y[..., 0])

    def slope(self, margin: Any, y: Any) -> Any:
        return self._weight(y) * self._base.slope(margin, y[..., 0])

    def curvature(self, margin: Any, y: Any) -> Any:
        return self._weight(y) * self._base.curvature(margin, y[..., 0])

    def _weight(self, y: Any) -> Any:
        return y[..., 1] if self._outputs == 1 else y[..., 1, None]


def _log_one_plus_exp(z: Any) -> Any:
    return (-z.abs()).exp().log1p() + z.clamp(min=0)


def _bell(z: Any) -> Any:
    decay = (-z.abs()).exp()
    return decay / (1 + decay) ** 2


# By the very class: a subclass may change a formula.
_TABLE: dict[type[Loss], Any] = {
    Logistic: _OfLogistic,
    MarginLogistic: _OfLogistic,
    HardClippedLogistic: _OfHardClipped,
    SoftClippedLogistic: _OfSoftClipped,
    HuberHinge: _OfHuberHinge,
    ClippedSquared: _OfSquared,
    SoftClippedSquared: _OfSoftSquared,
    Linear: _OfLinear,
    Softmax: _OfSoftmax,
    Weighted: _OfWeighted,
}


def tensor_formulas(loss: Loss) -> Formulas:
    """On the device where there are some, otherwise by way of the host."""
    found: Formulas = _TABLE.get(type(loss), OnHost)(loss)
    return found
