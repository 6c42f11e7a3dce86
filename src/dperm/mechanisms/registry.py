"""Names of mechanisms, for strings in estimators and on the command line."""

import warnings
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points

from dperm.errors import InvalidInput
from dperm.mechanisms.auto import Auto
from dperm.mechanisms.base import Mechanism
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
from dperm.mechanisms.statistics.adassp import AdaSSP
from dperm.mechanisms.statistics.ssp import SSP

ENTRY_POINTS = "dperm.mechanisms"
"""The group of entry points by which an installed package makes its own mechanisms known."""

_MECHANISMS: dict[str, type[Mechanism]] = {}


def register(mechanism: type[Mechanism]) -> type[Mechanism]:
    """Make a mechanism known by its name; usable as a class decorator."""
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise InvalidInput(f"only subclasses of Mechanism can be registered; got {mechanism!r}.")
    known = _MECHANISMS.setdefault(mechanism.name, mechanism)
    if known is not mechanism:
        raise InvalidInput(
            f"a mechanism named {mechanism.name!r} is registered already; choose another name."
        )
    return mechanism


for _mechanism in (
    Auto,
    RSGDAR,
    RSGD,
    NSGD,
    OutputGD,
    BoltOn,
    Output,
    Objective,
    ObjectivePure,
    ObjectiveKST,
    AMP,
    DPGD,
    DPSGD,
    SGDMA,
    DPAGD,
    PSGD,
    DPSGDAdv,
    DPSVRG,
    NoisySGD,
    DPCD,
    FrankWolfe,
    SSP,
    AdaSSP,
    NoPrivacy,
    Majority,
):
    register(_mechanism)


@cache
def load_installed() -> None:
    """Register, once, what installed packages declare. One that does not load is left out with a warning."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            register(entry.load())
        except Exception as error:
            warnings.warn(
                f"the mechanism {entry.name!r} of {entry.value} could not be loaded: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def mechanism_names() -> tuple[str, ...]:
    """All names: those of this library, of installed packages and of what the program has registered."""
    load_installed()
    return tuple(_MECHANISMS)


def resolve(mechanism: "str | Mechanism") -> Mechanism:
    """A mechanism from its name, from ``name:paper`` or ``name:tight``, or as it is."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if not isinstance(mechanism, str):
        kind = type(mechanism).__name__
        raise InvalidInput(f"mechanism must be a name or a mechanism object such as RSGDAR(); got a {kind}.")
    name, _, accounting = mechanism.partition(":")
    if name not in _MECHANISMS and name not in mechanism_names():
        raise InvalidInput(f"no mechanism is named {name!r}; choose from {', '.join(_MECHANISMS)}.")
    chosen = _MECHANISMS[name]()
    return replace(chosen, accounting=accounting) if accounting else chosen
