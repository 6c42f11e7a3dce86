import math

import numpy as np
import pytest

from dperm.errors import InvalidInput
from dperm.privacy import Budget


def test_numbers_are_kept_as_floats():
    budget = Budget(1, np.float32(0))
    assert (budget.epsilon, budget.delta) == (1.0, 0.0)
    assert type(budget.epsilon) is float
    assert type(budget.delta) is float
    assert budget == Budget(1.0, 0.0)
    with pytest.raises(AttributeError):
        budget.epsilon = 2.0


@pytest.mark.together
@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, True, "1", None, 1j])
def test_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be"):
        Budget(epsilon, 1e-8)


@pytest.mark.together
@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.inf, math.nan, False, "0", None])
def test_delta_is_refused(delta):
    with pytest.raises(InvalidInput, match="delta must be"):
        Budget(1.0, delta)


@pytest.mark.together
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-15), (1e-3, 0.1), (50, 1e-15), (50, 0.1)])
def test_corners_of_the_gaussian_range_are_inside(epsilon, delta):
    assert Budget(epsilon, delta).check_gaussian() is None


@pytest.mark.together
@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (9e-4, 1e-8, "epsilon from 0.001 to 50"),
        (50.1, 1e-8, "a smaller value than asked for keeps the guarantee"),
        (1.0, 9e-16, "delta from 1e-15 to 0.1"),
        (1.0, 0.11, "delta from 1e-15 to 0.1"),
        (1.0, 0.0, "needs delta > 0"),
    ],
)
def test_outside_the_gaussian_range_is_refused(epsilon, delta, message):
    with pytest.raises(InvalidInput, match=message):
        Budget(epsilon, delta).check_gaussian()
