"""Targets of another number than the rows are refused before anything is spent, whatever the rows are."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dperm
from dperm import (
    Budget,
    Ledger,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PublicEncoder,
)
from dperm.errors import InvalidInput

RNG = np.random.default_rng(0)
N = 600
TABLE = pd.DataFrame(
    {"a": RNG.uniform(0, 1, N), "colour": RNG.choice(["red", "green", "blue"], N)},
)
SCHEMA = {
    "target": {"name": "y", "classes": [0, 1]},
    "features": {"a": {"range": [0, 1]}, "colour": {"categories": ["red", "green", "blue"]}},
}
DENSE = PublicEncoder(SCHEMA, coded=False).fit_transform(TABLE)
Y = (TABLE["a"] > 0.5).to_numpy().astype(int)
ROWS = {
    "dense": DENSE,
    "frame": pd.DataFrame(DENSE),
    "csr": sparse.csr_array(DENSE),
    "csc": sparse.csc_matrix(DENSE),
    "coded": PublicEncoder(SCHEMA, coded=True).fit_transform(TABLE),
}
WRONG = {
    "short": Y[:-1],
    "long": np.append(Y, 1),
    "list": Y[:-1].tolist(),
    "series": pd.Series(Y[:-1]),
    "none": Y[:0],
}
ACTS = {
    "fit": lambda X, y, paying: PrivateLogisticRegression(classes=[0, 1], mechanism="output", **paying).fit(
        X, y
    ),
    "regression": lambda X, y, paying: PrivateLinearRegression(
        y_range=(0, 1), mechanism="output", **paying
    ).fit(X, y),
    "search": lambda X, y, paying: PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1], mechanism="output"),
        {"l2": [0.1, 1.0]},
        epsilon=1.0,
        delta=1e-6,
        **paying,
    ).fit(X, y),
    "threshold": lambda X, y, paying: fitted(X).tune_threshold(X, y, epsilon=1.0, **paying),
    "evaluate": lambda X, y, paying: dperm.evaluate(fitted(X), X, y, Budget(1.0, 1e-6), **paying),
}


def fitted(X):
    return PrivateLogisticRegression(classes=[0, 1], mechanism="output").fit(X, Y)


@pytest.mark.cover(1)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", ROWS)
def test_nothing_is_charged(kind, act, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=9.0, delta=1e-3, strict=True)
    for y in WRONG.values():
        with pytest.raises(InvalidInput, match="inconsistent lengths"):
            ACTS[act](ROWS[kind], y, {"ledger": ledger})
        with pytest.raises(InvalidInput, match="inconsistent lengths"):
            ACTS[act](ROWS[kind], y, {})
    assert ledger.entries() == []
    ACTS[act](ROWS[kind], Y, {"ledger": ledger})
    assert len(ledger.entries()) == 1


SETTINGS = {
    "x_norm": (1e61, 1e-61, float("inf"), float("nan"), 1e308, 0.0, -1.0),
    "l2": (1e61, float("inf"), float("nan"), 1e308, -1.0),
    "epsilon": (1e61, 0.0, -1.0, float("nan"), float("inf")),
    "delta": (1e61, -1.0, float("nan"), 1.0),
    "sample_weight_bound": (1e61, 0.0, -1.0, float("nan"), float("inf")),
    "max_rows": (0, -5),
}


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values]
)
@pytest.mark.parametrize("mechanism", ["auto", "output", "dp-gd"])
def test_an_absurd_size_is_blamed_on_the_setting_that_has_it(name, value, mechanism):
    settings = {"classes": [0, 1], "mechanism": mechanism, name: value}
    if name == "max_rows":
        settings["neighbours"] = "add-remove"
    with pytest.raises(InvalidInput) as caught:
        PrivateLogisticRegression(**settings).plan(1000, 5)
    said = {"max_rows": "max_rows|n_rows"}.get(name, name).split("|")
    assert any(word in str(caught.value) for word in said), caught.value
    assert "intercept" not in str(caught.value)


@pytest.mark.together
@pytest.mark.parametrize("range_", [(0, float("inf")), (float("nan"), 1.0), (1.0, 1.0)])
def test_an_absurd_range_is_blamed_on_the_range(range_):
    with pytest.raises(InvalidInput, match="y_range"):
        PrivateLinearRegression(y_range=range_).plan(1000, 5)
