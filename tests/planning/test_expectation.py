"""The curves of the package rise with the noise, know where their study ends, and say how it was made."""

import numpy as np
import pytest

from dperm.planning.expectation import constants, loss_curve, study_rows

METRICS = ("accuracy", "auc", "r2")


@pytest.mark.parametrize("metric", METRICS)
def test_more_noise_is_expected_to_cost_more(metric):
    curve = loss_curve(metric)
    found = [curve(float(level)) for level in np.geomspace(*curve.studied["level"], 60)]
    assert all(one.low < one.expected < one.high for one in found)
    assert all(np.diff([one.expected for one in found]) > 0)
    assert 0 <= found[0].expected < 0.01


def test_the_level_for_a_loss_gives_that_loss():
    curve = loss_curve("accuracy")
    level = curve.level_for(0.02, outputs=4)
    assert curve(level, 4).expected == pytest.approx(0.02, rel=1e-4)
    assert curve.level_for(1e-9) is None


def test_what_lies_beyond_the_study_is_named():
    curve = loss_curve("r2")
    assert curve.beyond(level=0.01, n=5_000, features=100, outputs=1) == {}
    assert set(curve.beyond(level=1.0, n=10**7, features=1, outputs=1)) == {"level", "n", "features"}


def test_the_study_has_no_cell_twice_and_says_how_it_was_made():
    rows = study_rows()
    keys = [(row["dataset"], row["n"], row["epsilon"]) for row in rows]
    assert len(set(keys)) == len(keys)
    made = constants()
    assert made["sets"] == sorted({row["dataset"] for row in rows})
    assert made["command"] == "dperm reproduce plan --seed 0"
