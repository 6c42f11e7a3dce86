"""Mechanisms: one file per private training mechanism, its theorem in docs/proofs/."""

from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.baselines import Majority, NoPrivacy
from dperm.mechanisms.bolt_on import BoltOn
from dperm.mechanisms.output import Output
from dperm.mechanisms.output_gd import OutputGD
from dperm.mechanisms.registry import mechanism_names, register, resolve
from dperm.mechanisms.rsgd import NSGD, RSGD, RSGDAR

__all__ = [
    "NSGD",
    "RSGD",
    "RSGDAR",
    "BoltOn",
    "Job",
    "Majority",
    "Mechanism",
    "NoPrivacy",
    "Outcome",
    "Output",
    "OutputGD",
    "Plan",
    "mechanism_names",
    "register",
    "resolve",
]
