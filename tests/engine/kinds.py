"""The kinds of rows that the one suite of engine laws runs on.

A kind is a file ``kind_<name>.py`` beside this one with

``name``                                       as tests are called;
``rows(X, y, *, row_map, n_rows, mask=None)``  ``Rows`` of that kind, of a dense X;
``available()``                                optional: whether its packages are here;
``features(n, seed)``                          optional: a dense X that suits the kind better than ``plain_features``;
``native(X)``                                  optional: a dense X in the form that ``fit`` is given, to predict for;
``finite``                                     optional: True where rows cannot hold NaN or infinity;
``slow``                                       optional: True for few losses, by `make test-engines` alone.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def plain_features(n: int, seed: int) -> np.ndarray:
    """About half of it zero, two rows in three longer than one; every number is one of float32 too."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10)) * (rng.random((n, 10)) < 0.5) * 0.55
    return X.astype(np.float32).astype(np.float64)


KINDS: dict[str, ModuleType] = {
    kind.name: kind
    for kind in (import_module(path.stem) for path in sorted(Path(__file__).parent.glob("kind_*.py")))
}


def kinds_marked() -> list[Any]:
    """One parameter per kind, skipped where its packages are not."""
    marked = []
    for name, kind in KINDS.items():
        here = getattr(kind, "available", lambda: True)()
        marks = [] if here else [pytest.mark.skip(reason=f"the packages of {name} rows are not installed")]
        if is_slow(kind):
            marks.append(pytest.mark.engines)
        marked.append(pytest.param(kind, id=name, marks=marks))
    return marked


def features_of(kind: ModuleType, n: int, seed: int = 0) -> np.ndarray:
    return getattr(kind, "features", plain_features)(n, seed)


def is_slow(kind: ModuleType) -> bool:
    return getattr(kind, "slow", False)
