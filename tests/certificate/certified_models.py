"""Fitted models of every mechanism, as the parsed files that ``save_model`` writes."""

import json
import tempfile
from pathlib import Path

import numpy as np

from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dperm.certificate.statement import file_digest
from dperm.losses import SoftClippedLogistic, SoftClippedSquared
from dperm.mechanisms import (
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
    BoltOn,
    DPSGDAdv,
    FrankWolfe,
    NoisySGD,
    Objective,
    Output,
    mechanism_names,
)
from dperm.models import save_model
from dperm.strict_json import digest
from noise_stream import kept

N, P = 400, 3
STRONG = 0.05  # so that a perturbed objective of so few rows is private for any loss
REMOVABLE = {"neighbours": "add-remove", "max_rows": 450}

CASES = {name: (PrivateLogisticRegression, {"mechanism": name}) for name in mechanism_names()}
CASES |= {  # rows as they came where a case says so; by default mechanisms standardise
    "output": (PrivateLogisticRegression, {"mechanism": Output(standardise=False, clip=None)}),
    "output, by default": (PrivateLogisticRegression, {"mechanism": "output"}),
    "dp-sgd-adv": (PrivateLogisticRegression, {"mechanism": DPSGDAdv(steps=1000)}),
    "dp-svrg": (PrivateLogisticRegression, {"mechanism": DPSVRG(outer=3), "epsilon": 0.3}),
    "dp-sgd": (PrivateLogisticRegression, {"mechanism": DPSGD(steps=60), "epsilon": 0.3}),
    "sgd-ma": (PrivateLogisticRegression, {"mechanism": SGDMA(steps=60), "epsilon": 0.3}),
    "psgd": (PrivateLogisticRegression, {"mechanism": PSGD(steps=60), "epsilon": 0.3}),
    "adassp": (PrivateLinearRegression, {"mechanism": "adassp", "y_range": (0, 3)}),
    "auto, regression": (PrivateLinearRegression, {"y_range": (0, 3)}),
    "auto, removable": (PrivateLogisticRegression, REMOVABLE),
    "auto, svm": (PrivateLinearSVC, {}),
    "auto, three classes": (PrivateLogisticRegression, {"classes": [0, 1, 2]}),
    "adassp, removable, standardised": (
        PrivateLinearRegression,
        {"mechanism": AdaSSP(standardise=True), **REMOVABLE, "y_range": (0, 3)},
    ),
    "output, no intercept": (
        PrivateLogisticRegression,
        {"mechanism": Output(standardise=False), "fit_intercept": False},
    ),
    "output, three classes": (PrivateLogisticRegression, {"mechanism": "output", "classes": [0, 1, 2]}),
    "output, paper": (PrivateLogisticRegression, {"mechanism": "output:paper", "epsilon": 0.5}),
    "rsgd-ar, paper, removable": (
        PrivateLinearSVC,
        {"mechanism": RSGDAR(batch_size=70, accounting="paper"), **REMOVABLE},
    ),
    "rsgd-ar, standardised": (
        PrivateLogisticRegression,
        {"mechanism": RSGDAR(batch_size=90, epochs=12, average_every=5, standardise=True)},
    ),
    "rsgd-ar, plain": (PrivateLogisticRegression, {"mechanism": RSGDAR(standardise=False, clip=None)}),
    "rsgd-ar, clip, removable": (PrivateLogisticRegression, {"mechanism": RSGDAR(clip=0.4), **REMOVABLE}),
    "rsgd, regression": (
        PrivateLinearRegression,
        {"mechanism": RSGD(batch_size=90), "residual_bound": 0.5, "y_range": (0, 3)},
    ),
    "nsgd, batches": (PrivateLogisticRegression, {"mechanism": NSGD(batch_size=90, standardise=False)}),
    "bolt-on, constant": (
        PrivateLinearSVC,
        {"mechanism": BoltOn(rule="strong-constant", passes=3, standardise=False)},
    ),
    "bolt-on, root, removable": (
        PrivateLogisticRegression,
        {"mechanism": BoltOn(rule="convex-sqrt", passes=3), **REMOVABLE},
    ),
    "objective, three classes": (PrivateLogisticRegression, {"mechanism": "objective", "classes": [0, 1, 2]}),
    "objective, svm, removable": (PrivateLinearSVC, {"mechanism": "objective", **REMOVABLE}),
    "objective, removable": (
        PrivateLogisticRegression,
        {"mechanism": Objective(standardise=False), **REMOVABLE},
    ),
    "objective, small l2": (PrivateLogisticRegression, {"mechanism": "objective", "l2": 0.01}),
    "objective, soft clip": (
        PrivateLinearClassifier,
        {"mechanism": "objective", "loss": SoftClippedLogistic(0.4, 0.6)},
    ),
    "objective, soft clip, standardised": (
        PrivateLinearClassifier,
        {"mechanism": Objective(standardise=True), "loss": SoftClippedLogistic(), **REMOVABLE},
    ),
    "objective, margin": (PrivateLinearClassifier, {"mechanism": "objective", "loss": "margin-logistic"}),
    "objective, hard clip": (
        PrivateLinearClassifier,
        {"mechanism": "objective", "loss": "hard-clipped-logistic"},
    ),
    "objective, soft squares": (
        PrivateLinearRegression,
        {"mechanism": "objective", "loss": "soft-clipped-squared", "residual_bound": 0.5, "y_range": (0, 3)},
    ),
    "objective, soft squares, removable": (
        PrivateLinearRegression,
        {
            "mechanism": Objective(standardise=True),
            "loss": SoftClippedSquared(0.5),
            **REMOVABLE,
            "y_range": (0, 3),
        },
    ),
    "dp-gd, soft clip": (PrivateLinearClassifier, {"mechanism": "dp-gd", "loss": "soft-clipped-logistic"}),
    "objective, standardised": (PrivateLogisticRegression, {"mechanism": Objective(standardise=True)}),
    "objective, regression": (PrivateLinearRegression, {"mechanism": "objective", "y_range": (0, 3)}),
    "objective, paper": (
        PrivateLogisticRegression,
        {"mechanism": Objective(accounting="paper"), **REMOVABLE},
    ),
    "objective-kst, paper": (PrivateLogisticRegression, {"mechanism": "objective-kst:paper"}),
    "amp, svm": (PrivateLinearSVC, {"mechanism": "amp"}),
    "dp-gd, split, standardised": (
        PrivateLogisticRegression,
        {"mechanism": DPGD(split=0.3, standardise=True, steps=9)},
    ),
    "dp-gd, clip, svm": (
        PrivateLinearSVC,
        {"mechanism": DPGD(clip=0.5, steps=9, standardise=False), **REMOVABLE},
    ),
    "dp-gd, no clip": (PrivateLogisticRegression, {"mechanism": DPGD(clip=None)}),
    "dp-gd, removable": (
        PrivateLogisticRegression,
        {"mechanism": DPGD(clip=None, steps=9, standardise=False), **REMOVABLE},
    ),
    "dp-gd, paper": (PrivateLogisticRegression, {"mechanism": DPGD(accounting="paper", steps=9)}),
    "dp-agd, dear choices": (
        PrivateLinearSVC,
        {"mechanism": DPAGD(choice_share=0.6, growth=1.0, splits=12, standardise=False), **REMOVABLE},
    ),
    "dp-cd, regression": (PrivateLinearRegression, {"mechanism": DPCD(passes=3), "y_range": (0, 3)}),
    "noisy-sgd, ball": (
        PrivateLogisticRegression,
        {"mechanism": NoisySGD(batch_size=90, radius=2.0, epochs=4, standardise=False)},
    ),
    "noisy-sgd, public": (
        PrivateLogisticRegression,
        {"mechanism": NoisySGD(batch_size=90, secret_order=False, epochs=4, standardise=True)},
    ),
    "noisy-sgd, removable": (PrivateLinearSVC, {"mechanism": NoisySGD(batch_size=70, epochs=4), **REMOVABLE}),
    "dp-sgd, removable": (
        PrivateLogisticRegression,
        {"mechanism": DPSGD(steps=60, standardise=False), "epsilon": 0.3, **REMOVABLE},
    ),
    "dp-sgd, standardised": (
        PrivateLogisticRegression,
        {"mechanism": DPSGD(steps=40, standardise=True), "epsilon": 0.3},
    ),
    "psgd, standardised, removable": (
        PrivateLogisticRegression,
        {"mechanism": PSGD(steps=40, standardise=True), "epsilon": 0.3, **REMOVABLE},
    ),
    "dp-svrg, regression": (
        PrivateLinearRegression,
        {"mechanism": DPSVRG(outer=3), "epsilon": 0.3, "y_range": (0, 3)},
    ),
    "frank-wolfe, pure": (
        PrivateLogisticRegression,
        {"mechanism": FrankWolfe(steps=5), "delta": 0.0, **REMOVABLE},
    ),
    "frank-wolfe, lazy": (
        PrivateLogisticRegression,
        {"mechanism": FrankWolfe(steps=5, lazy=True, standardise=False)},
    ),
    "frank-wolfe, lazy, removable": (
        PrivateLogisticRegression,
        {"mechanism": FrankWolfe(steps=5, lazy=True), **REMOVABLE},
    ),
    "frank-wolfe, standardised": (
        PrivateLogisticRegression,
        {"mechanism": FrankWolfe(steps=5, standardise=True)},
    ),
    "ssp, small weight": (PrivateLogisticRegression, {"mechanism": SSP(weight=0.2, standardise=False)}),
    "ssp, removable, standardised": (
        PrivateLogisticRegression,
        {"mechanism": SSP(standardise=True), **REMOVABLE},
    ),
    "auto, weighted": (PrivateLogisticRegression, {"class_weight": {0: 0.5, 1: 5.0}}),
    "output, weighted": (PrivateLogisticRegression, {"mechanism": "output", "class_weight": {1: 5.0}}),
    "rsgd-ar, weighted": (PrivateLogisticRegression, {"mechanism": "rsgd-ar", "class_weight": {1: 5.0}}),
    "objective, weighted, three classes": (
        PrivateLogisticRegression,
        {"mechanism": "objective", "classes": [0, 1, 2], "class_weight": {2: 5.0}, "l2": 5 * STRONG},
    ),
    "dp-gd, weighted, removable": (
        PrivateLogisticRegression,
        {"mechanism": DPGD(steps=9), "class_weight": {0: 3.0}, **REMOVABLE},
    ),
    "dp-agd, weighted, svm": (PrivateLinearSVC, {"mechanism": DPAGD(splits=12), "class_weight": {1: 5.0}}),
    "frank-wolfe, weighted, soft clip": (
        PrivateLinearClassifier,
        {
            "mechanism": FrankWolfe(steps=5),
            "loss": SoftClippedLogistic(0.4, 0.6),
            "class_weight": {1: 0.5, 0: 0.1},
        },
    ),
    "auto, persons": (PrivateLogisticRegression, {}),
    "auto, persons, regression, removable": (
        PrivateLinearRegression,
        {"y_range": (0, 3), "neighbours": "add-remove", "max_rows": 150},
    ),
    "objective, persons, three classes": (
        PrivateLogisticRegression,
        {"mechanism": "objective", "classes": [0, 1, 2], "l2": 4 * STRONG},
    ),
    "dp-gd, persons, clip, sum": (
        PrivateLogisticRegression,
        {
            "mechanism": DPGD(clip=0.5, steps=9, standardise=False),
            "person_loss": "sum",
            "max_rows_per_person": 3,
        },
    ),
    "rsgd-ar, persons": (PrivateLogisticRegression, {"mechanism": "rsgd-ar"}),
    "rsgd-ar, persons, weighted, sum": (
        PrivateLogisticRegression,
        {
            "mechanism": "rsgd-ar",
            "class_weight": {1: 2.0},
            "person_loss": "sum",
            "max_rows_per_person": 3,
        },
    ),
    "rsgd-ar, persons, standardised": (
        PrivateLogisticRegression,
        {"mechanism": RSGDAR(batch_size=30, standardise=True)},
    ),
    "ssp, persons": (PrivateLogisticRegression, {"mechanism": "ssp"}),
    "output, persons, one row each": (
        PrivateLogisticRegression,
        {"mechanism": "output", "max_rows_per_person": 1},
    ),
    "auto, intervals": (PrivateLogisticRegression, {"inference": True}),
    "auto, intervals, regression, removable": (
        PrivateLinearRegression,
        {"inference": True, "y_range": (0, 3), **REMOVABLE},
    ),
    "objective, intervals, removable": (
        PrivateLogisticRegression,
        {"mechanism": "objective", "inference": True, **REMOVABLE},
    ),
    "objective, intervals, soft squares": (
        PrivateLinearRegression,
        {
            "mechanism": "objective",
            "loss": "soft-clipped-squared",
            "residual_bound": 0.5,
            "inference": True,
            "y_range": (0, 3),
        },
    ),
    "dp-gd, intervals": (PrivateLogisticRegression, {"mechanism": DPGD(steps=9), "inference": True}),
    "adassp, intervals": (
        PrivateLinearRegression,
        {"mechanism": "adassp", "inference": True, "y_range": (0, 3)},
    ),
    "seeded": (PrivateLogisticRegression, {"random_state": 3}),
}
NO_GUARANTEE = ("none", "majority", "objective-pure", "seeded")
FOLLOW_WEIGHTS = (  # sensitivities that nobody can compute from the file
    "dp-gd, no clip",
    "dp-gd, split, standardised",
    "dp-gd, removable",
    "dp-gd, intervals",
    "dp-agd",
    "dp-agd, dear choices",
    "dp-agd, weighted, svm",
    "dp-svrg",
    "dp-svrg, regression",
)


@kept
def _text(case):
    kind, parameters = CASES[case]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P)) / 3
    score = X[:, 0] + 0.1 * rng.normal(size=N)
    classes = len(parameters.get("classes", (0, 1)))
    y = score if kind is PrivateLinearRegression else np.digitize(score, [0.0, 0.3][: classes - 1])
    if "max_rows" in parameters and kind is not PrivateLinearRegression:
        parameters = {"classes": [0, 1], **parameters}  # under add-remove they cannot be taken from y
    model = kind(**{"l2": STRONG, **parameters} if case.startswith("objective") else parameters)
    model.fit(X, y, **({"groups": rng.integers(0, 120, N)} if "persons" in case else {}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        save_model(model, path)
        return path.read_text(encoding="utf-8")


def document_of(case):
    """A fresh copy of the parsed model file."""
    return json.loads(_text(case))


def sealed(document):
    """The document with its digests recomputed, as a forger would; only that of the released numbers is left alone."""
    certificate = {key: value for key, value in document["certificate"].items() if key != "digest"}
    document["certificate"] = {**certificate, "digest": digest(certificate)}
    document["digest"] = file_digest(document)
    return document
