"""Settings of mechanisms that are not what they should be are refused here, in the same words everywhere."""

import reprlib

import numpy as np

from dperm.errors import InvalidInput

SETTING_RANGE = (1e-100, 1e300)
MOST = 10_000_000  # steps or passes: beyond it a plan would fill the memory
MOST_ROWS = 10**15  # of a batch


def check_count(name: str, value: object, most: int = MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most:,}; got {reprlib.repr(value)}.")


def check_positive(name: str, value: object) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    low, high = SETTING_RANGE
    huge = isinstance(value, int) and value >= 2**63  # numpy has no such whole numbers
    if huge or not (number and low <= value <= high):  # type: ignore[operator]
        raise InvalidInput(
            f"{name} must be a positive finite number of ordinary size; got {reprlib.repr(value)}."
        )


def check_share(name: str, value: object, *, zero: bool = True, one: bool = False) -> None:
    """Refuse what does not lie between 0 and 1; ``zero`` and ``one`` tell whether the ends are allowed."""
    if not zero:
        check_positive(name, value)
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1 and (one or value < 1)):  # type: ignore[operator]
        raise InvalidInput(f"{name} must lie between 0 and 1; got {reprlib.repr(value)}.")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False; got {reprlib.repr(value)}.")
