"""Categorical rows for the suite of engine laws: levels, a number and a spline, read back from their columns."""

import numpy as np

from dperm.codes import CodedTable, CodeLayout, Levels, Number, Spline
from dperm.engine.categorical.rows import CategoricalRows

name = "categorical"
finite = True

LAYOUT = CodeLayout(
    n_columns=24,
    levels=(
        Levels(first=0, count=4, zero=0.0, off=-0.125, on=0.375),
        Levels(first=4, count=1, zero=-0.25, off=-0.25, on=0.25),
        Levels(first=5, count=9, zero=0.0, off=-0.0625, on=0.5),
    ),
    numbers=(Number(column=14, size=1.0), Number(column=15, size=0.5)),
    splines=(Spline(linear=16, first=17, count=7, low=-0.375, high=0.375, off=-0.0625, on=0.4375),),
    reach=2.0,
)


def table(n, seed):
    """Codes, numbers and places that float32 holds exactly; about one row in four is longer than one."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(size, size=n) for size in LAYOUT.sizes]
    places = np.where(rng.random(n) < 0.1, 0.0, rng.integers(16, 7 * 16 + 1, n) / 16)
    floats = np.stack([*(rng.integers(-64, 65, (2, n)) / 64), places], axis=1)
    return CodedTable.from_rows(
        LAYOUT, np.stack(codes, axis=1).astype(LAYOUT.code_type), floats.astype(np.float32)
    )


def features(n, seed):
    return table(n, seed).toarray()


def native(X):
    """The table that stands for these columns."""
    X = np.asarray(X)
    codes = np.zeros((len(X), len(LAYOUT.groups)), np.int64)
    for place, group in enumerate(LAYOUT.groups):
        for i in group:
            levels = LAYOUT.levels[i]
            own = X[:, levels.first : levels.first + levels.count] == levels.on
            codes[:, place] += np.where(own.any(axis=1), own.argmax(axis=1) + 1, 0) * LAYOUT.strides[i]
    (spline,) = LAYOUT.splines
    hats = X[:, spline.first : spline.first + spline.count]
    share = (hats - spline.off) / (spline.on - spline.off)
    places = np.where((hats == 0).all(axis=1), 0.0, share @ np.arange(1, spline.count + 1))
    numbers = [X[:, number.column] / number.size for number in LAYOUT.numbers]
    floats = np.stack([*numbers, places], axis=1).astype(np.float32)
    return CodedTable.from_rows(LAYOUT, codes.astype(LAYOUT.code_type), floats)


def rows(X, y, *, row_map, n_rows, mask=None):
    return CategoricalRows(native(X), y, row_map=row_map, n_rows=n_rows, mask=mask)
