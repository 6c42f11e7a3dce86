"""DP-EBM of interpret: a private additive model of binned columns. It takes records, not encoded rows."""

from typing import Any

import numpy as np


def _frame(records: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({name: records[name] for name in records.dtype.names})


def _model(job: dict[str, Any], public: dict[str, Any]) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        feature_types=public["types"],
        privacy_bounds={name: tuple(ends) for name, ends in public["bounds"].items()},
        epsilon=job["epsilon"],
        delta=job["delta"],
        n_jobs=1,
        **job["settings"],
    )


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    model = _model(job, job["records"]).fit(_frame(X), y)
    return lambda rows: model.predict_proba(_frame(rows))[:, 1]


def releases(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """What each model says of the categories or values in question, and whether it knows each of them."""
    asked = np.array(job["asked"], X.dtype.fields["feature"][0])
    found = []
    for _ in range(job["runs"]):
        model = _model(job, job["records"]).fit(_frame(X), y)
        rows = np.zeros(len(asked), X.dtype)
        rows["feature"] = asked
        known = model.bins_[0][0] if isinstance(model.bins_[0][0], dict) else {}
        margins = model.decision_function(_frame(rows))
        found.append([*np.ravel(margins), *(float(str(value) in known) for value in asked)])
    return found, {"epsilon": job["epsilon"], "delta": job["delta"]}
