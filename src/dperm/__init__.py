"""Differentially private empirical risk minimisation behind the scikit-learn API.

Importing this package loads almost nothing; each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dperm.estimators.encoder import PublicEncoder
    from dperm.estimators.logistic import PrivateLogisticRegression
    from dperm.estimators.report import PrivacyReport
    from dperm.estimators.svm import PrivateLinearSVC
    from dperm.mechanisms import NSGD, RSGD, RSGDAR, BoltOn, Majority, NoPrivacy, Output, OutputGD
    from dperm.privacy import Budget

__version__ = "0.1.0"

_HOME = {
    "Budget": "dperm.privacy",
    "BoltOn": "dperm.mechanisms",
    "Majority": "dperm.mechanisms",
    "NSGD": "dperm.mechanisms",
    "NoPrivacy": "dperm.mechanisms",
    "Output": "dperm.mechanisms",
    "OutputGD": "dperm.mechanisms",
    "PrivacyReport": "dperm.estimators.report",
    "PrivateLinearSVC": "dperm.estimators.svm",
    "PrivateLogisticRegression": "dperm.estimators.logistic",
    "PublicEncoder": "dperm.estimators.encoder",
    "RSGD": "dperm.mechanisms",
    "RSGDAR": "dperm.mechanisms",
}

__all__ = [
    "NSGD",
    "RSGD",
    "RSGDAR",
    "BoltOn",
    "Budget",
    "Majority",
    "NoPrivacy",
    "Output",
    "OutputGD",
    "PrivacyReport",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PublicEncoder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dperm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
