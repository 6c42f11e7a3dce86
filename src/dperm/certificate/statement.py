"""What a fitted model states about its privacy, in a form that a machine can check (docs/certificate.md)."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, get_type_hints

import numpy as np

from dperm import __version__
from dperm.certificate import forms
from dperm.certificate.assumptions import (
    BLIND,
    DECLARED,
    TARGETS,
    Assumption,
    assumptions,
    read_assumptions,
)
from dperm.certificate.document import check_citation, describe, plain
from dperm.errors import InvalidInput
from dperm.losses import Loss, rebuild_loss
from dperm.mechanisms import Outcome, Plan
from dperm.neighbours import Neighbours
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem
from dperm.strict_json import check_format, check_object, digest, header, matches, typed
from dperm.unit import PersonLoss, Persons

FORMAT = "dperm certificate"
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")
LIBRARIES = ("numpy", "scipy", "scikit-learn")
RELEASED = ("coefficients", "intercept", "classes", "feature_names", "row_map")  # what one digest is about
IF_RELEASED = ("inference",)  # and what it is about where a file has it

_PARTS = {
    "budget": forms.Budget,
    "problem": forms.Problem,
    "planned": forms.Planned,
    "entropy": forms.Entropy,
}
OPTIONAL = {
    "persons": forms.Persons,
    "inference": forms.Inference,
    "search": forms.Budget,
}  # parts that a statement has where they apply; ``search`` is the budget of the search that chose the model


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
    statement = typed("the certificate", others, forms.Bound)
    for name, part in extra.items():
        typed(f"certificate, {name}", part, OPTIONAL[name])
    for name, part in _PARTS.items():
        typed(f"certificate, {name}", statement[name], part)
    stated = typed("certificate, mechanism", statement["mechanism"], forms.Mechanism)
    for name in ("asked", "chosen"):
        described = check_object(f"certificate, mechanism, {name}", stated[name], ("name", "settings"))
        if not matches(described["name"], str) or not matches(described["settings"], Mapping[str, Any]):
            raise InvalidInput(f"certificate, mechanism, {name}: a name and settings were expected.")
        if not matches(described["settings"].get("accounting"), str):
            raise InvalidInput(f"certificate, mechanism, {name}: the settings must name the accounting.")
    for release in statement["releases"]:
        typed("certificate, a release", release, forms.Release)
    form = forms.Range if statement["targets"].get("kind") == "range" else forms.Classes
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
        typed("certificate, standardisation", standardisation, forms.Standardisation)
    if (guarantee is None) == (statement["reason"] is None):
        raise InvalidInput("certificate: there must be either a guarantee or a reason why there is none.")
    if guarantee is not None and guarantee != statement["budget"]:
        raise InvalidInput("certificate: the guarantee is not the stated epsilon and delta.")
    return {**statement, **extra}


def loss_of(problem: Mapping[str, Any]) -> Loss:
    """The loss that a statement names."""
    return rebuild_loss(problem["loss"], problem["loss_parameters"], problem["outputs"])


def problem_of(statement: Mapping[str, Any]) -> Problem:
    stated = statement["problem"]
    return Problem(
        loss=loss_of(stated),
        n_rows=stated["n_units"],
        **{name: stated[name] for name in ("l2", "x_norm", "n_features", "intercept")},
        neighbours=Neighbours.parse(statement["relation"]),
        persons=_persons_in(statement),
    )


def _persons_in(statement: Mapping[str, Any]) -> Persons | None:
    stated = statement.get("persons")
    if stated is None:
        return None
    return Persons(rows_per_person=stated["rows_per_person"], loss=PersonLoss.parse(stated["loss"]))


def _grouped(outcome: Outcome) -> list[dict[str, Any]]:
    """The records in their order; equal ones that follow each other are counted together."""
    names = [name for name in get_type_hints(forms.Release) if name != "count"]
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
