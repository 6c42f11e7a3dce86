"""The tools that are compared: what is installed for each, what is run, and what each of them promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm_papers.peers.rows import ENCODED, RECORDS

REPLACE_ONE, ADD_REMOVE = "replace-one", "add-remove"
CLASSES, NUMBERS = "classes", "numbers"
SLOW = 2
"""How many folds slow settings are run on."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to run a tool.

    A slow one gets so many ``folds`` at most. ``relation`` is given where it is not the tool's usual one. With
    ``one_column`` the tool gets that column alone which explains most.
    """

    label: str
    task: str = CLASSES
    options: Mapping[str, Any] = field(default_factory=dict)
    folds: int | None = None
    relation: str | None = None
    one_column: bool = False


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A tool. ``candidates`` are lists of requirements, tried in this order; none is for the present Python.

    ``check`` must run without an error where the tool works. ``pure`` tools spend no delta, and ``private`` is False
    for what is here for comparison only.
    """

    name: str
    runner: str
    package: str
    settings: tuple[Setting, ...]
    candidates: tuple[tuple[str, ...], ...] = ()
    check: str = ""
    rows: str = ENCODED
    relation: str = REPLACE_ONE
    pure: bool = False
    private: bool = True

    def relation_of(self, setting: Setting) -> str:
        return setting.relation or self.relation


TORCH = "torch==2.13.0"
"""Opacus asks for a torch of any kind; the newest is not needed."""

OURS = Peer(
    name="dperm",
    runner="run_dperm",
    package="dperm",
    settings=(Setting(label="default (auto)"), Setting(label="default (auto)", task=NUMBERS)),
)
OURS_ADD_REMOVE = Peer(
    name="dperm, add-remove",
    runner="run_dperm",
    package="dperm",
    relation=ADD_REMOVE,
    settings=(
        Setting(label="default (auto)"),
        Setting(label="dp-sgd", options={"mechanism": "dp-sgd"}),
        Setting(label="default (auto)", task=NUMBERS),
        Setting(label="default (auto), one column", task=NUMBERS, one_column=True),
    ),
)
OURS_PURE = Peer(
    name="dperm, pure",
    runner="run_dperm",
    package="dperm",
    pure=True,
    settings=(
        Setting(label="objective-pure", options={"mechanism": "objective-pure"}),
        Setting(label="objective-pure", task=NUMBERS, options={"mechanism": "objective-pure"}),
        Setting(
            label="objective-pure, one column",
            task=NUMBERS,
            options={"mechanism": "objective-pure"},
            one_column=True,
        ),
    ),
)
NOT_PRIVATE = Peer(
    name="scikit-learn",
    runner="run_sklearn",
    package="scikit-learn",
    private=False,
    pure=True,
    settings=(Setting(label="LogisticRegression"), Setting(label="LinearRegression", task=NUMBERS)),
)
HERE = (OURS, OURS_ADD_REMOVE, OURS_PURE, NOT_PRIVATE)
"""Run with the present Python."""

DIFFPRIVLIB = Peer(
    name="diffprivlib",
    runner="run_diffprivlib",
    package="diffprivlib",
    candidates=(
        ("diffprivlib",),
        ("diffprivlib==0.6.6", "scikit-learn==1.8.0"),
        ("diffprivlib==0.6.6", "scikit-learn==1.7.2"),
    ),
    check="from diffprivlib.models import LogisticRegression; LogisticRegression()",
    pure=True,
    settings=(
        Setting(label="LogisticRegression as it comes"),
        Setting(label="LogisticRegression, C = 0.1", options={"C": 0.1, "max_iter": 400}),
        Setting(label="LogisticRegression, C = 0.01", options={"C": 0.01, "max_iter": 400}),
        Setting(label="LinearRegression as it comes", task=NUMBERS),
        Setting(label="LinearRegression, one column", task=NUMBERS, one_column=True),
    ),
)
OPACUS = Peer(
    name="Opacus",
    runner="run_opacus",
    package="opacus",
    candidates=((TORCH, "opacus"),),
    check="import opacus",
    relation=ADD_REMOVE,
    settings=(
        Setting(
            label="DP-SGD, batches of 256, lr 0.1, 10 epochs",
            options={"batch": 256, "lr": 0.1, "epochs": 10},
            folds=SLOW,
        ),
        Setting(
            label="DP-SGD, batches of 4,000, lr 4, 10 epochs",
            options={"batch": 4000, "lr": 4.0, "epochs": 10},
            folds=SLOW,
        ),
        Setting(
            label="DP-SGD, batches of 4,000, lr 16, 10 epochs",
            options={"batch": 4000, "lr": 16.0, "epochs": 10},
            folds=SLOW,
        ),
    ),
)
JAX_PRIVACY = Peer(
    name="JAX-Privacy",
    runner="run_jax_privacy",
    package="jax-privacy",
    candidates=(("jax-privacy",),),
    check="import jax_privacy.experimental.execution_plan",
    relation=ADD_REMOVE,
    settings=(
        Setting(
            label="DP-SGD, rate 0.1, lr 4, 10 epochs",
            options={"rate": 0.1, "batch": 3600, "lr": 4.0, "epochs": 10},
            folds=SLOW,
        ),
        Setting(
            label="DP-SGD, rate 0.1, lr 16, 10 epochs",
            options={"rate": 0.1, "batch": 3600, "lr": 16.0, "epochs": 10},
            folds=SLOW,
        ),
    ),
)
TF_PRIVACY = Peer(
    name="TF-Privacy",
    runner="run_tensorflow_privacy",
    package="tensorflow-privacy",
    candidates=(("tensorflow-privacy",), ("tensorflow-privacy==0.9.0", "tensorflow==2.15.1")),
    check="from tensorflow_privacy.privacy.logistic_regression import multinomial_logistic",
    settings=(
        Setting(
            label="logistic_objective_perturbation, 2 epochs",
            options={"method": "objective", "epochs": 2},
            folds=SLOW,
        ),
        Setting(
            label="logistic_dpsgd, batches of 400, 5 epochs",
            options={"method": "dpsgd", "epochs": 5, "batch_size": 400, "num_microbatches": 400},
            folds=SLOW,
            relation=ADD_REMOVE,
        ),
    ),
)
DP_EBM = Peer(
    name="DP-EBM",
    runner="run_interpret",
    package="interpret-core",
    candidates=(("interpret-core[required]", "pandas"),),
    check="from interpret.privacy import DPExplainableBoostingClassifier",
    rows=RECORDS,
    relation=ADD_REMOVE,
    settings=(
        Setting(label="as it comes", folds=SLOW),
        Setting(label="100 rounds, lr 0.05", options={"max_rounds": 100, "learning_rate": 0.05}, folds=SLOW),
        Setting(label="100 rounds, lr 0.2", options={"max_rounds": 100, "learning_rate": 0.2}, folds=SLOW),
    ),
)
OPENDP = Peer(
    name="OpenDP",
    runner="run_opendp",
    package="opendp",
    candidates=(("opendp[scikit-learn]",),),
    check="import opendp.prelude as dp; dp.sklearn.linear_model.LinearRegression",
    relation=ADD_REMOVE,
    pure=True,
    settings=(Setting(label="LinearRegression (Theil-Sen), one column", task=NUMBERS, one_column=True),),
)
AIM = Peer(
    name="AIM (dpmm)",
    runner="run_dpmm",
    package="dpmm",
    candidates=(("dpmm",),),
    check="from dpmm.models.aim import AIMGM",
    relation=ADD_REMOVE,
    settings=(),
)
"""Installed only: its own authors say that a fit may take hours, so what was measured before is shown."""

PEERS = (DIFFPRIVLIB, OPACUS, JAX_PRIVACY, DP_EBM, OPENDP, TF_PRIVACY, AIM)
"""Each in an environment of its own."""


def reference(relation: str) -> Peer:
    """Ours under this relation: beside it a tool's time is taken."""
    return OURS_ADD_REMOVE if relation == ADD_REMOVE else OURS
