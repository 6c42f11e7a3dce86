"""A statement about persons cannot be made of one about rows, nor the other way round."""

import copy

import numpy as np
import pytest
from certified_models import CASES, document_of, sealed

from dperm import PrivateLogisticRegression
from dperm.certificate import verify
from dperm.certificate.constants import Facts

PERSONS = [case for case in CASES if "persons" in case]


@pytest.mark.together
@pytest.mark.parametrize("case", PERSONS)
def test_a_model_of_persons_is_confirmed_for_persons(case):
    document = document_of(case)
    assert document["certificate"]["unit"] == "one person"
    verdict = verify(document, unit="person")
    assert verdict.ok, verdict.failures
    assert verify(document_of("output"), unit="person").ok is False
    hidden = (
        document["certificate"]["relation"] == "add-remove"
    )  # to take away one of several rows removes nobody
    assert verify(document, unit="row").ok is not hidden


def test_a_model_of_rows_cannot_be_passed_off_as_one_of_persons():
    """Its noise is for one row: with the words of persons the numbers do not follow, or the parts do not agree."""
    for part in (
        {},
        {"persons": {"loss": "mean", "rows_per_person": 1}},
        {"persons": {"loss": "mean", "rows_per_person": 9}},
    ):
        document = document_of("output")
        document["certificate"] |= {"unit": "one person", **part}
        assert not verify(sealed(document)).accepted


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("case", PERSONS)
@pytest.mark.parametrize(
    "edit",
    [
        lambda stated: stated["certificate"].pop("persons"),
        lambda stated: stated["certificate"].update(unit="one row"),
        lambda stated: stated["certificate"]["persons"].update(rows_per_person=2),
        lambda stated: stated["certificate"]["persons"].update(loss="median"),
        lambda stated: stated["certificate"]["persons"].update(more=1),
        lambda stated: stated["certificate"]["problem"].update(n_units=10_000),
        lambda stated: stated["parameters"].update(max_rows_per_person=7),
    ],
    ids=["no part", "unit", "bound", "loss", "key", "number", "parameter"],
)
def test_no_part_can_be_changed(case, edit):
    document = copy.deepcopy(document_of(case))
    edit(document)
    assert not verify(sealed(document)).accepted


def test_rounding_is_that_of_all_rows_a_person_may_have():
    stated = document_of("auto, persons")["certificate"]
    facts = Facts.of(stated)
    assert facts.many_rows
    alone = Facts.of({**{key: value for key, value in stated.items() if key != "persons"}})
    assert facts.adding(1e6) > 100 * alone.adding(1e6)


def test_a_threshold_that_hides_rows_is_no_part_of_a_model_that_protects_persons():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) / 3
    y = (X[:, 0] > 0).astype(int)
    tuned = PrivateLogisticRegression(mechanism="output", classes=[0, 1]).fit(X, y)
    tuned.tune_threshold(X, y, epsilon=0.5, delta=1e-7)
    threshold = {"thresholds": [tuned.threshold_.to_dict()]}
    verdict = verify(sealed(document_of("auto, persons") | threshold))
    assert any("neighbours and unit must be those of the certificate" in line for line in verdict.failures)
