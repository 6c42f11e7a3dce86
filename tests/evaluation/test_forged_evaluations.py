"""What somebody who edits an evaluation file, and mends its digest, might try: every one is refused when it is read."""

import json

import pytest
from stated_cases import document_of, edited, signed

from dperm import read_evaluation, read_mean_predictions
from dperm.errors import InvalidInput

BUDGETS = {
    "smaller": (0.01, 1e-6),
    "below zero": (-3.0, 1e-6),
    "smaller delta": (1.0, 1e-9),
    "above one": (1.0, 2.0),
}


def relabelled():
    """Exact figures with the promise and the release of a private evaluation."""
    exact, private = document_of("local"), document_of("two classes")
    stolen = ("local", "private", "budget", "relation", "release", "notes")
    document = {**exact, **{name: private[name] for name in stolen}}
    return signed({name: None if name == "table_rows" else value for name, value in document.items()})


def as_exact(name):
    """A private evaluation that passes for exact figures."""
    document = document_of(name)
    return signed({**document, "local": True, "private": False, "notes": document_of("local")["notes"]})


def emptied(name):
    """The same without what only a release has."""
    document = as_exact(name)
    gone = dict.fromkeys(("budget", "relation", "release", "ledger_entry", "row_count", "max_rows"))
    told = {name: 3000 for name in ("rows", "table_rows") if name in document}
    return signed({**document, **gone, **told})


EVALUATION = document_of("two classes")
SEEDED = edited(document_of("seeded"), ["release", "secure"], True)
FORGED = {
    **{
        f"budget {name}": edited(EVALUATION, ["budget"], {"epsilon": epsilon, "delta": delta})
        for name, (epsilon, delta) in BUDGETS.items()
    },
    "noise of 1e-9": edited(EVALUATION, ["release", "noise_scale"], 1e-9),
    "half the noise": edited(EVALUATION, ["release", "noise_scale"], lambda scale: scale / 2),
    "twice the noise": edited(EVALUATION, ["release", "noise_scale"], lambda scale: scale * 2),
    "smaller sensitivity": edited(EVALUATION, ["release", "sensitivity"], 0.1),
    "another grid": edited(EVALUATION, ["release", "grid_exponent"], -40),
    "a number off the grid": edited(EVALUATION, ["release", "numbers", 0], lambda number: number + 2.0**-30),
    "a number less": edited(EVALUATION, ["release", "numbers"], lambda numbers: numbers[:-1]),
    "relation nobody": edited(EVALUATION, ["relation"], "nobody"),
    "other relation": signed({**EVALUATION, "relation": "add-remove", "rows": None, "max_rows": 9000}),
    "rows less than none": edited(EVALUATION, ["rows"], -3),
    "max_rows beside rows": edited(EVALUATION, ["max_rows"], 9000),
    "accuracy": edited(
        EVALUATION, ["metrics", "accuracy"], {"estimate": 0.99, "low": 0.98, "high": 1.0, "noise": 0.001}
    ),
    "a metric less": edited(
        EVALUATION, ["metrics"], lambda metrics: {name: metrics[name] for name in metrics if name != "auc"}
    ),
    "confusion": edited(EVALUATION, ["confusion", 0], lambda line: line[::-1]),
    "rates": edited(EVALUATION, ["rates"], lambda rates: rates[::-1]),
    "roc": edited(EVALUATION, ["roc"], []),
    "calibration": edited(EVALUATION, ["calibration"], lambda groups: groups[:-1]),
    "row count": edited(
        document_of("two classes, hidden rows"),
        ["row_count"],
        {"estimate": 9e3, "low": 9e3, "high": 9e3, "noise": 0.0},
    ),
    "notes": edited(EVALUATION, ["notes"], ["Approved by the data protection officer."]),
    "no notes": edited(EVALUATION, ["notes"], []),
    "model": edited(EVALUATION, ["model", "sha256"], "this very model"),
    "library": edited(EVALUATION, ["library"], "<b>dperm</b>"),
    "ledger entry": edited(EVALUATION, ["ledger_entry"], "paid in full"),
    "entropy": edited(EVALUATION, ["release", "entropy"], "dice"),
    "seeded as private": signed({**SEEDED, "private": True, "notes": SEEDED["notes"][1:]}),
    "exact figures as private": relabelled(),
    "private as exact": as_exact("two classes"),
    "private as exact, emptied": emptied("two classes"),
    "hidden as exact, emptied": emptied("two classes, hidden rows"),
    "exact with a budget": edited(document_of("local"), ["budget"], {"epsilon": 1.0, "delta": 1e-6}),
    "exact with a charge": edited(
        document_of("local"), ["ledger_entry"], f"ledger {'0' * 32}, charge 1, head {'0' * 64}"
    ),
    "exact with a note of its own": edited(document_of("local"), ["notes"], []),
    "error bound": edited(document_of("regression, hidden rows"), ["release", "error_bound"], 0.1),
    "no error bound": edited(document_of("regression, hidden rows"), ["release", "error_bound"], None),
    "range": edited(document_of("regression"), ["y_range"], [-0.1, 0.1]),
    "a regression with bins": edited(document_of("regression"), ["release", "bins"], 8),
}
MEANS = document_of("means")
FORGED_MEANS = {
    **{
        f"budget {name}": edited(MEANS, ["budget"], {"epsilon": epsilon, "delta": delta})
        for name, (epsilon, delta) in BUDGETS.items()
    },
    "sensitivity": edited(MEANS, ["release", "sensitivity"], 0.1),
    "another grid": edited(MEANS, ["release", "grid_exponent"], -40),
    "a number off the grid": edited(MEANS, ["release", "numbers", 5], lambda number: number + 2.0**-30),
    "notes": edited(MEANS, ["notes"], ["Approved."]),
    "model": edited(MEANS, ["model", "sha256"], ""),
    "ledger entry": edited(MEANS, ["ledger_entry"], "paid in full"),
    "max_rows beside rows": edited(MEANS, ["max_rows"], 9000),
    "entropy": edited(MEANS, ["release", "entropy"], "dice"),
    "probabilities beyond 1": edited(MEANS, ["range"], [0.0, 2.0]),
}
NEW = {
    "persons": lambda: edited(EVALUATION, ["unit"], "person"),
    "nobody": lambda: edited(EVALUATION, ["unit"], "nobody"),
    "rows of persons": lambda: edited(EVALUATION, ["table_rows"], 9000),
    "parts": lambda: edited(EVALUATION, ["release", "parts", 0, "weights"], [0.5]),
    "part sizes": lambda: edited(EVALUATION, ["release", "parts", 1, "size"], 2**40),
    "steps": lambda: edited(EVALUATION, ["release", "parts", 0, "step"], 1.0),
    "no probabilities": lambda: edited(EVALUATION, ["release", "probabilities"], False),
    "scales": lambda: edited(EVALUATION, ["release", "scales", 0, "spread"], lambda spread: 2 * spread),
    "no spread": lambda: edited(EVALUATION, ["release", "scales", 0, "spread"], 0.0),
    "no scales": lambda: edited(EVALUATION, ["release", "scales"], []),
    "no line": lambda: edited(EVALUATION, ["release", "scales", 0, "line"], None),
    "bins by default": lambda: edited(document_of("two classes, 8 bins"), ["release", "default_bins"], True),
    "persons as rows": lambda: edited(document_of("two classes, persons"), ["unit"], "row"),
    "exact persons as rows": lambda: edited(document_of("local, persons"), ["unit"], "row"),
    "fewer rows than persons": lambda: edited(document_of("local, persons"), ["table_rows"], 1),
}


def written(tmp_path, document):
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.together
@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_evaluation_is_refused(tmp_path, forgery):
    with pytest.raises(InvalidInput, match=r"forged\.json is not a usable evaluation: "):
        read_evaluation(written(tmp_path, FORGED[forgery]))


@pytest.mark.together
@pytest.mark.parametrize("forgery", NEW)
def test_a_forgery_of_what_figures_are_made_of_is_refused(tmp_path, forgery):
    with pytest.raises(InvalidInput, match=r"forged\.json is not a usable evaluation: "):
        read_evaluation(written(tmp_path, NEW[forgery]()))


@pytest.mark.together
@pytest.mark.parametrize("forgery", FORGED_MEANS)
def test_forged_means_are_refused(tmp_path, forgery):
    with pytest.raises(InvalidInput, match=r"forged\.json is not a usable file of mean predictions: "):
        read_mean_predictions(written(tmp_path, FORGED_MEANS[forgery]))


def test_the_same_edits_that_change_nothing_are_read(tmp_path):
    """The control: it is not the editing that is refused."""
    for name in ("two classes", "two classes, hidden rows", "regression", "local"):
        again = read_evaluation(written(tmp_path, edited(document_of(name), ["library"], "0.0.1")))
        assert again.library == "0.0.1"
    assert read_mean_predictions(written(tmp_path, edited(MEANS, ["by"], "station"))).by == "station"
