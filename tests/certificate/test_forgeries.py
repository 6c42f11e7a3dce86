"""A certificate that was edited is rejected, although the forger recomputed its digest."""

import copy
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from certified_models import CASES, NO_GUARANTEE, document_of, sealed

from dperm import PrivateLogisticRegression
from dperm.certificate import verify
from dperm.certificate.assumptions import Assumption, Code
from dperm.certificate.constants import Facts, grid_exponent
from dperm.certificate.statement import mechanism_of, model_digest, problem_of
from dperm.certificate.verdict import FORMULA, REPLANNED, SECOND, STRUCTURE
from dperm.losses import Logistic, Weighted
from dperm.mechanisms import DPGD
from dperm.models import read_document, save_model
from dperm.privacy import Budget

GUARANTEED = [case for case in CASES if case not in NO_GUARANTEE]
# What the guarantee does not rest on: versions, the ledger's own reference, and the digest, which the forger mends.
FREE = {("certificate", "libraries"), ("certificate", "model", "ledger_entry"), ("certificate", "digest")}
EDITED = (
    "certificate",
    "parameters",
    "coefficients",
    "intercept",
    "classes",
    "row_map",
    "estimator",
    "inference",
)
WORDS = [
    "add-remove",
    "replace-one",
    "logistic",
    "huber-hinge",
    "output",
    "dp-gd",
    "tight",
    "paper",
    "declared",
    "",
]


def places(value, path=()):
    """Every leaf and every list, by its path."""
    if any(path[: len(free)] == free for free in FREE):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
        return
    if isinstance(value, list):
        for key, inner in enumerate(value):
            yield from places(inner, (*path, key))
        if not value:
            return
    yield path


def another(value, rng):
    """A value of the same kind that is not the same."""
    if isinstance(value, list):
        kept = list(value)
        del kept[rng.randrange(len(kept))]
        return kept
    if isinstance(value, bool):
        return not value
    if value is None:
        return rng.choice([1, 0.5, "x", True])
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, 2 * value + 1, value // 2 - 1])
    if isinstance(value, float):
        nudge = 1 + rng.choice([-1, 1]) * 1e-6
        factor = rng.choice([nudge, 2 ** rng.uniform(-2, 2), 1.01, 0.99])
        return value * factor if value else 1e-3
    return rng.choice([word for word in WORDS if word != value])


def edit(document, rng):
    """Change one thing; tell where."""
    chosen = rng.choice(list(places({name: document[name] for name in EDITED if name in document})))
    put(document, chosen, another(at(document, chosen), rng))
    return [(chosen, at(document, chosen))]


# Edits that tell of another setting than was used, where noise and price do not rest on it. The claim stays what it was
# and stays true: a fit with what is stated would have been given the same noise.
HARMLESS = [
    {("parameters", "l2"), ("certificate", "problem", "l2")},
    {("parameters", "positive")},  # which of the two classes is told of first
    {
        ("parameters", "residual_bound")
    },  # of a loss by name, where a loss was given that has a bound of its own
    {("parameters", "class_weight")},  # without the lighter class: the price is that of the heaviest
    {("parameters", "class_weight", 0, 1)},  # nor of how light it is
    {("parameters", "sample_weight_bound")},  # 1, which is that of rows without weights
    {("parameters", "y_range", 0), ("certificate", "targets", "low")},  # targets are divided by their range
    {("parameters", "y_range", 1), ("certificate", "targets", "high")},
]


def harmless(case, edits, verdict):
    honest = verify(document_of(case))
    same_price = verdict.price.delta(verdict.claim["epsilon"]) == honest.price.delta(honest.claim["epsilon"])
    return {place for place, _ in edits} in HARMLESS and verdict.claim == honest.claim and same_price


def accepted_edits(seed, count, cases, change=edit):
    """The edits that were not rejected, although something was changed that could do harm."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        case = rng.choice(cases)
        document = document_of(case)
        edits = change(document, rng)
        verdict = verify(sealed(document))
        rejected = not verdict.accepted and verdict.guarantee is None and verdict.failures and not verdict.ok
        if not rejected and not harmless(case, edits, verdict):
            found.append((case, edits))
    return found


def edit_two(document, rng):
    """Change two things: any two, or every second time two of the same value in the same way."""
    found = list(places({name: document[name] for name in EDITED if name in document}))
    first, second = rng.sample(found, 2)
    if rng.random() < 0.5:
        first = rng.choice(found)
        alike = [place for place in found if place != first and at(document, place) == at(document, first)]
        if alike:
            second = rng.choice(alike)
            value = another(at(document, first), rng)
            for place in (first, second):
                put(document, place, copy.deepcopy(value))
            return [(first, value), (second, value)]
    values = [another(at(document, place), rng) for place in (first, second)]
    for place, value in sorted(zip((first, second), values, strict=True), key=lambda one: -len(one[0])):
        put(document, place, value)  # the inner one first, in case a list above it gets shorter
    return list(zip((first, second), values, strict=True))


def at(document, place):
    for key in place:
        document = document[key]
    return document


def put(document, place, value):
    at(document, place[:-1])[place[-1]] = value


QUICK = [case for case in GUARANTEED if "sgd" not in case and "svrg" not in case]


def test_the_forger_s_tool_leaves_an_honest_file_accepted():
    for case in QUICK[:5]:
        assert verify(sealed(document_of(case))).accepted


def test_a_hundred_random_edits_are_rejected():
    assert accepted_edits(1, 120, QUICK) == []


def test_fifty_edits_of_two_fields_are_rejected():
    assert accepted_edits(4, 50, QUICK, edit_two) == []


@pytest.mark.slow
def test_a_thousand_random_edits_are_rejected():
    assert accepted_edits(2, 1000, GUARANTEED) == []


@pytest.mark.slow
def test_two_hundred_edits_of_two_fields_are_rejected():
    assert accepted_edits(5, 200, GUARANTEED, edit_two) == []


@pytest.mark.together
@pytest.mark.parametrize(("positive", "fits"), [(1, True), (True, False), (2, False), (1.0, False)])
def test_the_positive_class_is_one_of_the_labels_and_of_their_type(positive, fits):
    document = document_of("rsgd-ar")
    assert document["classes"] == [0, 1]
    document["parameters"]["positive"] = positive
    assert verify(sealed(document)).accepted is fits


def test_an_edit_without_a_new_digest_is_named_as_such():
    document = document_of("output")
    document["certificate"]["assumptions"][0] = Assumption.of(Code.MECHANISM, line="Nothing.").to_dict()
    (failure,) = verify(document).failures
    assert "digest" in failure


def test_coefficients_of_another_model_are_noticed():
    document = document_of("output")
    document["coefficients"] = [value + 1e-9 for value in document["coefficients"]]
    (failure,) = verify(document).failures
    assert "coefficients" in failure


def everywhere(document, change):
    """Apply a change to the parts of the document at once, as a careful forger would."""
    certificate = document["certificate"]
    change(document["parameters"], certificate, certificate["problem"])
    restate_loss(certificate)
    document["row_map"] |= {name: certificate["problem"][name] for name in ("x_norm", "intercept")}
    certificate["model"]["sha256"] = model_digest(document)
    return sealed(document)


def restate_loss(certificate):
    """The softly clipped loss that the rule gives for what is stated now, where a rule chose it."""
    problem = problem_of(certificate)
    if problem.loss.unweighted.name != "soft-clipped-logistic":
        return
    asked = mechanism_of(certificate["mechanism"]["asked"])
    plain = Weighted(Logistic(), problem.loss.bound) if isinstance(problem.loss, Weighted) else Logistic()
    loss = asked.trained_loss(replace(problem, loss=plain), Budget(**certificate["budget"]))
    if loss.name != problem.loss.name:
        return  # a loss that the user gave
    certificate["problem"] |= {
        "loss_parameters": [float(value) for value in loss.parameters],
        "lipschitz": loss.lipschitz,
        "smoothness": loss.smoothness,
    }
    if "clip" in certificate["mechanism"]["used"] and certificate["mechanism"]["chosen"]["name"] != "dp-gd":
        certificate["mechanism"]["used"]["clip"] = loss.unweighted.clip


def smaller_epsilon(parameters, certificate, problem):
    for part in (parameters, certificate["guarantee"], certificate["budget"]):
        part["epsilon"] *= 0.9


def smaller_delta(parameters, certificate, problem):
    for part in (parameters, certificate["guarantee"], certificate["budget"]):
        part["delta"] *= 0.01


def less_noise(parameters, certificate, problem):
    for release in certificate["releases"]:
        release["noise_scale"] *= 0.9
    certificate["planned"]["noise_scale"] *= 0.9
    for name in ("objective_noise", "output_noise", "noise_multiplier"):
        if name in certificate["mechanism"]["used"]:
            certificate["mechanism"]["used"][name] *= 0.9
    if certificate["standardisation"]:
        standardisation = certificate["standardisation"]
        standardisation["mu"] /= 0.9
        standardisation["noise_scales"] = [0.9 * scale for scale in standardisation["noise_scales"]]
    if "inference" in certificate:
        part = certificate["inference"]
        part["mu"], part["noise_scale"] = part["mu"] / 0.9, 0.9 * part["noise_scale"]
        part["moments"] = part["moments"] and [0.9 * scale for scale in part["moments"]]


def more_rows(parameters, certificate, problem):
    problem["n_units"] *= 2
    if parameters["max_rows"]:
        parameters["max_rows"] *= 2


def shorter_rows(parameters, certificate, problem):
    for part in (parameters, problem):
        part["x_norm"] *= 0.5
    problem["intercept"] *= 0.5
    problem["row_norm"] *= 0.5


def lighter_rows(parameters, certificate, problem):
    """Rows that weigh less than they did."""
    parameters["class_weight"] = [[label, weight / 2] for label, weight in parameters["class_weight"]]
    unnamed = [1.0] * (certificate["targets"]["count"] > len(parameters["class_weight"]))
    factor = max([*unnamed, *(weight for _, weight in parameters["class_weight"])])
    if parameters["person_loss"] == "sum":
        factor *= parameters["max_rows_per_person"]
    before = problem["loss_parameters"][0]
    problem["loss_parameters"][0] = factor
    for name in ("lipschitz", "smoothness"):
        problem[name] *= factor / before


@pytest.mark.together
@pytest.mark.parametrize("case", [case for case in GUARANTEED if "weighted" in case])
def test_rows_said_to_be_lighter_are_noticed(case):
    verdict = verify(everywhere(document_of(case), lighter_rows))
    assert not verdict.accepted
    assert routes_of(verdict, document_of(case)) <= {FORMULA, SECOND, REPLANNED}
    document = document_of(case)
    document["parameters"]["class_weight"] = [[0, 1.0], [1, 1.0]]
    failed = verify(sealed(document)).failures
    assert any("loss is not that of the estimator" in failure for failure in failed)


def routes_of(verdict, document):
    """What said no; that a clip by rule is another one by the forged facts is left out."""
    routes = {check.route for check in verdict.checks if not check.passed}
    settings = document["certificate"]["mechanism"]["asked"]["settings"]
    return routes - {STRUCTURE} if settings.get("clip") == "auto" else routes


LOOSE = ("amp", "objective-kst, paper", "objective, paper", "dp-gd, paper", "dp-sgd-adv", "output, paper")


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("change", [smaller_epsilon, smaller_delta, less_noise])
@pytest.mark.parametrize("case", [c for c in GUARANTEED if not c.startswith(LOOSE) and "paper" not in c])
def test_a_consistent_forgery_does_not_recompute(case, change):
    """The second accountant, or a formula, says no before anything is planned again."""
    document = document_of(case)
    if document["certificate"]["budget"]["delta"] == 0 and change is smaller_delta:
        return
    verdict = verify(everywhere(document, change))
    assert not verdict.accepted
    assert routes_of(verdict, document) <= {FORMULA, SECOND}, verdict.failures


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("change", [more_rows, shorter_rows])
@pytest.mark.parametrize("case", GUARANTEED)
def test_other_constants_are_noticed(case, change):
    """Noise on sums does not depend on the number of rows; then the rules that do depend on it give it away.

    Frank-Wolfe counts its ball in units of the rows, so the same noise really is right for rows half as long.
    """
    if case.startswith("frank-wolfe") and change is shorter_rows:
        return
    verdict = verify(everywhere(document_of(case), change))
    assert not verdict.accepted
    routes = routes_of(verdict, document_of(case))
    assert routes <= {FORMULA, REPLANNED}
    if case in ("output", "rsgd-ar", "noisy-sgd", "bolt-on", "objective", "objective, standardised"):
        assert routes == {FORMULA}


@pytest.mark.together
@pytest.mark.parametrize("case", NO_GUARANTEE)
def test_no_guarantee_can_be_put_in(case):
    document = document_of(case)
    certificate = document["certificate"]
    certificate["guarantee"], certificate["reason"] = dict(certificate["budget"]), None
    assert not verify(sealed(document)).accepted
    certificate = document["certificate"]
    certificate["entropy"] = {"source": "operating system", "secure": True}
    certificate["certified_arithmetic"] = True
    document["parameters"]["random_state"] = None
    # A seeded model whose author lies about the seed cannot be told from an honest one; all others can.
    assert verify(sealed(document)).accepted == (case == "seeded")


HOSTILE = [
    None,
    True,
    -1,
    0,
    10**30,
    -(10**19),
    1e308,
    5e-324,
    -0.0,
    "",
    "\x00",
    "é" * 50,
    [],
    [[]],
    {},
    {"a": {}},
]


def test_hostile_values_are_rejected_and_raise_nothing():
    rng = random.Random(3)
    for _ in range(300):
        case = rng.choice(QUICK)
        document = document_of(case)
        before = copy.deepcopy(document)
        *parents, key = rng.choice(
            list(places({name: document[name] for name in EDITED if name in document}))
        )
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[key] = rng.choice(HOSTILE)
        if json.dumps(document) != json.dumps(before):
            verdict = verify(sealed(document))
            place = (*parents, key)
            allowed = verdict.accepted and harmless(case, [(place, inner[key])], verdict)
            assert allowed or not verdict.accepted, (place, inner[key])


@pytest.mark.together
@pytest.mark.parametrize(
    "document", [{}, [], None, {"certificate": None}, {"certificate": []}, {"certificate": {}}]
)
def test_what_is_no_certificate_is_rejected(document):
    verdict = verify(document)
    assert not verdict.accepted
    assert verdict.guarantee is None


def restated(release, sensitivity, rows=None):
    """The same release at the same price, said to have moved by something else: less noise for the same claim."""
    before = dict(release)
    choice = release["grid_exponent"] == -1074
    release["sensitivity"] = sensitivity
    exponent = -1074 if choice else grid_exponent(sensitivity, release["dimension"])
    release["grid_exponent"] = exponent
    width = 0.0 if choice else 2.0**exponent * release["dimension"] ** 0.5
    release["padded_sensitivity"] = sensitivity * (1 + 1e-9) + width
    unit = (lambda r: r["padded_sensitivity"]) if rows is None else (lambda r: padded_row(r, rows))
    release["noise_scale"] *= unit(release) / unit(before)


def padded_row(release, rows):
    width = 2.0 ** release["grid_exponent"] * release["dimension"] ** 0.5
    return release["sensitivity"] / rows * (1 + 1e-9) + width


def test_restating_a_release_as_it_is_changes_nothing():
    """The forger's tool does not give itself away by clumsy arithmetic."""
    for case, rows in (
        ("dp-agd", None),
        ("dp-gd", None),
        ("dp-gd, no clip", None),
        ("dp-svrg", 2),
        ("dp-gd, split, standardised", None),
    ):
        document = document_of(case)
        for release in document["certificate"]["releases"]:
            restated(release, release["sensitivity"], rows if "correction" in release["name"] else None)
        assert verify(sealed(document)).ok


@pytest.mark.together
@pytest.mark.parametrize("factor", [1e-15, 0.1, 0.999])
def test_step_choices_of_too_small_a_sensitivity_are_rejected(factor):
    document = document_of("dp-agd")
    for release in document["certificate"]["releases"]:
        if release["name"] == "dp-agd step":
            restated(release, release["sensitivity"] * factor)
    (failure,) = verify(sealed(document)).failures
    assert "sensitivity" in failure


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_steps_may_not_be_said_to_have_become_short_early(share):
    """Longest steps shrink to one of the candidates, after ten steps were taken, and never before."""
    document = document_of("dp-agd")
    choices = [r for r in document["certificate"]["releases"] if r["name"] == "dp-agd step"]
    for release in choices[int(share * 10) + 1 :]:
        restated(release, release["sensitivity"] * 1.1 / 20)
    assert not verify(sealed(document)).accepted


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("case", ["dp-svrg", "dp-svrg, regression"])
@pytest.mark.parametrize("only", [None, 0, 1])
def test_corrections_without_noise_are_rejected(case, only):
    """Some or all of the corrections are said to be made at weights that have not moved from the anchor."""
    document = document_of(case)
    facts = Facts.of(document["certificate"])
    corrections = [r for r in document["certificate"]["releases"] if r["name"] == "dp-svrg correction"]
    before = corrections[0]["noise_scale"]
    for release in corrections if only is None else corrections[only::2]:
        restated(release, 2 * facts.rows * facts.sum_error() * (1 + 1e-8), facts.rows)
    if only != 1:
        assert corrections[0]["noise_scale"] < 1e-6 * before
    verdict = verify(sealed(document))
    assert "closer together than the noise leaves them" in verdict.failures[0]


@pytest.mark.together
@pytest.mark.parametrize(
    "case", ["dp-gd, no clip", "dp-gd, removable", "dp-gd, split, standardised", "one feature"]
)
def test_steps_all_stated_at_zero_weights_are_rejected(case):
    document = one_feature() if case == "one feature" else document_of(case)
    steps = [r for r in document["certificate"]["releases"] if r["name"] == "dp-gd gradient"]
    assert len(steps) > 3
    for release in steps[1:]:
        restated(release, steps[0]["sensitivity"])
    verdict = verify(sealed(document))
    assert "closer together than the noise leaves them" in verdict.failures[0]


def one_feature():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 1))
    mechanism = DPGD(steps=12, clip=None)
    model = PrivateLogisticRegression(mechanism=mechanism, fit_intercept=False).fit(X, X[:, 0] > 0)
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "m.json")
        return read_document(Path(folder) / "m.json")


def test_releases_in_another_order_are_rejected():
    for case in (
        "dp-agd",
        "dp-svrg",
        "dp-gd, split, standardised",
        "objective, standardised",
        "objective",
        "adassp",
    ):
        document = document_of(case)
        document["certificate"]["releases"].append(document["certificate"]["releases"].pop(0))
        assert not verify(sealed(document)).accepted, case


def test_coefficients_of_another_number_are_noticed():
    """The forger repairs every digest and forgets that the certificate is about three features."""
    document = document_of("output")
    document["coefficients"].append(0.5)
    document["certificate"]["model"]["sha256"] = model_digest(document)
    (failure,) = verify(sealed(document)).failures
    assert "n_features" in failure


def test_assumptions_cannot_be_left_out():
    for gone in (0, 1):
        document = document_of("output")
        certificate = document["certificate"]
        certificate["assumptions"].remove(certificate["around"].pop(gone))
        (failure,) = verify(sealed(document)).failures
        assert "around" in failure
