"""The table of noise on the page about evaluation is what the noise really adds."""

import re
from pathlib import Path

import numpy as np
import pytest

from dperm.evaluation.bins import DEFAULTS, default_bins
from dperm.evaluation.classifying import CONFUSION, LOSSES, class_constraints, class_design, loss_cap
from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import Z
from dperm.evaluation.planning import Plan
from dperm.neighbours import Neighbours
from dperm.privacy import Budget

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ±([\d.]+) \| ±([\d.]+) \|$", PAGE, re.MULTILINE)


def noise_of(n, epsilon):
    plan = Plan(
        design=class_design(2, DEFAULTS[0], True),
        budget=Budget(epsilon, 1e-6),
        neighbours=Neighbours.REPLACE_ONE,
    )
    bins = default_bins(plan.noise.scale, n)
    design = class_design(2, bins, True)
    counts = Estimates.of(
        design, np.zeros(design.size), plan.noise.scale, class_constraints(design, 2, bins, n)
    )
    right = counts.among(CONFUSION, np.array([[1.0, 0.0, 0.0, 1.0]]))
    loss = counts.among(LOSSES, np.array([[loss_cap(2), 0.0, 0.0]]))
    return [Z * float(counts.covariance(vector)[0, 0]) ** 0.5 / n for vector in (right, loss)]


def test_the_table_is_found():
    assert len(ROWS) == 6


@pytest.mark.parametrize("row", ROWS)
def test_the_noise_is_as_printed(row):
    n, epsilon, *printed = (float(cell.replace(",", "")) for cell in row)
    assert [round(value, 3) for value in noise_of(int(n), epsilon)] == printed
