"""diffprivlib's logistic and linear regression."""

from typing import Any

import numpy as np


def _logistic(job: dict[str, Any], seed: Any) -> Any:
    from diffprivlib.models import LogisticRegression

    settings = {"data_norm": 1.0, **job["settings"]}
    return LogisticRegression(epsilon=job["epsilon"], random_state=seed, **settings)


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    if job["task"] == "numbers":
        from diffprivlib.models import LinearRegression

        bounds = {"bounds_X": tuple(job["x_range"]), "bounds_y": tuple(job["y_range"])}
        return LinearRegression(epsilon=job["epsilon"], random_state=job["seed"], **bounds).fit(X, y).predict
    model = _logistic(job, job["seed"]).fit(X.astype(np.float64), y)
    return lambda rows: model.predict_proba(rows)[:, 1]


def releases(X: Any, y: Any, job: dict[str, Any]) -> Any:
    source = np.random.RandomState(job["seed"])
    found = []
    for _ in range(job["runs"]):
        model = _logistic(job, source).fit(X, y)
        found.append(np.append(model.coef_, model.intercept_ if model.fit_intercept else []))
    return found, {"epsilon": job["epsilon"], "delta": 0.0}
