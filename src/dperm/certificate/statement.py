"""What a fitted model states about its privacy, in a form that a machine can check (docs/certificate.md)."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any, get_type_hints

import numpy as np

from dperm import __version__
from dperm.certificate.assumptions import (
    BLIND,
    DECLARED,
    TARGETS,
    Assumption,
    assumptions,
    read_assumptions,
)
from dperm.errors import DpermError, InvalidInput
from dperm.losses import Loss, rebuild_loss
from dperm.mechanisms import Mechanism, Outcome, Plan, resolve
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem
from dperm.strict_json import CITATION, check_format, check_object, digest, header, is_label, matches, typed
from dperm.unit import Neighbours, PersonLoss, Persons

FORMAT = "dperm certificate"
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")
LIBRARIES = ("numpy", "scipy", "scikit-learn")
RELEASED = ("coefficients", "intercept", "classes", "feature_names", "row_map")  # what one digest is about
IF_RELEASED = ("inference",)  # and what it is about where a file has it


@dataclass(frozen=True, kw_only=True)
class StatedRelease:
    """One group of equal passages through the gate."""

    name: str
    sensitivity: float
    padded_sensitivity: float
    noise_scale: float
    grid_exponent: int
    dimension: int
    count: int


RELEASE = get_type_hints(StatedRelease)
_OBJECT = dict[str, Any]  # typed further below
BUDGET = {"epsilon": float, "delta": float}
PROBLEM = {
    "loss": str,
    "loss_parameters": list[float],
    "outputs": int,
    "lipschitz": float,
    "smoothness": float,
    "l2": float,
    "x_norm": float,
    "intercept": float,
    "row_norm": float,
    "n_units": int,
    "n_features": int,
    "n_coefficients": int,
}
MECHANISM = {"asked": _OBJECT, "chosen": _OBJECT, "family": str, "used": _OBJECT}
PLANNED = {
    "releases": int,
    "sensitivity": float | None,
    "noise_scale": float | None,
    "branches": list[list[float]],
    "residual": float | None,
}
STANDARDISATION = {
    "variant": str,
    "share": float,
    "mu": float,
    "noise_scales": list[float],
    "first_bound": float,
    "floor_share": float,
    "floor_noise": float,
    "power": float,
    "rho": float,
    "count_column": float | None,
    "fewest": float | None,
}
PERSONS = {"loss": str, "rows_per_person": int}  # how the rows of one count, and how many are kept
INFERENCE = {  # what was bought for standard errors, beside the coefficients (docs/proofs/intervals.md)
    "share": float,
    "mu": float,
    "noise_scale": float,
    "weight": float | None,
    "moments": list[float] | None,
    "constant": float,
}
_TARGETS = {
    "classes": {"kind": str, "count": int, "origin": str},
    "range": {"kind": str, "low": float, "high": float, "origin": str},
}
STATEMENT = {
    "format": str,
    "version": int,
    "guarantee": dict[str, float] | None,
    "reason": str | None,
    "unit": str,
    "relation": str,
    "budget": _OBJECT,
    "problem": _OBJECT,
    "targets": _OBJECT,
    "bounds": str,
    "around": list[_OBJECT],
    "mechanism": _OBJECT,
    "accountant": str,
    "planned": _OBJECT,
    "standardisation": _OBJECT | None,
    "releases": list[_OBJECT],
    "entropy": _OBJECT,
    "certified_arithmetic": bool,
    "assumptions": list[_OBJECT],
    "libraries": dict[str, str],
    "model": dict[str, str | None],
    "digest": str,
}
"""The keys of a bound statement, with their types; those of its parts stand above."""
_PARTS: dict[str, Mapping[str, Any]] = {
    "budget": BUDGET,
    "problem": PROBLEM,
    "planned": PLANNED,
    "mechanism": MECHANISM,
    "entropy": {"source": str, "secure": bool},
}
OPTIONAL: dict[str, Mapping[str, Any]] = {"persons": PERSONS, "inference": INFERENCE, "search": BUDGET}
"""Parts that a statement has where they apply; ``search`` is the budget of the search that chose the model."""


def statement_of(
    plan: Plan,
    outcome: Outcome,
    entropy: Entropy,
    targets: Mapping[str, Any],
    reason: str | None,
    around: Sequence[Assumption] = BLIND,
) -> dict[str, Any]:
    """All that the guarantee rests on, without a word about the released numbers themselves.

    ``around`` says how settings and features came about, as far as the fit could see.
    """
    return {
        **planned_part(plan, targets, around),
        "guarantee": None if reason else {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta},
        "reason": reason,
        "releases": _grouped(outcome),
        "entropy": {"source": entropy.name, "secure": entropy.secure},
        "certified_arithmetic": outcome.certified,
        "libraries": {
            "python": platform.python_version(),
            "dperm": __version__,
            **_versions(),
        },
    }


@cache
def _versions() -> dict[str, str]:
    return {library: version(library) for library in LIBRARIES}


def planned_part(plan: Plan, targets: Mapping[str, Any], around: Sequence[Assumption]) -> dict[str, Any]:
    """What is stated of a plan: the same public facts give the same statement."""
    problem = plan.problem
    inner = plan.trained_by
    noise = plan.noise
    standardisation = plan.standardisation
    stated = {
        **header(FORMAT),
        "unit": problem.privacy_unit.words,
        "relation": problem.neighbours.value,
        "budget": {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta},
        "problem": {
            "loss": problem.loss.name,
            "loss_parameters": problem.loss.parameters,
            "outputs": problem.loss.outputs,
            "lipschitz": problem.loss.lipschitz,
            "smoothness": problem.loss.smoothness,
            "l2": problem.l2,
            "x_norm": problem.x_norm,
            "intercept": problem.intercept,
            "row_norm": problem.row_norm,
            "n_units": problem.n_rows,
            "n_features": problem.n_features,
            "n_coefficients": problem.dimension,
        },
        "targets": targets,
        "bounds": DECLARED,
        "around": [one.to_dict() for one in around],
        "mechanism": {
            "asked": describe(plan.mechanism),
            "chosen": describe(inner.mechanism),
            "family": inner.mechanism.family,
            "used": plan.settings,
        },
        "accountant": plan.accountant,
        "planned": {
            "releases": 0 if noise is None else plan.releases,
            "sensitivity": None if noise is None else noise.sensitivity,
            "noise_scale": None if noise is None else noise.scale,
            "branches": _runs([] if plan.sensitivities is None else plan.sensitivities.tolist()),
            "residual": plan.residual,
        },
        "standardisation": None if standardisation is None else standardisation.stated,
        "assumptions": [one.to_dict() for one in assumptions(plan, targets, around)],
        **({} if plan.inference is None else {"inference": plan.inference.stated}),
    }
    if problem.persons is not None:
        stated["persons"] = {
            "loss": problem.persons.loss.value,
            "rows_per_person": problem.persons.rows_per_person,
        }
    return {name: plain(name, value, strict=False) for name, value in stated.items()}


def bind(
    statement: Mapping[str, Any], released: Mapping[str, Any], ledger_entry: str | None
) -> dict[str, Any]:
    """The statement about one model: with the digest of what was released, and at last of itself."""
    bound = {**statement, "model": {"sha256": model_digest(released), "ledger_entry": ledger_entry}}
    return {**bound, "digest": digest(bound)}


def released_parts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a model file that its certificate is about."""
    names = (*RELEASED, *(name for name in IF_RELEASED if name in document))
    return {name: document[name] for name in names}


def model_digest(released: Mapping[str, Any]) -> str:
    """SHA-256 over coefficients, intercept, classes, feature names and the map of rows, as the file holds them.

    Over the numbers for intervals too, where there are some.
    """
    return digest(released_parts(released))


def check_digests(document: Mapping[str, Any]) -> str:
    """Refuse a model file in which anything was changed and a digest was not.

    The digest of the certificate and that of the released numbers were taken by ``fit``, that of the file, which
    covers schema, parameters and all the rest, when it was saved.
    """
    statement = document["certificate"]
    if digest({**unbind(statement), "model": statement["model"]}) != statement["digest"]:
        raise InvalidInput("the certificate was changed: its digest is not that of its text.")
    if model_digest(document) != statement["model"]["sha256"]:
        raise InvalidInput(
            "coefficients, intercept, classes, feature names, row map or the numbers for intervals are not those that "
            "the certificate is about."
        )
    if file_digest(document) != document["digest"]:
        raise InvalidInput("the file was changed: its digest is not that of its content.")
    return "of the certificate, of the released numbers, and of the whole file with its schema"


def file_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over a whole model file but its own ``digest``; in the schema the order of keys counts too."""
    content = {name: value for name, value in document.items() if name != "digest"}
    return digest({**content, "schema": _in_order(document["schema"])})


def _in_order(value: Any) -> Any:
    """Objects as lists of pairs: the features of a schema are columns, which have an order."""
    if isinstance(value, Mapping):
        return [[key, _in_order(inner)] for key, inner in value.items()]
    return [_in_order(inner) for inner in value] if isinstance(value, list | tuple) else value


def unbind(bound: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in bound.items() if key not in ("model", "digest")}


def check_statement(value: object) -> dict[str, Any]:
    """A bound statement; anything that is none is refused."""
    given = check_format(value, FORMAT)
    extra = {name: given[name] for name in OPTIONAL if name in given}
    others = {name: part for name, part in given.items() if name not in extra}
    statement = typed("the certificate", others, STATEMENT)
    for name, part in extra.items():
        typed(f"certificate, {name}", part, OPTIONAL[name])
    for name, part in _PARTS.items():
        typed(f"certificate, {name}", statement[name], part)
    for name in ("asked", "chosen"):
        where = f"certificate, mechanism, {name}"
        described = check_object(where, statement["mechanism"][name], ("name", "settings"))
        if not matches(described["name"], str) or not matches(described["settings"], Mapping[str, Any]):
            raise InvalidInput(f"{where}: a name and settings were expected.")
        if not matches(described["settings"].get("accounting"), str):
            raise InvalidInput(f"{where}: the settings must name the accounting.")
    for release in statement["releases"]:
        typed("certificate, a release", release, RELEASE)
    form = _TARGETS["range" if statement["targets"].get("kind") == "range" else "classes"]
    targets = typed("certificate, targets", statement["targets"], form)
    if (targets["kind"], targets["origin"]) not in TARGETS:
        raise InvalidInput("certificate, targets: an unknown kind or origin.")
    read_assumptions("certificate, assumptions", statement["assumptions"])
    if not all(one.around for one in read_assumptions("certificate, around", statement["around"])):
        raise InvalidInput("certificate, around: more than what stood around the fit.")
    check_object("certificate, model", statement["model"], ("sha256", "ledger_entry"))
    if statement["model"]["ledger_entry"] is not None:
        check_citation("certificate, model, ledger_entry", statement["model"]["ledger_entry"])
    libraries = check_object(
        "certificate, libraries", statement["libraries"], ("python", "dperm", *LIBRARIES)
    )
    if not all(_VERSION.fullmatch(told) for told in libraries.values()):
        raise InvalidInput("certificate, libraries: versions were expected.")
    guarantee, standardisation = statement["guarantee"], statement["standardisation"]
    if guarantee is not None:
        check_object("certificate, guarantee", guarantee, ("epsilon", "delta"))
    if standardisation is not None:
        typed("certificate, standardisation", standardisation, STANDARDISATION)
    if (guarantee is None) == (statement["reason"] is None):
        raise InvalidInput("certificate: there must be either a guarantee or a reason why there is none.")
    if guarantee is not None and guarantee != statement["budget"]:
        raise InvalidInput("certificate: the guarantee is not the stated epsilon and delta.")
    return {**statement, **extra}


def loss_of(problem: Mapping[str, Any]) -> Loss:
    """The loss that a statement names."""
    return rebuild_loss(problem["loss"], problem["loss_parameters"], problem["outputs"])


def problem_of(statement: Mapping[str, Any]) -> Problem:
    stated, persons = statement["problem"], statement.get("persons")
    if persons is not None:
        loss = PersonLoss.parse(persons["loss"])
        persons = Persons(rows_per_person=persons["rows_per_person"], loss=loss)
    return Problem(
        loss=loss_of(stated),
        n_rows=stated["n_units"],
        **{name: stated[name] for name in ("l2", "x_norm", "n_features", "intercept")},
        neighbours=Neighbours.parse(statement["relation"]),
        persons=persons,
    )


def _grouped(outcome: Outcome) -> list[dict[str, Any]]:
    """The records in their order; equal ones that follow each other are counted together."""
    names = [name for name in RELEASE if name != "count"]
    groups: list[dict[str, Any]] = []
    for record in outcome.records:
        fields = record.to_dict()
        stated = {name: plain(name, fields[name]) for name in names}
        if groups and all(groups[-1][name] == value for name, value in stated.items()):
            groups[-1]["count"] += 1
        else:
            groups.append({**stated, "count": 1})
    return groups


def _runs(values: Sequence[float]) -> list[list[float]]:
    """Run-length encoding: pairs of a value and how often it follows itself."""
    if not values:
        return []
    array = np.asarray(values, float)
    starts = np.flatnonzero(np.append(True, array[1:] != array[:-1]))
    counts = np.diff(np.append(starts, len(array)))
    return [[float(array[start]), int(count)] for start, count in zip(starts, counts, strict=True)]


def check_citation(where: str, value: object) -> None:
    """Refuse what is not the way in which a release cites the charge that paid for it."""
    if not (isinstance(value, str) and CITATION.fullmatch(value)):
        raise InvalidInput(f"{where} must be null or have the form 'ledger ..., charge ..., head ...'.")


def plain(name: str, value: Any, strict: bool = True) -> Any:
    """The value as JSON writes it, or a clear refusal; if not ``strict``, what does not fit is written as text."""
    if isinstance(value, Mechanism):
        return describe(value)
    if isinstance(value, Loss):
        return describe_loss(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(name, v, strict) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(name, v, strict) for v in value]
    if value is None or is_label(value):
        return value
    if not strict:
        return ascii(value)
    raise InvalidInput(f"{name} holds a {type(value).__name__}, which a model file cannot keep.")


def describe(mechanism: Mechanism) -> dict[str, Any]:
    return {"name": mechanism.name, "settings": plain("a setting", mechanism.settings, strict=False)}


def describe_loss(loss: Loss) -> dict[str, Any]:
    return {
        "name": loss.name,
        "parameters": [float(value) for value in loss.parameters],
        "outputs": loss.outputs,
    }


def mechanism_of(stored: object) -> Mechanism:
    """The mechanism that ``describe`` wrote down; no code is run but the checks of its settings."""
    described = check_object("mechanism", stored, ("name", "settings"))
    if not isinstance(described["name"], str) or ":" in described["name"]:
        raise InvalidInput("the mechanism's name must be text.")
    default = resolve(described["name"])
    settings = check_object("the mechanism's settings", described["settings"], default.settings)
    hints = get_type_hints(type(default))
    for key, value in settings.items():
        if not matches(value, hints[key]):
            raise InvalidInput(f"setting {key} of the mechanism has a value of a wrong type.")
    try:
        return replace(default, **settings)
    except DpermError as error:
        raise InvalidInput(str(error)) from None
