"""Tell compiled formulas apart by their code: compiled passes are kept on disk under this name."""

import hashlib
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.kernel import Kernel

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
    """Its code and, in turn, the globals and the surrounding variables that the code names."""
    code, outside = function.__code__, function.__globals__
    parts = [f"{name} = {_described(outside[name], seen)}" for name in code.co_names if name in outside]
    parts += [_described(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    return "\n".join([_described(code, seen), *parts, _described(function.__defaults__, seen)])
