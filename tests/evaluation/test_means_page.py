"""What the page about mean predictions says in numbers."""

import math
import re
from pathlib import Path

import pytest
from means_cases import plan_of

from dperm.counting.estimates import Z
from dperm.unit import Neighbours

PAGE = (Path(__file__).parents[2] / "docs" / "means.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ±([\d.]+) \| ±([\d.]+) \|$", PAGE, re.MULTILINE)


def test_the_table_is_found():
    assert len(ROWS) == 6


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("n_groups", [1, 40])
@pytest.mark.parametrize("row", ROWS)
def test_the_noise_is_as_printed_whatever_the_number_of_groups(row, n_groups):
    n, epsilon, *printed = (float(cell.replace(",", "")) for cell in row)
    scale = plan_of(epsilon, Neighbours.REPLACE_ONE, n_groups).noise.scale
    noise = [Z * scale * math.hypot(1, 2 * mean - 1) / (2 * n) for mean in (0.1, 0.5)]
    assert [round(value, 3) for value in noise] == printed
