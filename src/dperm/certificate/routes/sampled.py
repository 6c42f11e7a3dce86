"""Noise on gradients of random batches: docs/proofs/sgd-ma.md, dp-sgd.md, dp-sgd-adv.md and dp-svrg.md."""

from __future__ import annotations

import math

from dperm.certificate.accountant import (
    Price,
    composed_price,
    fixed_size_losses,
    gaussian_price,
    poisson_losses,
)
from dperm.certificate.constants import at_all_steps, padded
from dperm.certificate.routes.evidence import CLOSE, Evidence, Release
from dperm.certificate.routes.weights import (
    check_not_too_near,
    check_rounding,
    farthest,
    largest_pull,
)
from dperm.errors import InvalidInput

HOW = "losses of the sampled Gaussians on a grid, weighted and composed by a Fourier transform"
FULL = "batches of all rows are Gaussian releases: numerical integration"
FOLLOWS_WEIGHTS = (
    "the sensitivity of the corrections, which follows the weights; it lies within its bounds and is not smaller than "
    "the noise of the release before makes it"
)


def poisson(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    rate = _rate(used["rate"])
    multiplier = _steps(evidence, facts.rows, _largest_batch(facts.n, rate) / (facts.n * rate))
    return _poisson_price(rate, multiplier, facts.rows, used["steps"], evidence.standardisation_mu())


def fixed_size(evidence: Evidence) -> Price:
    """In a batch of a fixed size one row makes room for another under both relations."""
    facts, used = evidence.facts, evidence.used
    size = used["batch_size"]
    evidence.within("used, batch_size", size, 1, facts.n)
    multiplier = _steps(evidence, 2, 1.0)
    if evidence.name == "dp-sgd-adv" and used["accounting"] == "paper":
        _advanced(evidence, multiplier)
    if size == facts.n:
        return gaussian_price(
            math.hypot(2 * math.sqrt(used["steps"]) / multiplier, evidence.standardisation_mu()), FULL
        )
    losses = fixed_size_losses(_rate(size / facts.n), multiplier)
    return composed_price(losses, used["steps"], evidence.standardisation_mu(), HOW)


def variance_reduced(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    full, corrections = evidence.named("full gradient", "correction")
    evidence.equal("releases, count of full gradients", evidence.counted(full), used["outer"])
    n_corrections = used["outer"] * (used["inner"] - 1)
    evidence.equal("releases, count of corrections", evidence.counted(corrections), n_corrections)
    errors = at_all_steps(facts.sum_error)
    reach = facts.R * (1 if facts.monotone else 2)
    rate = _rate(used["rate"])
    pull = max(largest_pull(release, facts.n, facts.R) for release in full) / facts.n
    batch = _largest_batch(facts.n, rate)
    pull += max((largest_pull(r, batch, reach) for r in corrections), default=0.0) / (facts.n * rate)
    reached = farthest(pull, used["outer"] * used["inner"], used["step_size"], facts.l2)
    for release in full:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        check_rounding(evidence, release, facts.gap, reached, facts.sum_error)
        evidence.close("releases, noise of full gradients", release.mu, full[0].mu)
    for release in corrections:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        least, most = 2 * errors[0], reach + 2 * errors[-1]
        evidence.within("releases, sensitivity", release.sensitivity / facts.rows, least, most)
        evidence.close(
            "used, noise_multiplier", used["noise_multiplier"], _multiplier(release, facts.rows), 1e-9
        )
    mu = math.hypot(evidence.gaussian_mu(full), evidence.standardisation_mu())
    if not corrections:
        return gaussian_price(mu, HOW)
    if not evidence.faults:
        _check_distances(evidence, reach)
    return _poisson_price(rate, used["noise_multiplier"], facts.rows, n_corrections, mu)


def _poisson_price(rate: float, multiplier: float, rows: int, steps: int, mu_spent: float) -> Price:
    if rate == 1:
        return gaussian_price(math.hypot(rows * math.sqrt(steps) / multiplier, mu_spent), FULL)
    return composed_price(poisson_losses(rate, multiplier, rows), steps, mu_spent, HOW)


def _check_distances(evidence: Evidence, reach: float) -> None:
    """Weights before a correction are a noisy step away from the anchor, or from weights known before."""
    facts, used = evidence.facts, evidence.used
    evidence.not_checked.append(FOLLOWS_WEIGHTS)
    near, noise = [], []
    before: Release | None = None
    for place, release in enumerate(evidence.one_by_one()):
        kind = "correction" if place % used["inner"] else "full gradient"
        evidence.equal("releases, name", release.name, f"{evidence.name} {kind}")
        if before is not None and place % used["inner"]:
            rows = facts.n if place % used["inner"] == 1 else facts.n * used["rate"]
            noise.append(used["step_size"] * before.noise_scale / rows)
            moved = max(release.sensitivity / facts.rows * (1 + CLOSE) - 2 * facts.sum_error(), 0.0)
            near.append(moved / facts.beta if moved < reach else math.inf)
        before = release
    check_not_too_near(evidence, near, noise, facts.dimension)


def _steps(evidence: Evidence, rows: int, fullness: float) -> float:
    """Check every passage of a sampled descent; the noise in units of what one row adds.

    ``fullness`` is the largest batch, over the number that its sum is divided by.
    """
    facts, used = evidence.facts, evidence.used
    row = facts.R if used["clip"] is None else min(used["clip"], facts.R)
    (releases,) = evidence.named("gradient")
    evidence.equal("releases, count", evidence.counted(releases), used["steps"])
    reached = used.get("radius", math.inf)
    if reached == math.inf:
        divisor = facts.n * used["rate"]
        pull = max(largest_pull(release, fullness * divisor, row) for release in releases) / divisor
        halved = evidence.name == "dp-sgd"
        descent = (used["steps"], used["step_size"], used["l2_used"], used["momentum"], halved)
        reached = farthest(pull, *descent)
    for release in releases:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        check_rounding(evidence, release, rows * row, reached, lambda step: rows * facts.sum_error(step))
        evidence.close("used, noise_multiplier", used["noise_multiplier"], _multiplier(release, rows))
    return float(used["noise_multiplier"])


def _multiplier(release: Release, rows: int) -> float:
    unit = padded(release.sensitivity / rows, release.dimension, release.sensitivity)
    return release.noise_scale / unit


def _advanced(evidence: Evidence, multiplier: float) -> None:
    """The theorem of docs/proofs/dp-sgd-adv.md, with its condition and its sum."""
    n, steps = evidence.facts.n, evidence.used["steps"]
    epsilon, delta = evidence.epsilon, evidence.delta
    evidence.equal("used, batch_size", evidence.used["batch_size"], 1)
    logarithm = math.log(2 / delta)
    once = n * epsilon / (4 * math.sqrt(2 * steps * logarithm))
    evidence.within("the cost of one step before amplification", once, 0.0, 1.0)
    amplified = math.log(1 + (math.exp(once) - 1) / n)
    total = amplified * math.sqrt(2 * steps * logarithm) + steps * amplified * (math.exp(amplified) - 1)
    evidence.within("the sum of advanced composition", total, 0.0, epsilon)
    needed = 16 * math.sqrt(steps * logarithm * math.log(2.5 * steps / (delta * n))) / (n * epsilon)
    evidence.close("used, noise_multiplier", multiplier, needed)


def _largest_batch(n: int, rate: float) -> float:
    """Of Poisson batches; a larger one has a chance below 1e-55, by Bernstein's inequality."""
    return min(n, n * rate + 16 * math.sqrt(n * rate) + 100)


def _rate(value: float) -> float:
    if not 0 < value <= 1:
        raise InvalidInput("the sampling rate must lie in (0, 1].")
    return float(value)
