"""How a loss's own formulas get into the compiled passes.

A pass takes the loss as an empty array whose element type has one field, named by a fingerprint of the formulas' code.
So every loss gets a pass of its own, the name is part of the key under which compiled code is kept on disk, and changed
formulas are compiled anew. NumPy's types are the ones that a call looks up fastest, and reading what is on disk never
needs the module of a loss that another program used.
"""

import hashlib
import math
from pathlib import Path

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from dperm.losses.base import Kernel, fingerprint

FREE_ORDER = {"reassoc", "contract", "arcp", "nsz"}
OPTIONS = {"fastmath": FREE_ORDER, "error_model": "numpy"}
Formulas = NDArray[np.void]
_THIS_MODULE = Path(__file__).read_bytes()  # a pass is built from it too
_KERNELS: dict[str, Kernel] = {}


def formulas_of(kernel: Kernel) -> Formulas:
    """What a compiled pass takes for the formulas of a loss."""
    key = hashlib.sha256(_THIS_MODULE + fingerprint(kernel).encode()).hexdigest()
    _KERNELS[key] = kernel
    return np.empty(0, np.dtype([(key, np.uint8)]))


def formula(formulas, name):
    """A compiled formula by the numba type of ``formulas``, or None."""
    (key,) = formulas.dtype.fields
    function = getattr(_KERNELS[key], name)
    return None if function is None else njit(**OPTIONS)(function)


def target_of(y, one):
    """What formulas take for a target, in the precision of ``one``: a number, or the pair of target and weight."""
    raise NotImplementedError("compiled code only")


def label_of(y):
    """The target alone."""
    raise NotImplementedError("compiled code only")


def weight_of(y):
    """The weight of a row: 1 where rows have none."""
    raise NotImplementedError("compiled code only")


def slope(formulas, margin, y, one, parameters):
    """The loss's slope at one margin. Here and below y is what ``target_of`` gives."""
    raise NotImplementedError("compiled code only")


def value(formulas, margin, y, one, parameters):
    """The loss at one margin, or the part of it that is not a logarithm."""
    raise NotImplementedError("compiled code only")


def has_excess(formulas, y):
    """Whether the loss is ``value`` + log(1 + ``excess``): not where rows have weights, nor with them in y."""
    raise NotImplementedError("compiled code only")


def excess(formulas, margin, y, one, parameters):
    raise NotImplementedError("compiled code only")


@overload(target_of, jit_options=OPTIONS)
def compiled_target(y, one):
    single = one == types.float32
    if isinstance(y, types.Record):
        if single:
            return lambda y, one: (np.float32(y.target), np.float32(y.weight))
        return lambda y, one: (y.target, y.weight)
    return (lambda y, one: np.float32(y)) if single else (lambda y, one: y)


@overload(label_of, jit_options=OPTIONS)
def compiled_label(y):
    return (lambda y: y.target) if isinstance(y, types.Record) else (lambda y: y)


@overload(weight_of, jit_options=OPTIONS)
def compiled_weight(y):
    return (lambda y: y.weight) if isinstance(y, types.Record) else (lambda y: 1.0)


@overload(slope, jit_options=OPTIONS)
def compiled_slope(formulas, margin, y, one, parameters):
    own = formula(formulas, "slope")
    if isinstance(y, types.BaseTuple):
        return lambda formulas, margin, y, one, parameters: y[1] * own(margin, y[0], one, *parameters)
    return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)


@overload(value, jit_options=OPTIONS)
def compiled_value(formulas, margin, y, one, parameters):
    own, rest = formula(formulas, "value"), formula(formulas, "excess")
    if not isinstance(y, types.BaseTuple):
        return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)
    if rest is None:
        return lambda formulas, margin, y, one, parameters: y[1] * own(margin, y[0], one, *parameters)

    def whole(formulas, margin, y, one, parameters):
        return y[1] * (own(margin, y[0], one, *parameters) + math.log1p(rest(margin, y[0], one, *parameters)))

    return whole


@overload(has_excess, jit_options=OPTIONS)
def compiled_has_excess(formulas, y):
    weighted = isinstance(y, types.Array) and isinstance(y.dtype, types.Record)
    found = formula(formulas, "excess") is not None and not weighted
    return lambda formulas, y: found


@overload(excess, jit_options=OPTIONS)
def compiled_excess(formulas, margin, y, one, parameters):
    own = formula(formulas, "excess")
    if own is None or isinstance(y, types.BaseTuple):
        return lambda formulas, margin, y, one, parameters: one - one
    return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)
