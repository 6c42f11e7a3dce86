"""TF-Privacy's own private logistic regression: objective perturbation, or DP-SGD by its Adam."""

from typing import Any

import numpy as np


def _weights(X: Any, y: Any, job: dict[str, Any]) -> Any:
    """Kernel and bias of its one softmax layer. Its functions ask for test rows; they get one empty row."""
    import tensorflow as tf
    from tensorflow_privacy.privacy.logistic_regression import datasets, multinomial_logistic

    ways = dict(job["settings"])
    empty = datasets.RegressionDataset(np.zeros((1, X.shape[1]), np.float32), np.zeros(1, int), None)
    rows = datasets.RegressionDataset(np.array(X, np.float32), np.array(y, int), None)
    tf.keras.backend.clear_session()
    common = {
        "epsilon": job["epsilon"],
        "delta": job["delta"],
        "num_classes": 2,
        "epochs": ways.pop("epochs"),
    }
    if ways.pop("method") == "objective":
        found, _ = multinomial_logistic.logistic_objective_perturbation(
            rows, empty, **common, input_clipping_norm=1.0
        )
    else:
        found, _ = multinomial_logistic.logistic_dpsgd(rows, empty, **common, clipping_norm=1.0, **ways)
    return [part.numpy() for part in found]


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    import tensorflow as tf

    tf.random.set_seed(job["seed"])
    kernel, bias = _weights(X, y, job)

    def predict(rows: Any) -> Any:
        margins = rows @ (kernel[:, 1] - kernel[:, 0]) + bias[1] - bias[0]
        return 1 / (1 + np.exp(-margins))

    return predict


def releases(X: Any, y: Any, job: dict[str, Any]) -> Any:
    import tensorflow as tf

    tf.random.set_seed(job["seed"])
    found = [np.concatenate([part.ravel() for part in _weights(X, y, job)]) for _ in range(job["runs"])]
    return found, {"epsilon": job["epsilon"], "delta": job["delta"]}
