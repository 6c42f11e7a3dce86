"""Reports, plans and cautions of models that protect one person."""

import numpy as np
import pytest

from dperm import PrivacyWarning, PrivateLogisticRegression, UtilityWarning
from dperm.errors import InvalidInput

rng = np.random.default_rng(2)
X = rng.uniform(-0.5, 0.5, size=(120, 3))
Y = (X[:, 0] > 0).astype(int)
PATIENT = np.arange(120) // 2


def model(**settings):
    return PrivateLogisticRegression(**{"mechanism": "output", "classes": [0, 1], **settings})


def fitted(**settings):
    return model(**settings).fit(X, Y, groups=PATIENT)


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({}, "by the mean over their rows, the first 1,048,576 at most"),
        ({"max_rows_per_person": 3}, "by the mean over their rows, the first 3 at most"),
        ({"person_loss": "sum", "max_rows_per_person": 2}, "by the sum over their rows, the first 2 at most"),
        ({"max_rows_per_person": 1}, "by their first row"),
    ],
)
def test_a_report_and_a_plan_say_whom_they_protect_and_how_rows_count(settings, counts):
    report = fitted(**settings).privacy_
    assert report.unit == report.to_dict()["unit"] == "one person"
    head, *lines = str(report).splitlines()
    assert head == "(1, 1e-06)-differentially private for one person, replace-one neighbours"
    assert f"  persons      60, each counts {counts}" in lines
    assert "  rows         feature norm at most 1, whole row 1.04403" in lines
    assert head in report._repr_html_()
    assert f"60, each counts {counts}" in report._repr_html_()
    plan = str(model(**settings).plan(120, 3, n_persons=60))
    assert plan.startswith(
        "Plan for (1, 1e-06)-differential privacy for one person, replace-one neighbours\n"
    )
    assert "  table        60 persons, rows of 3 features, feature norm at most 1\n" in plan
    assert f"  persons      each counts {counts}\n" in plan
    assert "rows weigh" not in plan


def test_a_model_for_rows_says_what_it_said():
    report = model().fit(X, Y).privacy_
    assert report.unit == "one row"
    assert str(report).startswith("(1, 1e-06)-differentially private, replace-one neighbours\n")
    assert "  rows         120, feature norm at most 1, whole row 1.04403\n" in str(report)
    assert "person " not in str(report).replace("One person contributes one row.", "")
    plan = str(model().plan(120, 3))
    assert "  table        120 rows of 3 features, feature norm at most 1\n" in plan
    assert "person" not in plan


def test_weights_of_rows_are_told_apart_from_how_persons_count():
    weighted = {"sample_weight_bound": 3.0, "person_loss": "sum", "max_rows_per_person": 2}
    assert "rows weigh at most 3," in str(model(**weighted).plan(120, 3, n_persons=60))
    told = model(**weighted).fit(X, Y, sample_weight=np.full(120, 2.0), groups=PATIENT).privacy_.assumptions
    assert sum("no row weighs more than 3," in str(line) for line in told) == 1
    assert sum("where rows have any" in str(line) for line in fitted().privacy_.assumptions) == 1


def test_cautions_count_persons():
    with pytest.warns(
        PrivacyWarning, match=r"1 / 60, one over the number of persons\. .* all rows of each person"
    ):
        told = fitted(delta=1 / 60).privacy_.assumptions
    assert any("one over the number of persons" in str(line) for line in told)
    with pytest.warns(UtilityWarning, match=r"the number of persons, 3, is below .* or more persons"):
        model().fit(X, Y, groups=np.arange(120) % 3)
    # a delta that is above one over the rows, and not above one over the persons, is one for rows only
    with pytest.warns(PrivacyWarning, match="1 / 120, one over the number of rows"):
        model(delta=1 / 100).fit(X, Y)
    fitted(delta=1 / 100)


def test_a_threshold_on_counts_of_rows_is_refused():
    with pytest.raises(InvalidInput, match="this model was trained by person"):
        fitted().tune_threshold(X, Y, epsilon=0.5, delta=1e-7)


def test_a_summary_takes_no_curvature_from_rows_whose_weight_nothing_tells():
    """Taken for 1 each, three rows that are added up would make "at least" three times too much."""
    many = np.tile(X, (10, 1)), np.tile(Y, 10)
    patient = np.arange(1200) // 3
    auto = {"mechanism": "auto", "random_state": 0}
    told = {
        "rows": model(**auto).fit(*many),
        "mean": model(**auto).fit(*many, groups=patient),
        "sum": model(**auto, person_loss="sum", max_rows_per_person=3).fit(*many, groups=patient),
        "weights": model(**auto, sample_weight_bound=3.0).fit(*many, sample_weight=np.full(1200, 3.0)),
    }
    sure = {name: fit.summary().sure for name, fit in told.items()}
    assert sure["rows"] == sure["mean"] == "at least"
    assert {sure["sum"], sure["weights"]} <= {"at most", "not known"}
