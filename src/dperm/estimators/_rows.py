"""scikit-learn's checks of rows and targets, without the values that some of its messages quote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils.validation import validate_data

from dperm.errors import DpermError, InvalidInput, InvalidType

# Messages about shapes, types and missing values, which hold no value of a row; all others are replaced.
_NO_VALUES = re.compile(
    r"Input (X|y|contains|data)|Found (array|input)|Expected |Complex data|Sparse |A sparse|X has |The feature names|"
    r"bad input shape|y should be|y cannot be|Unknown label type|"
    r"This |float\(\) argument|dtype='numeric'|Only |Mix type|requires y"
)
_NAMES = "The feature names"


@contextmanager
def unquoted() -> Iterator[None]:
    """Let errors about the form of the rows through, stripped of what they quote."""
    try:
        yield
    except DpermError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        text = str(error)
        # Arrays are quoted from the second line on; advice and the names of columns, which are public, stand there too.
        head, _, rest = text.partition("\n")
        advice = re.search(r"Reshape your data[^\[\]]*\Z", rest)
        message = text if head.startswith(_NAMES) else f"{head} {advice[0]}" if advice else head
        if _NO_VALUES.search(message) and isinstance(error, ValueError | TypeError):
            raise (InvalidType if isinstance(error, TypeError) else InvalidInput)(message) from None
        raise InvalidInput(
            "X must be a table of numbers and y one target for each row; reading them failed with "
            f"{type(error).__name__}. Look for strings, nested lists or numbers too large for a float."
        ) from None


def checked(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """``validate_data``, with errors that quote no record."""
    with unquoted():
        return validate_data(estimator, *arrays, **options)
