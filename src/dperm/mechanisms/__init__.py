"""Mechanisms: one file per private training mechanism, its theorem in docs/proofs/.

Every module of this package is imported here, and what it registers is exported by its class name; ``__init__.pyi``,
which ``make names`` writes, tells type checkers so.
"""

from importlib import import_module
from pkgutil import walk_packages

from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.registry import mark_own, mechanism_names, register, registered, resolve

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

mark_own()
globals().update({_mechanism.__name__: _mechanism for _mechanism in registered()})

__all__ = [
    "Job",
    "Mechanism",
    "Outcome",
    "Plan",
    "mechanism_names",
    "register",
    "registered",
    "resolve",
    *(_mechanism.__name__ for _mechanism in registered()),
]
