"""Mechanisms: one file per private training mechanism, its theorem in docs/proofs/."""

from dperm.mechanisms.auto import Auto
from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.baselines import Majority, NoPrivacy
from dperm.mechanisms.gradient.dp_agd import DPAGD
from dperm.mechanisms.gradient.dp_cd import DPCD
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.gradient.dp_sgd import DPSGD
from dperm.mechanisms.gradient.dp_sgd_adv import DPSGDAdv
from dperm.mechanisms.gradient.dp_svrg import DPSVRG
from dperm.mechanisms.gradient.frank_wolfe import FrankWolfe
from dperm.mechanisms.gradient.noisy_sgd import NoisySGD
from dperm.mechanisms.gradient.psgd import PSGD
from dperm.mechanisms.gradient.sgd_ma import SGDMA
from dperm.mechanisms.objective.amp import AMP
from dperm.mechanisms.objective.objective import Objective
from dperm.mechanisms.objective.objective_kst import ObjectiveKST
from dperm.mechanisms.objective.objective_pure import ObjectivePure
from dperm.mechanisms.output.bolt_on import BoltOn
from dperm.mechanisms.output.output import Output
from dperm.mechanisms.output.output_gd import OutputGD
from dperm.mechanisms.output.rsgd import NSGD, RSGD, RSGDAR
from dperm.mechanisms.registry import mechanism_names, register, resolve
from dperm.mechanisms.statistics.adassp import AdaSSP
from dperm.mechanisms.statistics.ssp import SSP

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
    "DPSGDAdv",
    "FrankWolfe",
    "Job",
    "Majority",
    "Mechanism",
    "NoPrivacy",
    "NoisySGD",
    "Objective",
    "ObjectiveKST",
    "ObjectivePure",
    "Outcome",
    "Output",
    "OutputGD",
    "Plan",
    "mechanism_names",
    "register",
    "resolve",
]
