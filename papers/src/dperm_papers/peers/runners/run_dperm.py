"""This library, run as the others are."""

import warnings
from typing import Any

import numpy as np

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.mechanisms import resolve


def _model(job: dict[str, Any]) -> Any:
    settings = dict(job["settings"])
    name = settings.pop("mechanism", "auto")
    budget = {"epsilon": job["epsilon"], "delta": job["delta"], "neighbours": job["relation"]}
    common = (
        budget | settings | {"mechanism": resolve(name), "random_state": np.random.default_rng(job["seed"])}
    )
    if job["task"] == "numbers":
        return PrivateLinearRegression(**common, y_range=tuple(job["y_range"]))
    return PrivateLogisticRegression(**common, classes=[0, 1])


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    warnings.simplefilter("ignore")
    model = _model(job).set_params(max_rows=len(X) if job["relation"] == "add-remove" else None)
    model.fit(X, y)
    if job["task"] == "numbers":
        return model.predict
    return lambda rows: model.predict_proba(rows)[:, 1]
