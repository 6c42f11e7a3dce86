"""Data sets that are not bundled: the tests that need one are skipped, with the reason, where it is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from dperm.errors import DataUnavailable


def loaded_or_skipped(load: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    try:
        return load(*arguments, **settings)
    except DataUnavailable as missing:
        pytest.skip(str(missing))
