"""Which losses an estimator may have, by the name of its class in a model file."""

_LOSS_NAMES: dict[str, tuple[str, ...]] = {
    "PrivateLogisticRegression": ("logistic", "softmax"),
    "PrivateLinearSVC": ("huber-hinge",),
    "PrivateLinearRegression": ("squared",),
}


def loss_names(estimator: str) -> tuple[str, ...]:
    """Names of the losses that a model of this class may state; none for a class that is not known here."""
    return _LOSS_NAMES.get(estimator, ())
