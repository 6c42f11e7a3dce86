"""How a loss's own formulas get into the compiled passes.

A pass takes the loss as an empty array whose element type has one field, named by a fingerprint of the formulas' code.
So every loss gets a pass of its own, the name is part of the key under which compiled code is kept on disk, and changed
formulas are compiled anew. NumPy's types are the ones that a call looks up fastest, and reading what is on disk never
needs the module of a loss that another program used.
"""

import hashlib
from pathlib import Path

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from dperm.losses.fingerprint import fingerprint
from dperm.losses.kernel import Kernel

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


def slope(formulas, margin, y, one, parameters):
    """The loss's slope at one margin."""
    raise NotImplementedError("compiled code only")


def value(formulas, margin, y, one, parameters):
    """The loss at one margin, or the part of it that is not a logarithm."""
    raise NotImplementedError("compiled code only")


def has_excess(formulas):
    """Whether the loss is ``value`` + log(1 + ``excess``)."""
    raise NotImplementedError("compiled code only")


def excess(formulas, margin, y, one, parameters):
    raise NotImplementedError("compiled code only")


@overload(slope, jit_options=OPTIONS)
def compiled_slope(formulas, margin, y, one, parameters):
    own = formula(formulas, "slope")
    return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)


@overload(value, jit_options=OPTIONS)
def compiled_value(formulas, margin, y, one, parameters):
    own = formula(formulas, "value")
    return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)


@overload(has_excess, jit_options=OPTIONS)
def compiled_has_excess(formulas):
    found = formula(formulas, "excess") is not None
    return lambda formulas: found


@overload(excess, jit_options=OPTIONS)
def compiled_excess(formulas, margin, y, one, parameters):
    own = formula(formulas, "excess")
    if own is None:
        return lambda formulas, margin, y, one, parameters: one - one
    return lambda formulas, margin, y, one, parameters: own(margin, y, one, *parameters)
