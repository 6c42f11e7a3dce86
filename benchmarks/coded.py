"""Coded rows against one-hot floats: a pass, its bytes, the default fit of Adult, and the encoding itself."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import Result, interleaved
from dperm import PrivateLogisticRegression
from dperm.codes import CodedTable, CodeLayout, Levels, Number
from dperm.datasets import load_adult
from dperm.engine import Table, engine_for
from dperm.losses import Logistic
from dperm.row_map import RowMap
from dperm.schema import encode, encode_codes

CATEGORIES = (9, 16, 7, 15, 6, 5, 2, 42)
NUMBERS = 6
BYTES = 40


def adult_like(n: int) -> CodedTable:
    """Eight uneven categories with 102 levels and six numbers: 108 columns, rows of norm below one."""
    rng, scale = np.random.default_rng(0), 0.3
    levels, first = [], 0
    for size in CATEGORIES:
        levels.append(Levels(first=first, count=size, zero=0.0, off=-scale / size, on=(1 - 1 / size) * scale))
        first += size
    numbers = tuple(Number(column=first + m, size=scale / 2) for m in range(NUMBERS))
    layout = CodeLayout(
        n_columns=first + NUMBERS, levels=tuple(levels), numbers=numbers, splines=(), reach=1.0
    )
    codes = np.zeros((n, len(layout.groups)), np.int64)
    for place, group in enumerate(layout.groups):
        for i in group:
            size = CATEGORIES[i]
            own = np.minimum(rng.geometric(min(0.9, 2.5 / size), n), size)
            codes[:, place] += own * layout.strides[i]
    floats = rng.uniform(-1, 1, (n, NUMBERS)).astype(np.float32)
    return CodedTable.from_rows(layout, codes.astype(layout.code_type), floats)


def one_pass(
    table: CodedTable, name: str, models: int, target: float | None, rounds: int, precise: bool = False
) -> Result:
    """A gradient pass over standardised rows on one thread. Coded ones are float64, dense ones if ``precise``."""
    X = table.toarray()
    y = np.where(np.random.default_rng(1).random(len(X)) < 0.3, 1.0, -1.0)
    row_map = RowMap(x_norm=1.0, intercept=0.3, centre=X.mean(axis=0), scale=4 * X.std(axis=0) + 0.02)
    facts = {"row_map": row_map, "n_rows": len(X)}
    coded = engine_for(table).of(table, y, **facts).open(threads=1)
    dense = Table(X, y, **facts).open(threads=1, precise=precise)
    W, loss = np.random.default_rng(2).standard_normal((X.shape[1] + 1, models)), Logistic()
    timed = interleaved(lambda: coded.gradient_sum(loss, W), lambda: dense.gradient_sum(loss, W), rounds)
    what = f"coded pass, {name}" + (f", {models} models" if models > 1 else "")
    other = "dense pass in float64" if precise else "dense pass"
    return Result(what, 1, timed[0], other, timed[1], timed[2], target)


def row_bytes(table: CodedTable) -> Result:
    """Codes and floats of a row against its columns as float32; labels and factors come to both."""
    mine, theirs = table.nbytes / len(table), 4 * table.shape[1]
    return Result(
        "bytes of a coded row", 0, mine, "bytes of a dense row", theirs, mine / theirs, BYTES / theirs
    )


def default_fit(rounds: int) -> Result:
    """``PrivateLogisticRegression()`` on coded Adult against scikit-learn on the same rows as floats."""
    adult = load_adult()
    coded, X, y = adult.coded, adult.X, adult.y
    ours = PrivateLogisticRegression(classes=list(adult.classes))
    theirs = LogisticRegression(max_iter=1000)
    timed = interleaved(lambda: ours.fit(coded, y), lambda: theirs.fit(X, y), rounds)
    return Result("default fit, coded Adult", 0, timed[0], "scikit-learn fit", timed[1], timed[2], 0.3)


def encoding(rounds: int) -> Result:
    adult = load_adult()
    timed = interleaved(
        lambda: encode_codes(adult.table, adult.schema), lambda: encode(adult.table, adult.schema), rounds
    )
    return Result("Adult to codes", 1, timed[0], "Adult to floats", timed[1], timed[2], None)


def run() -> list[Result]:
    large, adult = adult_like(1_000_000), load_adult()
    plain = encode_codes(adult.table, adult.schema.plain())
    return [
        one_pass(large, "1,000,000 x 108", 1, 1 / 3, 5, precise=True),
        one_pass(large, "1,000,000 x 108", 1, None, 5),
        one_pass(plain, "Adult without hats", 1, None, 21),
        one_pass(adult.coded, "Adult with hats", 1, None, 21),
        one_pass(plain, "Adult without hats", 32, None, 5),
        row_bytes(large),
        default_fit(7),
        encoding(5),
    ]
