"""What the pages about evaluation say in numbers: noise of figures, and what binning does to an area."""

import re
from pathlib import Path

import numpy as np
import pytest
from evaluation_cases import Scored
from sklearn.metrics import roc_auc_score

from dperm.counting.bins import SCORES, ScoreBins
from dperm.counting.classification import CONFUSION, LOSSES, loss_cap
from dperm.counting.estimates import Z, area_kernel
from dperm.counting.query import Query
from dperm.privacy import Budget
from dperm.unit import Neighbours

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ±([\d.]+) \| ±([\d.]+) \|$", PAGE, re.MULTILINE)


def noise_of(n, epsilon):
    budget, relation = Budget(epsilon, 1e-6), Neighbours.REPLACE_ONE
    task = Scored.drawn().task(budget, relation, n)
    noise = Query(design=task.design, budget=budget, neighbours=relation).noise
    counts = task.estimates(np.zeros(task.design.size), noise.scale, n).counts
    right = counts.among(CONFUSION, np.array([[1.0, 0.0, 0.0, 1.0]]))
    loss = counts.among(LOSSES, np.array([[loss_cap(2), 0.0, 0.0, 0.0]]))
    return [Z * float(counts.covariance(vector)[0, 0]) ** 0.5 / n for vector in (right, loss)]


def test_the_table_is_found():
    assert len(ROWS) == 6


@pytest.mark.together
@pytest.mark.parametrize("row", ROWS)
def test_the_noise_is_as_printed(row):
    n, epsilon, *printed = (float(cell.replace(",", "")) for cell in row)
    assert [round(value, 3) for value in noise_of(int(n), epsilon)] == printed


@pytest.mark.together
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.5), (-1.6, 1.8), (-2.5, 1.0), (0.0, 0.5)])
def test_binning_hardly_moves_the_area(centre, spread):
    people = Scored.drawn(centre, spread)
    rows = people.rows
    true, found = roc_auc_score(rows.labels, rows.log_odds), {}
    for bins in (16, 32):
        kernel, places = area_kernel(bins), ScoreBins(bins, people.scales).place(SCORES, rows.log_odds)
        negative, positive = (np.bincount(places[rows.labels == label], minlength=bins) for label in (0, 1))
        found[bins] = negative @ kernel @ positive / negative.sum() / positive.sum() - true
    ties = np.triu(np.ones((32, 32)), 1) + np.eye(32) / 2
    uncorrected = negative @ ties @ positive / negative.sum() / positive.sum() - true
    assert abs(found[16]) < 0.0025
    assert abs(found[32]) < 0.0003
    assert abs(uncorrected) > 2 * abs(found[32])
