import math

import numpy as np
import pytest
from scipy import stats

import opendp_noise
from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import SeededEntropy, SystemEntropy
from dperm.privacy import noisy_min as module
from dperm.privacy.noisy_min import NoisyMin, noisy_min

CANDIDATES = 21
ALPHA = 1e-9  # chance that a right mechanism fails a statistical test


def chances(scores, choice):
    """Of the exponential mechanism."""
    weights = np.exp(-(scores - scores.min()) / choice.scale)
    return weights / weights.sum()


def neighbours(rng, choice, size):
    scores = rng.uniform(0, 3, size) * choice.sensitivity
    low = 0.0 if choice.one_sided else -1.0
    moves = rng.choice([low, 1.0], size) if rng.random() < 0.5 else rng.uniform(low, 1, size)
    return scores, scores + moves * choice.sensitivity


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_exponential_mechanism_has_bounded_range_and_its_zcdp(one_sided):
    """Exact: log-ratios within an interval of length epsilon, Renyi divergences at most alpha rho."""
    rng = np.random.default_rng(0)
    worst_range = worst_renyi = 0.0
    for epsilon in (0.05, 0.25, 1.0, 4.0):
        choice = NoisyMin(sensitivity=2.0, epsilon=epsilon, one_sided=one_sided)
        for _ in range(400):
            p, q = (chances(s, choice) for s in neighbours(rng, choice, rng.integers(2, CANDIDATES + 1)))
            for a, b in ((p, q), (q, p)):
                ratio = np.log(a / b)
                worst_range = max(worst_range, np.ptp(ratio) / epsilon)
                for order in (1.01, 2.0, 8.0, 64.0):
                    renyi = np.log((a * np.exp((order - 1) * ratio)).sum()) / (order - 1)
                    worst_renyi = max(worst_renyi, renyi / (order * choice.rho))
    assert 0.99 < worst_range <= 1
    assert 0.9 < worst_renyi <= 1


def test_half_the_noise_would_not_do():
    """The control: one-sided noise for scores that may move both ways doubles the range."""
    choice = NoisyMin(sensitivity=1.0, epsilon=0.5, one_sided=True)
    p, q = chances(np.zeros(2), choice), chances(np.array([1.0, -1.0]), choice)
    assert np.ptp(np.log(p / q)) == pytest.approx(2 * choice.epsilon, rel=1e-6)


def surely_above(wins, losses, draws):
    """Largest log-ratio of the two winning chances that the counts prove at level ALPHA."""
    low = stats.beta.ppf(ALPHA / 2, wins, draws - wins + 1)
    high = stats.beta.isf(ALPHA / 2, losses + 1, draws - losses)
    return math.log(low / high)


def pair(choice):
    """Candidate 0 loses ground to all others, as much as neighbours can make it."""
    moved = np.full(CANDIDATES, -choice.sensitivity)
    moved[0] = choice.sensitivity
    return np.zeros(CANDIDATES), moved


def test_noise_of_the_wrong_sign_is_caught():
    """Exponential noise added where it should be subtracted loses (k - 1) epsilon: 5 for a claimed 0.25."""
    choice = NoisyMin(sensitivity=1.0, epsilon=0.25)
    rng, draws = np.random.default_rng(1), 400_000

    def wins(scores, sign):
        total = 0
        for _ in range(8):
            noise = rng.exponential(choice.scale, (draws // 8, CANDIDATES))
            total += int((np.argmin(scores + sign * noise, axis=1) == 0).sum())
        return total

    before, after = pair(choice)
    assert surely_above(wins(before, +1), wins(after, +1), draws) > 10 * choice.epsilon
    assert surely_above(wins(before, -1), wins(after, -1), draws) <= choice.epsilon


def test_the_drawn_ratio_is_within_the_claim_and_less_noise_is_caught():
    """The sampler itself, at a large epsilon so that few draws tell; a tenth of the noise is too little."""
    honest = NoisyMin(sensitivity=1.0, epsilon=2.0)
    broken = NoisyMin(sensitivity=0.1, epsilon=2.0)
    draws, entropy = 2000, SystemEntropy()
    for choice, caught in ((honest, False), (broken, True)):
        before, after = (
            sum(noisy_min(scores, choice, entropy) == 0 for _ in range(draws))
            for scores in (np.array([0.0, 0.0]), np.array([1.0, -1.0]))
        )
        assert (surely_above(before, after, draws) > honest.epsilon) == caught


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(7)], ids=["system", "seeded"])
def test_distribution(entropy):
    choice = NoisyMin(sensitivity=1.0, epsilon=0.8, one_sided=True)
    scores = np.array([0.0, 1.0, 2.5, 0.3, 6.0])
    draws = 6000
    counts = np.bincount([noisy_min(scores, choice, entropy) for _ in range(draws)], minlength=5)
    assert stats.chisquare(counts, draws * chances(scores, choice)).pvalue > ALPHA
    for wrong in (0.7, 1.4):  # noise scales off by a third are told apart
        other = NoisyMin(sensitivity=wrong, epsilon=0.8, one_sided=True)
        assert stats.chisquare(counts, draws * chances(scores, other)).pvalue < ALPHA


def test_price_and_scale():
    choice = NoisyMin(sensitivity=3.0, epsilon=0.5)
    assert choice.rho == pytest.approx(0.5**2 / 8, rel=1e-12)
    assert choice.scale == pytest.approx(2 * 3.0 / 0.5, rel=1e-8)
    assert choice.scale >= 2 * 3.0 / 0.5
    assert NoisyMin(sensitivity=3.0, epsilon=0.5, one_sided=True).scale == pytest.approx(choice.scale / 2)


@pytest.mark.system_noise(failing=0)
def test_opendp_agrees_and_a_disagreement_is_found(monkeypatch):
    for epsilon in (1e-3, 0.1, 1.0, 10.0):
        for one_sided in (False, True):
            choice = NoisyMin(sensitivity=0.7, epsilon=epsilon, one_sided=one_sided)
            claimed = opendp_noise.opendp_chooser(choice).map(choice.sensitivity)
            assert claimed == pytest.approx(choice.rho, rel=1e-8)
    monkeypatch.setattr(NoisyMin, "rho", property(lambda self: self.epsilon**2 / 9))
    with pytest.raises(NotCertified, match="OpenDP"):
        opendp_noise.opendp_chooser(NoisyMin(sensitivity=0.123, epsilon=0.5))


@pytest.mark.together
@pytest.mark.parametrize("scores", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, 1.0]])
def test_scores_that_are_not_finite_choose_nothing(scores):
    with pytest.raises(NotCertified, match="finite"):
        noisy_min(np.array(scores), NoisyMin(sensitivity=1.0, epsilon=1.0), SystemEntropy())


def test_refusals():
    choice = NoisyMin(sensitivity=1.0, epsilon=1.0)
    for scores in (np.zeros((2, 2)), np.zeros(0)):
        with pytest.raises(InvalidInput, match="vector"):
            noisy_min(scores, choice, SystemEntropy())
    with pytest.raises(InvalidInput, match="sensitivity"):
        NoisyMin(sensitivity=0.0, epsilon=1.0)
    with pytest.raises(InvalidInput, match="epsilon"):
        NoisyMin(sensitivity=1.0, epsilon=math.nan)


# Whole numbers.


def least_likely(counts, chances):
    draws = int(counts.sum())
    return min(
        stats.binomtest(int(count), draws, chance).pvalue
        for count, chance in zip(counts, chances, strict=True)
    )


@pytest.mark.some(1)
@pytest.mark.system_noise(failing=1e-9)
@pytest.mark.parametrize("spread", [0.0, 0.03, 1.0])
def test_many_candidates_have_the_law_of_opendp(spread):
    """Alike, a few scales apart, and so far apart that few have a chance; half of them elsewhere does not fit."""
    choice = NoisyMin(sensitivity=1.0, epsilon=1.0)
    scores = spread * np.random.default_rng(2).permutation(300) + 1e-3
    cells, draws = np.argsort(scores).argsort() // 30, 1500

    def ours():
        return noisy_min(scores, choice, SystemEntropy())

    def theirs():
        return opendp_noise.opendp_chooser(choice)(scores.tolist())

    expected = np.minimum(np.bincount(cells, chances(scores, choice)), 1.0)
    for chosen in (ours, theirs):
        found = np.bincount([cells[chosen()] for _ in range(draws)], minlength=10)
        assert least_likely(found, expected) > 1e-11  # twenty counts, each by the exact law
        moved = found // 2
        moved[9] += draws - moved.sum()
        assert least_likely(moved, expected) < 1e-11


class Tape:
    name, secure = "tape", True

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def words(self, n):
        return self.rng.integers(0, 2**64, size=n, dtype=np.uint64)


def test_where_bytes_end_makes_no_difference(monkeypatch):
    scores, choice = np.linspace(0, 40, 60), NoisyMin(sensitivity=1.0, epsilon=2.0)
    found = []
    for words in (1, 2, 5, 500):
        monkeypatch.setattr(module, "FIRST_WORDS", words)
        monkeypatch.setattr(module, "MOST_WORDS", words)
        found.append([noisy_min(scores, choice, Tape(seed)) for seed in range(100)])
    assert found[0] == found[1] == found[2] == found[3]
    assert len(set(found[0])) > 3


def test_scores_of_any_size_are_exact():
    """Far beyond 64 bits of the grid the differences still count, and a common shift does not."""
    choice = NoisyMin(sensitivity=1.0, epsilon=2.0)
    plain, parts = module._above_lowest(np.array([3.0, 0.0, 1.5]), choice.grid_exponent, choice.steps)
    shifted = module._above_lowest(2.0**40 + np.array([3.0, 0.0, 1.5]), choice.grid_exponent, choice.steps)
    assert np.array_equal(plain, shifted[0])
    assert np.array_equal(parts, shifted[1])
    assert plain.tolist() == [2, 0, 1]
    assert (plain + parts / choice.steps).tolist() == pytest.approx([3.0, 0.0, 1.5], rel=1e-8)
    assert noisy_min(np.array([1e300, -1e300, 1e308]), choice, SystemEntropy()) == 1
    for sensitivity in (1e-300, 1e300):
        tiny = NoisyMin(sensitivity=sensitivity, epsilon=50.0)
        assert noisy_min(sensitivity * np.array([5.0, 0.0]), tiny, SystemEntropy()) == 1


def test_the_grid_is_within_the_allowance():
    for sensitivity in (1e-9, 0.7, 1.0, 3e5):
        for one_sided in (False, True):
            choice = NoisyMin(sensitivity=sensitivity, epsilon=0.3, one_sided=one_sided)
            grid = math.ldexp(1.0, choice.grid_exponent)
            assert sensitivity * 2**-33 <= grid <= sensitivity * 2**-32
            moved = sensitivity * (1 if one_sided else 2) + 2 * grid
            assert moved / (choice.steps * grid) <= choice.epsilon
            assert choice.scale <= choice.steps * grid <= choice.scale * (1 + 1e-8)


def test_a_scale_of_too_many_steps_is_refused():
    faint = NoisyMin(sensitivity=1.0, epsilon=1e-8)
    assert faint.steps > 2**56
    with pytest.raises(InvalidInput, match=r"more than 2\*\*56 steps"):
        noisy_min(np.zeros(3), faint, SystemEntropy())
