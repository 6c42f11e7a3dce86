"""Checks made one after the other: what goes wrong in one is a failure of it, whatever the file holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dperm.certificate.verdict import Check
from dperm.errors import DpermError

_BROKEN = (ArithmeticError, ValueError, TypeError, LookupError, MemoryError, AssertionError, DpermError)


class Examination:
    """The checks made so far."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    @property
    def sound(self) -> bool:
        return all(check.passed for check in self.checks)

    def run(self, name: str, route: str, work: Callable[[], Any]) -> Any:
        """Do one check: an error is a failure, a text tells what was found."""
        value, detail, passed = None, "", True
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                value = work()
            detail = value if isinstance(value, str) else "as it should be"
        except _BROKEN as error:
            passed = False
            detail = str(error) or type(error).__name__
        self.checks.append(Check(name=name, route=route, passed=passed, detail=detail))
        return value
