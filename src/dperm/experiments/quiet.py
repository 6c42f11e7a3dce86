"""Fits that are measured, not released: nobody is to be warned of a delta or a size that the experiment sets."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dperm.errors import PrivacyWarning, UtilityWarning


@contextmanager
def measured_only() -> Iterator[None]:
    """Without dperm's own warnings; reports that are made inside still hold what they would say."""
    with warnings.catch_warnings():
        for kind in (PrivacyWarning, UtilityWarning):
            warnings.simplefilter("ignore", kind)
        yield
