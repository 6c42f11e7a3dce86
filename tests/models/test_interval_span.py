"""Which columns of a declared table follow from others: against rows that were really encoded."""

import numpy as np
import pandas as pd
import pytest

from dperm import PublicEncoder
from dperm.models.synthetic_rows import spanned

TARGET = {"name": "late", "classes": ["no", "yes"]}
FEATURES = {
    "category": {"home": {"categories": ["rent", "own", "other"]}, "sex": {"categories": ["f", "m"]}},
    "numbers": {"age": {"range": [18, 90], "spline": 0}, "pay": {"range": [0, 10], "log": True, "spline": 0}},
    "hats": {"age": {"range": [18, 90], "spline": 4}, "pay": {"range": [0, 10], "spline": 0}},
    "bins": {"age": {"range": [18, 90], "bins": [30, 60], "spline": 0}, "sex": {"categories": ["f", "m"]}},
    "missing": {
        "age": {"range": [18, 90], "spline": 3, "indicator": True},
        "sex": {"categories": ["f", "m"]},
    },
}


def encoded(features, n=4000):
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, n)
    if "indicator" in features.get("age", {}):
        age[rng.random(n) < 0.2] = np.nan
    table = pd.DataFrame(
        {
            "age": age,
            "pay": rng.uniform(0, 10, n),
            "home": rng.choice(["rent", "own", "other"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )[list(features)]
    encoder = PublicEncoder({"target": TARGET, "features": features})
    return encoder.fit_transform(table), encoder.schema_


@pytest.mark.parametrize("kind", FEATURES)
def test_rows_lie_in_the_span_and_fill_it(kind):
    X, schema = encoded(FEATURES[kind])
    Z = np.column_stack([X, np.full(len(X), 0.3)])
    lengths = np.append(np.ones(X.shape[1]), 2.0)
    basis = spanned(schema, Z.shape[1], 0.3, lengths)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    seen = Z * lengths
    left = seen - seen @ basis @ basis.T
    assert np.abs(left).max() < 1e-7
    assert np.linalg.matrix_rank(seen, tol=1e-6 * np.linalg.norm(seen)) == basis.shape[1]
    follows = Z.shape[1] - basis.shape[1]
    assert follows == {"category": 2, "numbers": 0, "hats": 2, "bins": 2, "missing": 3}[kind]


def test_without_a_schema_every_column_counts():
    np.testing.assert_array_equal(spanned(None, 3, 0.3, np.ones(3)), np.eye(3))
