"""What docs/model-selection.md says in numbers: the noise of a candidate, and by which law candidates are counted."""

import re
from pathlib import Path

import pytest

from dperm.privacy import Budget, gaussian_mu
from dperm.privacy.selection import SHAPES, cheapest_selection

PAGE = (Path(__file__).parents[2] / "docs" / "model-selection.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\w+) \|$", PAGE, re.MULTILINE)


def test_the_table_is_found():
    assert [row[0] for row in ROWS] == ["3", "10", "30", "100"]


@pytest.mark.together
@pytest.mark.parametrize("row", ROWS)
def test_the_noise_of_a_candidate_is_as_printed(row):
    mean, *printed, law = row
    for epsilon, times in zip((0.1, 1.0), printed, strict=True):
        budget = Budget(epsilon, 1e-8)
        plan = cheapest_selection(budget, float(mean))
        assert f"{gaussian_mu(budget) / plan.mu:.2f}" == times
        assert plan.runs.shape == SHAPES[law.lower()]
