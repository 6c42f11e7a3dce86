"""Check a model file's certificate: recompute its guarantee independently, then plan the fit once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dperm.certificate.accountant import Price
from dperm.certificate.assumptions import DECLARED, Code, Status, read_assumptions, with_status
from dperm.certificate.constants import Facts, unproven
from dperm.certificate.recomputation import (
    check_constants,
    check_plan,
    check_price,
    recomputed_price,
    releases_checked,
    unchecked,
)
from dperm.certificate.released import check_row_map, check_told
from dperm.certificate.routes import route_of
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.statement import (
    RELEASED,
    check_digests,
    check_statement,
    describe,
    describe_loss,
    loss_of,
    mechanism_of,
    problem_of,
)
from dperm.certificate.threshold import check_thresholds, price_with, thresholds_in, total
from dperm.certificate.verdict import (
    FORMULA,
    REPLANNED,
    SECOND,
    STRUCTURE,
    Examination,
    Requirements,
    Verdict,
)
from dperm.errors import InvalidInput
from dperm.losses import (
    ClippedSquared,
    HuberHinge,
    Logistic,
    Loss,
    SoftClippedSquared,
    Weighted,
    rebuild_loss,
    resolve_loss,
)
from dperm.losses.base import BOUND_RANGE
from dperm.mechanisms import resolve
from dperm.planning.rules import AUTO
from dperm.privacy import Budget
from dperm.privacy.entropy import SystemEntropy
from dperm.strict_json import is_label
from dperm.unit import UNITS, PersonLoss, rows_kept


def verify(
    document: Mapping[str, Any],
    *,
    max_epsilon: float | None = None,
    max_delta: float | None = None,
    unit: str | None = None,
) -> Verdict:
    """Whether a model file claims a guarantee that follows from the constants that it states.

    Parameters
    ----------
    document : mapping
        As :func:`dperm.models.read_document` gives it.
    max_epsilon, max_delta : float, optional
        The largest guarantee that is ``ok``.
    unit : {"row", "person"}, optional
        Whom the guarantee must protect.

    Guarantee
    ---------
    Of an accepted file with a guarantee: the stated noise costs at most the stated epsilon and delta, with the
    sensitivities that the proofs give for the stated constants, those named in ``not_checked`` excepted; numbers,
    schema and certificate belong together.

    Assumes
    -------
    That the file tells what was done. Who writes a false statement that is consistent in itself is not found out:
    no file can show that noise was really drawn, or that rows were really bounded.
    """
    requirements = Requirements(max_epsilon=max_epsilon, max_delta=max_delta, unit=unit)
    examination = Examination()
    statement = examination.run("shape of the file", STRUCTURE, lambda: check_file(document))
    if statement is None:
        return Verdict(checks=tuple(examination.checks), claim=None, reason=None, requirements=requirements)
    examination.run("digests", STRUCTURE, lambda: check_digests(document))
    examination.run("claim", STRUCTURE, lambda: check_claim(statement))
    computed = FORMULA if statement["standardisation"] is not None else STRUCTURE
    examination.run("map of the rows", computed, lambda: check_row_map(document, statement))
    if "inference" in document or "inference" in statement:
        examination.run("numbers for intervals", STRUCTURE, lambda: check_told(document, statement))
    examination.run("parameters of the estimator", STRUCTURE, lambda: check_parameters(document, statement))
    if "thresholds" in document and examination.sound:
        examination.run("thresholds", SECOND, lambda: check_thresholds(document, statement))
    thresholds = thresholds_in(document) if examination.sound else ()
    computable = statement["guarantee"] is not None and not unproven(statement)
    if computable and examination.sound:
        examination.run("constants", FORMULA, lambda: check_constants(statement))
    price, not_checked = (
        _recomputed(examination, statement) if computable and examination.sound else (None, ())
    )
    if examination.sound:
        examination.run(
            "the whole plan", REPLANNED, lambda: check_plan(statement, document["parameters"]["l2"])
        )
    assumed = read_assumptions("certificate, assumptions", statement["assumptions"])
    claim = total(statement["guarantee"], [one.to_dict() for one in thresholds])
    return Verdict(
        checks=tuple(examination.checks),
        claim=claim,
        reason=statement["reason"] or (None if claim else "a threshold was tuned with predictable noise."),
        unit=statement["unit"],
        relation=statement["relation"],
        price=price_with(price, thresholds) if examination.sound else None,
        unmet=with_status(assumed, Status.NOT_MET),
        unproven=unproven(statement),
        cautions=with_status(assumed, Status.CAUTION),
        not_checked=not_checked,
        requirements=requirements,
    )


def _recomputed(
    examination: Examination, statement: Mapping[str, Any]
) -> tuple[Price | None, tuple[str, ...]]:
    """Sensitivities by the formulas of the proof page, then the price by the second accountant.

    The price, and what of it could not be checked. A mechanism from elsewhere has no formulas, and is only planned
    again.
    """
    route = route_of(resolve(statement["mechanism"]["chosen"]["name"]))
    if route is None:
        return None, ()
    evidence, prices = Evidence(statement, Facts.of(statement)), []

    def releases() -> str:
        prices.append(recomputed_price(route, evidence))
        return releases_checked(evidence)

    examination.run("releases", FORMULA, releases)
    if examination.sound:
        examination.run("epsilon at delta", SECOND, lambda: check_price(prices[0], evidence))
    return (prices[0], unchecked(evidence)) if prices else (None, ())


LARGEST_COUNT = 10_000_000
_VOUCHED = {Code.SETTINGS, Code.PUBLIC_CHOICE}  # ways to choose settings that need not be paid for


def check_file(document: Mapping[str, Any]) -> dict[str, Any]:
    """The statement in a model file, if the file and the statement have the form that they should have."""
    needed = {"parameters", "estimator", "schema", "certificate", "digest"}
    if not isinstance(document, Mapping) or not needed <= set(document):
        raise InvalidInput("a model file with a certificate was expected.")
    statement = check_statement(document["certificate"])
    if not set(RELEASED) <= set(document):
        raise InvalidInput("the file does not hold all that its certificate is about.")
    for place in ("asked", "chosen"):
        mechanism_of(statement["mechanism"][place])
        settings = statement["mechanism"][place]["settings"]
        _check_sizes({f"{place}, {name}": value for name, value in settings.items()})
    _check_sizes(statement["mechanism"]["used"])
    return statement


def _check_sizes(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= LARGEST_COUNT:
            raise InvalidInput(f"mechanism, {name} = {value} is out of the range that can be checked.")


def check_claim(statement: Mapping[str, Any]) -> str:
    """Who may claim a guarantee at all."""
    if statement["unit"] != UNITS["person" if "persons" in statement else "row"]:
        raise InvalidInput("unit is not that of the rest of the certificate.")
    if statement["bounds"] != DECLARED:
        raise InvalidInput(f"bounds must be {DECLARED!r}: bounds from the data are not covered.")
    if statement["guarantee"] is None:
        return "no guarantee is claimed"
    entropy = statement["entropy"]
    if not entropy["secure"] or entropy["source"] != SystemEntropy.name:
        raise InvalidInput("a guarantee is claimed for noise that did not come from the operating system.")
    if not statement["certified_arithmetic"]:
        raise InvalidInput("a guarantee is claimed for arithmetic that the plan does not account for.")
    if not statement["releases"]:
        raise InvalidInput("a guarantee is claimed without a release that has noise.")
    around = read_assumptions("certificate, around", statement["around"])
    codes = {one.code for one in around}
    if "search" in statement or Code.SEARCH_GRID in codes:
        raise InvalidInput(
            "a guarantee is claimed for one fit of a model that a private search chose; what holds is that of the "
            "whole search, which its ledger and PrivateSearchCV.privacy_ know."
        )
    unmet = any(one.status is Status.NOT_MET for one in around)
    if not (unmet or codes & _VOUCHED):
        raise InvalidInput("around does not say how the settings were chosen.")
    if not (unmet or Code.FEATURES in codes):
        raise InvalidInput("around does not say how the features came about.")
    return "noise from the operating system, arithmetic as planned"


def check_parameters(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """The estimator's own parameters must tell the same story."""
    stated, problem = document.get("parameters"), statement["problem"]
    if not isinstance(stated, Mapping):
        raise InvalidInput("parameters must be an object.")
    mechanism = stated.get("mechanism")
    asked = describe(resolve(mechanism) if isinstance(mechanism, str) else mechanism_of(mechanism))
    removable = statement["relation"] == "add-remove"
    expected = {
        "epsilon": statement["budget"]["epsilon"],
        "delta": statement["budget"]["delta"],
        "l2": AUTO if stated.get("l2") == AUTO else problem["l2"],
        "x_norm": problem["x_norm"],
        "neighbours": statement["relation"],
        "fit_intercept": problem["intercept"] > 0,
        "max_rows": problem["n_units"] if removable else None,
        "inference": "inference" in statement,
    }
    if statement["targets"]["kind"] == "range":
        expected["y_range"] = [statement["targets"]["low"], statement["targets"]["high"]]
    for name, value in expected.items():
        found = stated.get(name)
        if name not in stated or found != value or isinstance(found, bool) != isinstance(value, bool):
            raise InvalidInput(f"parameter {name} is not what the certificate states.")
    check_persons(stated, statement)
    check_loss(document, statement)
    if asked != statement["mechanism"]["asked"]:
        raise InvalidInput("parameter mechanism is not the one that the certificate states.")
    _check_coefficients(document, problem)
    if statement["targets"]["kind"] == "classes":
        classes = document.get("classes")
        if not isinstance(classes, list) or len(classes) != statement["targets"]["count"]:
            raise InvalidInput("targets, count is not the number of classes.")
        _check_classes(stated, classes, statement["targets"]["origin"] == DECLARED)
    if (stated.get("random_state") is None) != (statement["entropy"]["source"] == SystemEntropy.name):
        raise InvalidInput("entropy does not agree with the parameter random_state.")
    return "epsilon, delta, bounds, relation, mechanism and targets agree"


def _check_classes(stated: Mapping[str, Any], classes: list[Any], are_declared: bool) -> None:
    """The classes are those that were declared, or the codes of declared text; the positive one is among two."""
    declared = stated.get("classes")
    if (declared is not None) != are_declared:
        raise InvalidInput("targets, origin does not agree with the parameter classes.")
    if not all(map(is_label, classes)) or classes != sorted(classes):
        raise InvalidInput("classes must be labels, sorted.")
    if declared is not None and not _same_labels(declared, classes):
        raise InvalidInput("the parameter classes is not the list of classes.")
    positive = stated.get("positive")
    named = [label for label in declared or classes if type(label) is type(positive) and label == positive]
    if positive is not None and (len(classes) != 2 or not named):  # True is not 1
        raise InvalidInput("the parameter positive is not one of two classes.")


def _same_labels(declared: Any, classes: list[Any]) -> bool:
    if not isinstance(declared, list) or not all(map(is_label, [*declared, *classes])):
        return False
    if len(declared) != len(classes) or len(set(declared)) != len(declared):
        return False
    coded = all(isinstance(label, str) for label in declared) and classes == list(range(len(classes)))
    return coded or set(declared) == set(classes)


def _check_coefficients(document: Mapping[str, Any], problem: Mapping[str, Any]) -> None:
    """As many coefficients as the certificate is about."""
    rows = document["coefficients"] if problem["outputs"] > 1 else [document["coefficients"]]
    if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        raise InvalidInput("coefficients must be lists of numbers.")
    if (len(rows), {len(row) for row in rows}) != (problem["outputs"], {problem["n_features"]}):
        raise InvalidInput("problem, n_features and outputs are not those of the coefficients.")


KINDS: dict[str, tuple[str, str | None]] = {
    "PrivateLogisticRegression": ("classes", Logistic.name),
    "PrivateLinearSVC": ("classes", HuberHinge.name),
    "PrivateLinearClassifier": ("classes", None),
    "PrivateLinearRegression": ("range", None),
}
"""What is known of an estimator by its name: its kind of targets, and its loss if no parameter says it."""


def check_loss(document: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse a statement about another loss than the one that the estimator trains with."""
    kind, loss_name = KINDS.get(str(document["estimator"]), (None, None))
    targets = statement["targets"]
    stated = describe_loss(loss_of(statement["problem"]))
    if kind is None or kind != targets["kind"]:
        raise InvalidInput("the targets are not those of the estimator.")
    parameters = document["parameters"]
    declared = parameters.get("classes")
    _check_class_weight(parameters.get("class_weight"), document["classes"] if declared is None else declared)
    asked = loss_name or parameters["loss"]
    if isinstance(asked, str):
        own = _named(asked, parameters, targets)
    else:
        own = rebuild_loss(asked["name"], asked["parameters"], asked["outputs"])
    loss = _of_persons(_weighted(own, parameters, targets), statement)
    if "inference" not in statement:  # which are for the loss that was asked for
        mechanism = mechanism_of(statement["mechanism"]["asked"])
        loss = mechanism.trained_loss(
            replace(problem_of(statement), loss=loss), Budget(**statement["budget"])
        )
    if describe_loss(loss) != stated:
        raise InvalidInput("the loss is not that of the estimator.")


def _check_class_weight(pairs: object, classes: object) -> None:
    """Refuse weights that no estimator takes, and labels that it has not or has twice."""
    if pairs is None:
        return
    formed = isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    if not (isinstance(pairs, list) and formed and isinstance(classes, list)):
        raise InvalidInput("class_weight must be a list of pairs of label and weight.")
    low, high = BOUND_RANGE
    if not all(isinstance(weight, float) and low <= weight <= high for _, weight in pairs):
        raise InvalidInput(f"class_weight holds a weight outside {low:g} to {high:g}.")
    labels = [(type(label), label) for label, _ in pairs if is_label(label)]
    known = {(type(label), label) for label in classes}
    if not len(pairs) == len(set(labels)) == len(known.intersection(labels)):
        raise InvalidInput("class_weight must name classes of the model, each once.")


def _weighted(loss: Loss, parameters: Mapping[str, Any], targets: Mapping[str, Any]) -> Loss:
    """The loss for the weights that the parameters declare; a regression has no weights of classes."""
    of_classes, bound = parameters.get("class_weight"), parameters.get("sample_weight_bound")
    if of_classes is None and bound is None:
        return loss
    weights = [] if of_classes is None else [weight for _, weight in of_classes]
    if len(weights) < targets.get("count", 1):
        weights.append(1.0)
    return Weighted(loss, max(weights) * float(1.0 if bound is None else bound))


def _of_persons(loss: Loss, statement: Mapping[str, Any]) -> Loss:
    """The loss whose bound is that of a person, where one may have several rows."""
    stated = statement.get("persons")
    if stated is None or stated["rows_per_person"] == 1:
        return loss
    most = float(stated["rows_per_person"]) if stated["loss"] == PersonLoss.SUM else 1.0
    base, bound = (loss.base, loss.bound) if isinstance(loss, Weighted) else (loss, 1.0)
    return Weighted(base, bound * most)


def check_persons(parameters: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse parameters that tell another story of persons than the statement."""
    stated = statement.get("persons")
    loss, most = parameters["person_loss"], parameters["max_rows_per_person"]
    if stated is None:
        if loss != PersonLoss.MEAN or most is not None:
            raise InvalidInput("the parameters speak of persons and the certificate of rows.")
        return
    if most is None and loss == PersonLoss.MEAN:
        most = rows_kept(statement["problem"]["n_units"])
    if (stated["loss"], stated["rows_per_person"]) != (loss, most):
        raise InvalidInput("person_loss or max_rows_per_person is not what the certificate states.")


def _named(name: str, parameters: Mapping[str, Any], targets: Mapping[str, Any]) -> Loss:
    """The loss that an estimator makes of a name."""
    for kind in (ClippedSquared, SoftClippedSquared):
        if name == kind.name:
            return kind(parameters["residual_bound"])
    loss = resolve_loss(name)
    return loss.for_classes(targets["count"]) if targets["kind"] == "classes" else loss
