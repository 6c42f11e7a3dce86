"""AIM as dpmm has it: private records, then scikit-learn's logistic regression on them. It takes records."""

from typing import Any

import numpy as np

LEVELS = 16  # of a number, of equal width over its declared range


def _codes(records: Any, public: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Every column as small integers, by public rules alone; a value that was not declared is one more level."""
    import pandas as pd

    columns, domain = {}, {}
    for name in records.dtype.names:
        if name in public["bounds"]:
            low, high = public["bounds"][name]
            share = (records[name] - low) / (high - low)
            columns[name] = np.clip((share * LEVELS).astype(int), 0, LEVELS - 1)
            domain[name] = LEVELS
        else:
            known = {value: code for code, value in enumerate(public["categories"][name])}
            columns[name] = np.array([known.get(value, len(known)) for value in records[name]])
            domain[name] = len(known) + 1
    return pd.DataFrame(columns), domain


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    from dpmm.models.aim import AIMGM
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    rows, domain = _codes(X, job["records"])
    rows["label"], domain["label"] = y, 2
    model = AIMGM(
        epsilon=job["epsilon"],
        delta=job["delta"],
        domain=domain,
        random_state=np.random.RandomState(job["seed"]),
        n_jobs=1,
        **job["settings"],
    )
    model.fit(rows)
    made = model.generate(n_records=len(rows))
    levels = [np.arange(domain[name]) for name in X.dtype.names]
    encoder = OneHotEncoder(categories=levels).fit(rows[list(X.dtype.names)])
    learner = LogisticRegression(max_iter=1000)
    learner.fit(encoder.transform(made[list(X.dtype.names)]), made["label"])
    return lambda some: learner.predict_proba(encoder.transform(_codes(some, job["records"])[0]))[:, 1]
