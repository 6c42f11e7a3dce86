"""The one error of a strict ledger."""

import warnings
from collections.abc import Callable
from typing import TypeVar

from dperm.errors import InvalidInput

Result = TypeVar("Result")

SILENT = (
    "The charge is spent and nothing was released: reading the rows or training on them failed. This ledger is strict, "
    "so what was wrong is not told, because it could tell about a row. Try the same settings on made-up rows with "
    "ledger=None, and look at the rows with whoever is trusted with them."
)


def silently(work: Callable[[], Result]) -> Result:
    """The result of the work, or one error that is the same whatever went wrong, without a word on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return work()
        except Exception:
            pass
    raise InvalidInput(SILENT)  # out here, so that no other exception hangs on it
