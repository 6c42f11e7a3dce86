"""Differentially private empirical risk minimisation behind the scikit-learn API.

Importing this package loads almost nothing; each name is loaded when it is first used. Mechanisms come from
``dperm.mechanisms``. Type checkers read ``__init__.pyi``, which ``make names`` writes.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_MODULES = ("data", "mechanisms", "plot")
_HOME = {
    "Budget": "dperm.privacy",
    "Evaluation": "dperm.evaluation",
    "Finding": "dperm.estimators.pipeline_check",
    "Ledger": "dperm.ledger",
    "MeanPredictions": "dperm.evaluation.means",
    "PrivacyReport": "dperm.estimators.report",
    "PrivacyWarning": "dperm.errors",
    "PrivateLinearClassifier": "dperm.estimators.linear_classifier",
    "PrivateLinearRegression": "dperm.estimators.linear",
    "PrivateLinearSVC": "dperm.estimators.linear_classifier",
    "PrivateLogisticRegression": "dperm.estimators.logistic",
    "PrivateSearchCV": "dperm.estimators.search",
    "PublicEncoder": "dperm.estimators.encoder",
    "PublicHasher": "dperm.estimators.hasher",
    "RowMap": "dperm.row_map",
    "UtilityWarning": "dperm.errors",
    "balanced_weights": "dperm.estimators.labels",
    "check_pipeline": "dperm.estimators.pipeline_check",
    "confidence_intervals": "dperm.models.intervals",
    "export_onnx": "dperm.models.onnx",
    "evaluate": "dperm.evaluation",
    "load_model": "dperm.models",
    "mean_predictions": "dperm.evaluation.means",
    "register_engine": "dperm.engine",
    "read_evaluation": "dperm.evaluation",
    "read_mean_predictions": "dperm.evaluation.means",
    "save_model": "dperm.models",
    "summary": "dperm.models.summary",
    "verify": "dperm.verification",
}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f"dperm.{name}")
    if name in _HOME:
        return getattr(_import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dperm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
