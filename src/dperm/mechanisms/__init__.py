"""Mechanisms: one file per private training mechanism, its theorem in docs/proofs/."""

from dperm.mechanisms.adassp import AdaSSP
from dperm.mechanisms.amp import AMP
from dperm.mechanisms.auto import Auto
from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.baselines import Majority, NoPrivacy
from dperm.mechanisms.bolt_on import BoltOn
from dperm.mechanisms.dp_agd import DPAGD
from dperm.mechanisms.dp_cd import DPCD
from dperm.mechanisms.dp_gd import DPGD
from dperm.mechanisms.dp_sgd import DPSGD
from dperm.mechanisms.dp_sgd_adv import DPSGDAdv
from dperm.mechanisms.dp_svrg import DPSVRG
from dperm.mechanisms.frank_wolfe import FrankWolfe
from dperm.mechanisms.noisy_sgd import NoisySGD
from dperm.mechanisms.objective import Objective
from dperm.mechanisms.objective_kst import ObjectiveKST
from dperm.mechanisms.objective_pure import ObjectivePure
from dperm.mechanisms.output import Output
from dperm.mechanisms.output_gd import OutputGD
from dperm.mechanisms.psgd import PSGD
from dperm.mechanisms.registry import mechanism_names, register, resolve
from dperm.mechanisms.rsgd import NSGD, RSGD, RSGDAR
from dperm.mechanisms.sgd_ma import SGDMA
from dperm.mechanisms.ssp import SSP

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
