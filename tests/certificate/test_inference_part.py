"""The certificate's part about a release for intervals: it is priced, bound and cannot be left out."""

import copy
import math

import pytest
from certified_models import CASES, document_of, sealed

from dperm.certificate import verify
from dperm.certificate.constants import Facts, padded
from dperm.certificate.routes.evidence import CONSTANT, INFERRING, LONGEST, RAMP, TOLD, Evidence, inference_mu
from dperm.certificate.statement import model_digest
from dperm.certificate.verdict import FORMULA, SECOND
from dperm.errors import InvalidInput
from dperm.losses import squared
from dperm.mechanisms import inference, mechanism_names, resolve
from dperm.models.format import build, checked

INTERVALS = [case for case in CASES if "intervals" in case]
each_case = pytest.mark.parametrize("case", INTERVALS)


def resealed(document):
    """With the digest of the released numbers recomputed too."""
    document["certificate"]["model"]["sha256"] = model_digest(document)
    return sealed(document)


def failed_routes(verdict):
    return {check.route for check in verdict.checks if not check.passed}


@pytest.mark.together
@each_case
def test_an_honest_file_is_verified_and_says_what_was_looked_at(case):
    verdict = verify(document_of(case))
    assert verdict.ok, verdict.failures
    assert any(check.name == "numbers for intervals" and check.passed for check in verdict.checks)


@pytest.mark.together
@each_case
def test_its_price_is_part_of_the_whole(case):
    """A statement whose release for intervals has half the noise is refused by the second accountant or a formula."""
    document = document_of(case)
    last, part = document["certificate"]["releases"][-1], document["certificate"]["inference"]
    assert last["name"] in TOLD
    last["noise_scale"] /= 2
    part["noise_scale"], part["mu"] = part["noise_scale"] / 2, 2 * part["mu"]
    verdict = verify(sealed(document))
    assert not verdict.accepted
    assert failed_routes(verdict) == {SECOND}


@pytest.mark.together
@each_case
def test_a_smaller_sensitivity_is_refused_by_formula(case):
    document = document_of(case)
    last, part = document["certificate"]["releases"][-1], document["certificate"]["inference"]
    mu = last["padded_sensitivity"] / last["noise_scale"]
    last["sensitivity"] *= 0.99
    last["padded_sensitivity"] = padded(last["sensitivity"], last["dimension"])
    last["noise_scale"] = part["noise_scale"] = last["padded_sensitivity"] / mu
    verdict = verify(sealed(document))
    assert failed_routes(verdict) == {FORMULA}
    assert "sensitivity of the release for intervals" in " ".join(verdict.failures)


EDITS = {
    "part": lambda document: document["certificate"].pop("inference"),
    "release": lambda document: document["certificate"]["releases"].pop(),
    "numbers": lambda document: document.pop("inference"),
    "parameter": lambda document: document["parameters"].pop("inference"),
    "another parameter": lambda document: document["parameters"].update(inference=False),
    "a number": lambda document: document["inference"].pop(),
    "share": lambda document: document["certificate"]["inference"].update(share=0.3),
    "weight": lambda document: document["certificate"]["inference"].update(weight=0.125),
    "constant": lambda document: document["certificate"]["inference"].update(constant=4.0),
    "moments": lambda document: document["certificate"]["inference"].update(moments=[1.0, 2.0]),
}


@pytest.mark.together
@pytest.mark.cover(1)
@each_case
@pytest.mark.parametrize("what", EDITS)
def test_nothing_of_it_can_be_left_out_or_changed(case, what):
    document = document_of(case)
    EDITS[what](document)
    verdict = verify(resealed(document))
    assert not verdict.accepted
    assert verdict.guarantee is None


@pytest.mark.together
@each_case
def test_all_of_it_left_out_is_noticed_by_planning_again(case):
    """What is left costs less than was claimed, and is the noise of no plan."""
    document = document_of(case)
    for what in ("part", "release", "numbers", "parameter"):
        EDITS[what](document)
    verdict = verify(resealed(document))
    assert not verdict.accepted


@pytest.mark.together
@each_case
def test_a_release_before_the_weights_is_refused(case):
    """The weights are public only after they were released: the order counts."""
    document = document_of(case)
    releases = document["certificate"]["releases"]
    releases.insert(0, releases.pop())
    verdict = verify(sealed(document))
    assert not verdict.accepted


@pytest.mark.together
@each_case
def test_changed_numbers_are_refused_when_read(case):
    document = document_of(case)
    build(checked(copy.deepcopy(document)))
    document["inference"][0] += 1.0
    assert not verify(sealed(document)).accepted
    with pytest.raises(InvalidInput, match="certificate is about"):
        build(checked(sealed(document)))
    for broken in ([], None, document["inference"][:-1], ["0"] * len(document["inference"])):
        document["inference"] = broken
        with pytest.raises(InvalidInput):
            build(checked(resealed(document)))


def test_a_mechanism_that_offers_none_cannot_be_said_to():
    document = document_of("output")
    document["certificate"]["inference"] = document_of("auto, intervals")["certificate"]["inference"]
    document["certificate"]["releases"].append(document_of("auto, intervals")["certificate"]["releases"][-1])
    document["parameters"]["inference"] = True
    document["inference"] = document_of("auto, intervals")["inference"]
    assert not verify(resealed(document)).accepted


def test_the_two_routes_are_about_the_same_mechanisms_and_constants():
    offering = {name for name in mechanism_names() if resolve(name).no_intervals is None}
    assert offering == {*INFERRING, "auto"}
    assert (inference.CURVATURE, inference.SQUARES) == TOLD
    assert (inference.LONGEST, inference.CONSTANT, squared.RAMP) == (LONGEST, CONSTANT, RAMP)


@pytest.mark.together
@each_case
def test_the_recomputation_finds_the_planned_parameter(case):
    statement = document_of(case)["certificate"]
    evidence = Evidence(statement, Facts.of(statement))
    assert inference_mu(evidence) == pytest.approx(statement["inference"]["mu"], rel=1e-9)
    assert evidence.faults == []
    shares = statement["inference"]["share"]
    assert 0 < shares < 1
    assert math.isclose(shares, inference.SQUARES_SHARE if "adassp" in case else inference.SHARE)


def test_a_descent_that_clips_by_rule_does_not_for_intervals():
    document = document_of("dp-gd, intervals")
    part = document["certificate"]["mechanism"]
    assert part["asked"]["settings"]["clip"] == "auto"
    assert part["used"]["clip"] is None
    part["used"]["clip"] = document_of("dp-gd")["certificate"]["mechanism"]["used"]["clip"]
    assert part["used"]["clip"] > 0
    assert not verify(sealed(document)).accepted


def test_a_file_without_it_has_no_word_of_it():
    document = document_of("objective, removable")
    assert "inference" not in document
    assert "inference" not in document["certificate"]
    assert document["parameters"]["inference"] is False
