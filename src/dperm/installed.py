"""What installed packages declare by entry points: losses, mechanisms, engines and file formats."""

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any


def register_installed(group: str, what: str, register: Callable[[Any], Any]) -> None:
    """Register everything in a group of entry points. One that does not load is left out with a warning."""
    for entry in entry_points(group=group):
        try:
            register(entry.load())
        except Exception as error:
            warnings.warn(
                f"the {what} {entry.name!r} of {entry.value} could not be loaded: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
