"""Differentially private empirical risk minimisation behind the scikit-learn API.

Importing this package loads almost nothing; each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dperm import audit, plot
    from dperm.errors import PrivacyWarning, UtilityWarning
    from dperm.estimators.encoder import PublicEncoder
    from dperm.estimators.linear import PrivateLinearRegression
    from dperm.estimators.linear_classifier import PrivateLinearClassifier
    from dperm.estimators.logistic import PrivateLogisticRegression
    from dperm.estimators.pipeline_check import Finding, check_pipeline
    from dperm.estimators.report import PrivacyReport
    from dperm.estimators.search import PrivateSearchCV
    from dperm.estimators.svm import PrivateLinearSVC
    from dperm.ledger import Ledger
    from dperm.mechanisms import (
        AMP,
        DPAGD,
        DPCD,
        DPGD,
        DPSGD,
        DPSVRG,
        NSGD,
        PSGD,
        RSGD,
        RSGDAR,
        SGDMA,
        SSP,
        AdaSSP,
        Auto,
        BoltOn,
        DPSGDAdv,
        FrankWolfe,
        Majority,
        NoisySGD,
        NoPrivacy,
        Objective,
        ObjectiveKST,
        ObjectivePure,
        Output,
        OutputGD,
    )
    from dperm.models import load_model, save_model, verify
    from dperm.privacy import Budget

__version__ = "0.1.0"

_HOME = {
    "AMP": "dperm.mechanisms",
    "AdaSSP": "dperm.mechanisms",
    "Auto": "dperm.mechanisms",
    "BoltOn": "dperm.mechanisms",
    "Budget": "dperm.privacy",
    "DPAGD": "dperm.mechanisms",
    "DPCD": "dperm.mechanisms",
    "DPGD": "dperm.mechanisms",
    "DPSGD": "dperm.mechanisms",
    "DPSGDAdv": "dperm.mechanisms",
    "DPSVRG": "dperm.mechanisms",
    "Finding": "dperm.estimators.pipeline_check",
    "FrankWolfe": "dperm.mechanisms",
    "Ledger": "dperm.ledger",
    "Majority": "dperm.mechanisms",
    "NSGD": "dperm.mechanisms",
    "NoPrivacy": "dperm.mechanisms",
    "NoisySGD": "dperm.mechanisms",
    "Objective": "dperm.mechanisms",
    "ObjectiveKST": "dperm.mechanisms",
    "ObjectivePure": "dperm.mechanisms",
    "Output": "dperm.mechanisms",
    "OutputGD": "dperm.mechanisms",
    "PSGD": "dperm.mechanisms",
    "PrivacyReport": "dperm.estimators.report",
    "PrivacyWarning": "dperm.errors",
    "PrivateLinearClassifier": "dperm.estimators.linear_classifier",
    "PrivateLinearRegression": "dperm.estimators.linear",
    "PrivateLinearSVC": "dperm.estimators.svm",
    "PrivateLogisticRegression": "dperm.estimators.logistic",
    "PrivateSearchCV": "dperm.estimators.search",
    "PublicEncoder": "dperm.estimators.encoder",
    "RSGD": "dperm.mechanisms",
    "RSGDAR": "dperm.mechanisms",
    "SGDMA": "dperm.mechanisms",
    "SSP": "dperm.mechanisms",
    "UtilityWarning": "dperm.errors",
    "check_pipeline": "dperm.estimators.pipeline_check",
    "load_model": "dperm.models",
    "save_model": "dperm.models",
    "verify": "dperm.models",
}

__all__ = [
    "AMP",
    "DPAGD",
    "DPCD",
    "DPGD",
    "DPSGD",
    "DPSVRG",
    "NSGD",
    "PSGD",
    "RSGD",
    "RSGDAR",
    "SGDMA",
    "SSP",
    "AdaSSP",
    "Auto",
    "BoltOn",
    "Budget",
    "DPSGDAdv",
    "Finding",
    "FrankWolfe",
    "Ledger",
    "Majority",
    "NoPrivacy",
    "NoisySGD",
    "Objective",
    "ObjectiveKST",
    "ObjectivePure",
    "Output",
    "OutputGD",
    "PrivacyReport",
    "PrivacyWarning",
    "PrivateLinearClassifier",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateSearchCV",
    "PublicEncoder",
    "UtilityWarning",
    "audit",
    "check_pipeline",
    "load_model",
    "plot",
    "save_model",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in ("audit", "plot"):
        return import_module(f"dperm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'dperm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
