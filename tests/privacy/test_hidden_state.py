import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.special import expit

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Budget, GaussianProfile, calibrate, gaussian_mu
from dperm.privacy.hidden_state import hidden_state_mu, noisy_cyclic_mu


def by_least_squares(contraction, shift, noise):
    """The same minimum as a non-negative least-squares problem in the distances z_1 .. z_{T-1}."""
    steps = len(shift)
    matrix = np.zeros((steps, steps - 1))
    for k in range(steps - 1):
        matrix[k, k] = 1 / noise[k]
        matrix[k + 1, k] = -contraction[k + 1] / noise[k + 1]
    return nnls(matrix, shift / noise)[1]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(2, 25))
def test_equals_the_quadratic_programme(seed, steps):
    rng = np.random.default_rng(seed)
    contraction, noise = rng.uniform(0.3, 1.3, steps), rng.uniform(0.1, 1, steps)
    shift = rng.uniform(0, 1, steps) * (rng.random(steps) < 0.5)
    assert hidden_state_mu(contraction, shift, noise) == pytest.approx(
        by_least_squares(contraction, shift, noise), rel=1e-10, abs=1e-12
    )


@pytest.mark.together
@pytest.mark.parametrize(("c", "steps"), [(0.5, 3), (0.9, 1), (0.99, 40), (0.999, 500), (0.2, 2000)])
def test_full_batches_strongly_convex(c, steps):
    """The closed form, which is also the exact value for x -> c x + shift in one dimension."""
    closed = math.sqrt((1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)) * 3 / 7
    apart = 3 * (1 - c**steps) / (1 - c)
    spread = 7 * math.sqrt((1 - c ** (2 * steps)) / (1 - c**2))
    assert apart / spread == pytest.approx(closed, rel=1e-10)
    assert hidden_state_mu(np.full(steps, c), 3.0, 7.0) == pytest.approx(closed, rel=1e-10)


@pytest.mark.together
@pytest.mark.parametrize(
    ("diameter", "shift", "noise"), [(3.0, 0.07, 0.2), (1.0, 0.25, 0.1), (10.0, 0.3, 2.0)]
)
def test_full_batches_on_a_bounded_set(diameter, shift, noise):
    steps = 5 * math.ceil(
        diameter / shift
    )  # composition is the better bound up to 4 diameters over the shift
    k = np.arange(1, steps + 1)
    restart = ((diameter + k * shift) / (np.sqrt(k) * noise)).min()
    printed = math.sqrt(3 * diameter * shift + shift**2 * math.ceil(diameter / shift)) / noise
    mu = hidden_state_mu(np.ones(steps), shift, noise, diameter)
    assert mu == pytest.approx(restart, rel=1e-10)
    assert mu <= printed * (1 + 1e-10)
    if float(diameter / shift).is_integer():
        assert mu == pytest.approx(printed, rel=1e-10)
    else:
        assert mu < printed
    assert mu == pytest.approx(hidden_state_mu(np.ones(4 * steps), shift, noise, diameter), rel=1e-10)
    few = math.ceil(diameter / shift)
    assert hidden_state_mu(np.ones(few), shift, noise, diameter) == pytest.approx(
        math.sqrt(few) * shift / noise
    )


def test_a_large_diameter_changes_nothing_and_restarts_are_optimal():
    rng = np.random.default_rng(3)
    contraction, shift, noise = rng.uniform(0.5, 1, 30), rng.uniform(0, 1, 30), rng.uniform(0.1, 1, 30)
    free = hidden_state_mu(contraction, shift, noise)
    assert hidden_state_mu(contraction, shift, noise, 1e6) == free
    bounded = hidden_state_mu(contraction, shift, noise, 0.4)
    # A restart at step k is a run from there whose first, silent step moves the iterate by the diameter.
    restarts = [
        hidden_state_mu(np.r_[1, contraction[k:]], np.r_[0.4, shift[k:]], np.r_[0, noise[k:]])
        for k in range(30)
    ]
    assert bounded == pytest.approx(min(restarts), rel=1e-10)
    assert bounded < free


@pytest.mark.together
@pytest.mark.parametrize(
    ("batches", "epochs", "c"), [(10, 7, 0.97), (4, 3, 0.5), (6, 1, 0.9), (25, 20, 0.999)]
)
def test_cyclic_batches_strongly_convex(batches, epochs, c):
    later = c ** (batches * (epochs - 1))
    closed = math.sqrt(
        1 + c ** (2 * batches - 2) * (1 - c**2) / (1 - c**batches) ** 2 * (1 - later) / (1 + later)
    )
    mu = noisy_cyclic_mu(np.full((epochs, batches), c), 0.2, 0.5)
    assert mu.max() == pytest.approx(closed * 0.2 / 0.5, rel=1e-10)
    assert (np.diff(mu) > 0).all()  # the later in the epoch, the less noise follows


@pytest.mark.together
@pytest.mark.parametrize(
    ("c", "batches", "epochs", "composed", "worst", "mixture"),
    [
        (0.999, 1, 50, 36.1, 36.1, None),
        (0.999, 10, 5, 114.0, 60.3, 55.3),
        (0.999, 10, 50, 360.6, 122.4, 115.9),
        (0.99, 10, 50, 360.6, 85.2, 78.5),
        (0.999, 50, 1, 255.0, 255.0, 218.3),
        (0.9, 50, 1, 255.0, 255.0, 218.3),
        (0.999, 1, 500, 114.0, 112.9, None),
        (0.99, 1, 500, 114.0, 71.5, None),
    ],
)
def test_noise_of_batches_against_full_batches(c, batches, epochs, composed, worst, mixture):
    budget = Budget(1, 1e-8)
    full_mu = gaussian_mu(budget)
    mu = noisy_cyclic_mu(np.full((epochs, batches), c), batches, 1.0)
    assert batches * math.sqrt(epochs) / full_mu == pytest.approx(composed, abs=0.06)
    assert mu.max() / full_mu == pytest.approx(worst, abs=0.06)
    if mixture is not None:
        share = np.full(batches, 1 / batches)
        scale = calibrate(lambda s: GaussianProfile.mixture(share, mu / s), budget, mu.max() / full_mu)
        assert scale == pytest.approx(mixture, abs=0.06)


def test_one_pass_over_single_rows():
    """Feldman, Mironov, Talwar and Thakurta (2018): 2R / (sigma sqrt(n + 1 - t)) for the row of step t."""
    n, step_size, sigma, bound = 40, 0.3, 1.7, 2.5
    mu = noisy_cyclic_mu(np.ones((1, n)), step_size * 2 * bound, step_size * sigma)
    t = np.arange(1, n + 1)
    assert mu == pytest.approx(2 * bound / (sigma * np.sqrt(n + 1 - t)), rel=1e-10)


def test_output_perturbation_is_noise_at_one_last_step():
    """Silent steps move the weights as the sensitivity recurrence says; the last adds the noise."""
    rng = np.random.default_rng(5)
    contraction, shift = rng.uniform(0.8, 1, 25), rng.uniform(0, 1, 25)
    distance = 0.0
    for c, s in zip(contraction, shift, strict=True):
        distance = c * distance + s
    mu = hidden_state_mu(np.r_[contraction, 1], np.r_[shift, 0], np.r_[np.zeros(25), 0.4])
    assert mu == pytest.approx(distance / 0.4, rel=1e-10)


def densities(maps, noise, grid, start):
    """Density of the last iterate in one dimension, on a grid."""
    width = grid[1] - grid[0]
    density = None
    for step, move in enumerate(maps):
        if density is None:
            means, weights = np.array([move(np.array(start))]), np.ones(1)
        else:
            means, weights = move(grid), density * width
        kernel = np.exp(-(((grid[:, None] - means[None, :]) / noise[step]) ** 2) / 2)
        density = (kernel / (noise[step] * math.sqrt(2 * math.pi))) @ weights
    return density


def hockey_stick(p, q, epsilon, width):
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() * width for a, b in ((p, q), (q, p)))


GRID = np.linspace(-12, 14, 1301)
WIDTH = GRID[1] - GRID[0]
QUADRATURE = 1e-4  # relative error of a sum over the grid, from the kink of the positive part


def logistic_step(x):
    return x - (0.1 * x - expit(-x))


@pytest.mark.together
@pytest.mark.parametrize(
    ("move", "moved", "c", "s"),
    [
        (lambda x: 0.8 * x, lambda x: 0.8 * x + 0.4, 0.8, 0.4),
        (lambda x: 1.1 * x, lambda x: 1.1 * x + 0.4, 1.1, 0.4),
        (logistic_step, lambda x: logistic_step(x) + 0.4 * np.sin(x), 0.9, 0.4),
        (logistic_step, lambda x: logistic_step(x) + 0.4 * (x > 0.5), 0.9, 0.4),
    ],
)
def test_exact_divergences_in_one_dimension(move, moved, c, s):
    noise = np.array([0.5, 0.4, 0.6, 0.5, 0.3, 0.5])
    p = densities([move] * 6, noise, GRID, 0.3)
    assert p.sum() * WIDTH == pytest.approx(1, abs=1e-9)
    for differs in ([0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1], [1] * 6):
        q = densities([moved if d else move for d in differs], noise, GRID, 0.3)
        mu = hidden_state_mu(np.full(6, c), s * np.array(differs), noise)
        for epsilon in (0.0, 0.1, 0.5):
            exact = hockey_stick(p, q, epsilon, WIDTH)
            assert exact <= GaussianProfile.gaussian(mu).delta(epsilon) * (1 + QUADRATURE)


def test_an_understated_parameter_is_noticed():
    """For x -> c x + s at every step the bound is attained, so the exact divergence exceeds 0.97 of it."""
    p = densities([lambda x: 0.8 * x] * 6, np.full(6, 0.5), GRID, 0.3)
    q = densities([lambda x: 0.8 * x + 0.4] * 6, np.full(6, 0.5), GRID, 0.3)
    mu = hidden_state_mu(np.full(6, 0.8), 0.4, 0.5)
    for epsilon in (0.0, 0.1, 0.5):
        exact = hockey_stick(p, q, epsilon, WIDTH)
        assert exact == pytest.approx(GaussianProfile.gaussian(mu).delta(epsilon), rel=QUADRATURE)
        assert exact > GaussianProfile.gaussian(0.97 * mu).delta(epsilon)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_laws(seed):
    rng = np.random.default_rng(seed)
    contraction, shift, noise = rng.uniform(0.5, 1, 12), rng.uniform(0, 1, 12), rng.uniform(0.2, 1, 12)
    mu = hidden_state_mu(contraction, shift, noise)
    k = rng.integers(12)
    bump = np.zeros(12)
    bump[k] = 0.1
    assert hidden_state_mu(contraction, shift + bump, noise) >= mu
    assert hidden_state_mu(contraction, shift, noise + bump) <= mu * (1 + 1e-12)
    assert hidden_state_mu(contraction + bump, shift, noise) >= mu * (1 - 1e-12)
    assert mu <= math.sqrt(((shift / noise) ** 2).sum()) * (1 + 1e-12)  # never above composition
    assert hidden_state_mu(contraction, 3 * shift, 2 * noise) == pytest.approx(1.5 * mu, rel=1e-12)
    # more steps without the row only hide it further
    assert hidden_state_mu(np.r_[contraction, 1], np.r_[shift, 0], np.r_[noise, 0.5]) <= mu * (1 + 1e-12)


def test_a_shift_is_carried_over_silent_steps_but_must_meet_noise_in_the_end():
    assert hidden_state_mu([1, 1], [1, 0], [0, 2]) == pytest.approx(0.5)
    assert hidden_state_mu([1, 1], [0, 1], [2, 0]) == math.inf
    assert hidden_state_mu([1, 1], [0, 1], [0, 0]) == math.inf
    assert hidden_state_mu([1, 1], [0, 0], [0, 0]) == 0
    assert hidden_state_mu([0, 0], [1, 0], [1, 1]) == pytest.approx(0, abs=1e-70)


def test_long_runs_do_not_underflow():
    mu = hidden_state_mu(np.full(20_000, 0.5), 1.0, 1.0)
    assert mu == pytest.approx(math.sqrt(1.5 / 0.5), rel=1e-10)
    assert hidden_state_mu(np.full(20_000, 0.5), 1e-200, 1e-180) == pytest.approx(mu * 1e-20, rel=1e-10)
    early = np.zeros(20_000)
    early[0] = 1.0
    assert 0 < hidden_state_mu(np.full(20_000, 0.5), early, 1.0) < 1e-60


@pytest.mark.together
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0], [-1.0], [1.0]), InvalidInput, "shift"),
        (([1.0], [1.0], [math.nan]), InvalidInput, "noise"),
        (([math.inf], [1.0], [1.0]), InvalidInput, "contraction"),
        (([[1.0]], [[1.0]], [[1.0]]), InvalidInput, "vectors"),
        (([1.0], [1.0], [1.0], 0.0), InvalidInput, "diameter"),
        (([10.0] * 200, [1.0] * 200, [1.0] * 200), NotCertified, "stretch"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        hidden_state_mu(*arguments)


def test_rounding_counts_at_every_step_whichever_batch_holds_the_row():
    c, s, g = np.full((3, 4), 0.9), np.full((3, 4), 0.5), np.full((3, 4), 0.7)
    plain, rounded = noisy_cyclic_mu(c, s, g), noisy_cyclic_mu(c, s, g, rounding=1e-3)
    assert (rounded > plain).all()
    alone = np.full(12, 1e-3)
    alone[2::4] += 0.5
    assert rounded[2] == hidden_state_mu(c.ravel(), alone, g.ravel())
    assert noisy_cyclic_mu(c, 0.0, g, rounding=1e-3) == pytest.approx(
        hidden_state_mu(np.full(12, 0.9), 1e-3, 0.7)
    )


def test_cyclic_refuses_a_vector():
    with pytest.raises(InvalidInput, match="epochs, batches"):
        noisy_cyclic_mu(np.ones(3), 1.0, 1.0)
