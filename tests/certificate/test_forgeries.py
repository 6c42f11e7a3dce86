"""A certificate that was edited is rejected, although the forger recomputed its digest."""

import copy
import json
import random

import pytest
from certified_models import CASES, NO_GUARANTEE, document_of, sealed

from dperm.certificate import verify
from dperm.certificate.verify import FORMULA, REPLANNED, SECOND

GUARANTEED = [case for case in CASES if case not in NO_GUARANTEE]
# What the guarantee does not rest on: versions, the ledger's own reference, and the digest, which the forger mends.
FREE = {("certificate", "libraries"), ("certificate", "model", "ledger_entry"), ("certificate", "digest")}
EDITED = ("certificate", "parameters", "coefficients", "intercept", "classes", "estimator")
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
    chosen = rng.choice(list(places({name: document[name] for name in EDITED})))
    *parents, key = chosen
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[key] = another(inner[key], rng)
    return "/".join(map(str, chosen)), inner[key]


def accepted_edits(seed, count, cases):
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        case = rng.choice(cases)
        document = document_of(case)
        place, value = edit(document, rng)
        verdict = verify(sealed(document))
        if verdict.accepted or verdict.guarantee is not None or not verdict.failures:
            found.append((case, place, value))
    return found


QUICK = [case for case in GUARANTEED if "sgd" not in case and "svrg" not in case]


def test_the_forger_s_tool_leaves_an_honest_file_accepted():
    for case in QUICK[:5]:
        assert verify(sealed(document_of(case))).accepted


def test_a_hundred_random_edits_are_rejected():
    assert accepted_edits(1, 120, QUICK) == []


@pytest.mark.slow
def test_a_thousand_random_edits_are_rejected():
    assert accepted_edits(2, 1000, GUARANTEED) == []


def test_an_edit_without_a_new_digest_is_named_as_such():
    document = document_of("output")
    document["certificate"]["assumptions"][0] = "Nothing."
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
    return sealed(document)


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
    if certificate["centring"]:
        certificate["centring"]["mu"] /= 0.9


def more_rows(parameters, certificate, problem):
    problem["n_rows"] *= 2
    if parameters["max_rows"]:
        parameters["max_rows"] *= 2


def shorter_rows(parameters, certificate, problem):
    for part in (parameters, problem):
        part["x_norm"] *= 0.5
    problem["intercept"] *= 0.5
    problem["row_norm"] *= 0.5


LOOSE = ("amp", "objective-kst, paper", "objective, paper", "dp-gd, paper", "dp-sgd-adv", "output, paper")


@pytest.mark.parametrize("change", [smaller_epsilon, smaller_delta, less_noise])
@pytest.mark.parametrize("case", [c for c in GUARANTEED if not c.startswith(LOOSE) and "paper" not in c])
def test_a_consistent_forgery_does_not_recompute(case, change):
    """The second accountant, or a formula, says no before anything is planned again."""
    document = document_of(case)
    if document["certificate"]["budget"]["delta"] == 0 and change is smaller_delta:
        return
    verdict = verify(everywhere(document, change))
    assert not verdict.accepted
    assert {check.route for check in verdict.checks if not check.passed} <= {FORMULA, SECOND}, (
        verdict.failures
    )


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
    assert {check.route for check in verdict.checks if not check.passed} <= {FORMULA, REPLANNED}
    if case in ("output", "rsgd-ar", "noisy-sgd", "bolt-on", "objective", "objective, centred"):
        assert {check.route for check in verdict.checks if not check.passed} == {FORMULA}


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
        document = document_of(rng.choice(QUICK))
        before = copy.deepcopy(document)
        *parents, key = rng.choice(list(places({name: document[name] for name in EDITED})))
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[key] = rng.choice(HOSTILE)
        if json.dumps(document) != json.dumps(before):
            verdict = verify(sealed(document))
            assert not verdict.accepted, (parents, key, inner[key])


@pytest.mark.parametrize(
    "document", [{}, [], None, {"certificate": None}, {"certificate": []}, {"certificate": {}}]
)
def test_what_is_no_certificate_is_rejected(document):
    verdict = verify(document)
    assert not verdict.accepted
    assert verdict.guarantee is None
