"""What a route works on: the statement, the constants, and a list of what did not agree.

The release for intervals, after the weights, is that of docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dperm.certificate.constants import ALLOWANCE, Facts, U, grid_exponent, padded
from dperm.certificate.statement import StatedRelease
from dperm.errors import InvalidInput

MEAN, MOMENTS = "mean of the rows", "second moments of the columns"
TOLD = "curvature at the released weights", "squared residuals at the released weights"  # for intervals
INFERRING = ("objective", "dp-gd", "adassp")  # mechanisms after which they may be released
CLOSE = 1e-9
MOST_PASSAGES = 1_000_000
LONGEST = 1024.0  # margin at the weights that the curvature is taken at
CONSTANT = 2.0  # times the constant column in the curvature
RAMP = 1 / 8  # of the bound on residuals


class Release(StatedRelease):
    """What a group of equal passages costs."""

    @property
    def mu(self) -> float:
        """Gaussian parameter of one passage."""
        return self.padded_sensitivity / self.noise_scale

    @property
    def choice_range(self) -> float:
        """Bounded range of one private choice: scores that move either way count twice."""
        return 2 * self.padded_sensitivity / self.noise_scale


@dataclass(frozen=True, eq=False)
class Evidence:
    """A statement under examination; ``faults`` collects what does not agree, by field.

    ``not_checked`` collects what nobody could compute from the file, because it follows weights that are not in it.
    """

    statement: Mapping[str, Any]
    facts: Facts
    faults: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.statement["mechanism"]["chosen"]["name"])

    @property
    def used(self) -> Mapping[str, Any]:
        return self.statement["mechanism"]["used"]  # type: ignore[no-any-return]

    @property
    def epsilon(self) -> float:
        return float(self.statement["budget"]["epsilon"])

    @property
    def delta(self) -> float:
        return float(self.statement["budget"]["delta"])

    @cached_property
    def all_releases(self) -> list[Release]:
        return [Release(**fields) for fields in self.statement["releases"]]

    @property
    def releases(self) -> list[Release]:
        """Those of the mechanism itself, without those of the standardisation and those for intervals."""
        apart = (MEAN, MOMENTS, *(TOLD if self.name in INFERRING else ()))
        return [release for release in self.all_releases if release.name not in apart]

    def once_each(self, *expected: tuple[str, int]) -> list[Release]:
        """Releases of these names and dimensions, in this order, each made once."""
        if len(self.releases) != len(expected):
            raise InvalidInput(f"releases: {len(expected)} were expected; {len(self.releases)} are stated.")
        for release, (name, dimension) in zip(self.releases, expected, strict=True):
            self.equal("releases, name", release.name, name)
            self.equal("releases, count", release.count, 1)
            self.equal("releases, dimension", release.dimension, dimension)
        return self.releases

    def named(self, *names: str) -> list[list[Release]]:
        """The releases of each of these names; there may be no other."""
        known = [f"{self.name} {name}" for name in names]
        for release in self.releases:
            if release.name not in known:
                self.faults.append(f"releases, name: {release.name!r} is none of {', '.join(known)}")
        return [[release for release in self.releases if release.name == name] for name in known]

    def one_by_one(self) -> list[Release]:
        """Every passage of the mechanism by itself, in the order in which they were made."""
        if self.counted(self.releases) > MOST_PASSAGES:
            raise InvalidInput("so many releases are too many to check one by one.")
        return [release for release in self.releases for _ in range(release.count)]

    def equal(self, name: str, stated: object, expected: object) -> None:
        if stated != expected or isinstance(stated, bool) != isinstance(expected, bool):
            self.faults.append(f"{name} is stated as {stated!r}; {expected!r} follows from the constants")

    def close(self, name: str, stated: float, expected: float, relative: float = CLOSE) -> None:
        if not math.isclose(stated, expected, rel_tol=relative, abs_tol=0.0):
            self.faults.append(
                f"{name} is stated as {stated:.12g}; {expected:.12g} follows from the constants"
            )

    def one_of(self, name: str, stated: float, expected: Iterable[float], relative: float = CLOSE) -> None:
        options = list(expected)
        if not any(math.isclose(stated, option, rel_tol=relative, abs_tol=0.0) for option in options):
            self.faults.append(
                f"{name} is stated as {stated:.12g}; {options[0]:.12g} follows from the constants"
            )

    def within(self, name: str, stated: float, least: float, most: float) -> None:
        if not least * (1 - CLOSE) <= stated <= most * (1 + CLOSE):
            self.faults.append(
                f"{name} is stated as {stated:.12g}, outside its bounds {least:.12g} to {most:.12g}"
            )

    def counted(self, releases: Iterable[Release]) -> int:
        return sum(release.count for release in releases)

    def check_passages(self, choices: tuple[str, ...] = ("dp-agd step", "frank-wolfe corner")) -> None:
        """What holds for every passage: grid and padding follow from sensitivity and dimension."""
        for release in self.all_releases:
            if not (release.sensitivity > 0 and release.noise_scale > 0 and release.dimension > 0):
                self.faults.append("releases: sensitivity, noise_scale and dimension must be above 0")
                continue
            self.within("releases, count", release.count, 1, 1e9)
            if release.name in choices:
                self.equal("releases, grid_exponent", release.grid_exponent, -1074)
                expected = release.sensitivity * (1 + ALLOWANCE)
            else:
                exponent = grid_exponent(release.sensitivity, release.dimension)
                self.equal("releases, grid_exponent", release.grid_exponent, exponent)
                expected = padded(release.sensitivity, release.dimension)
                self.within("releases, sensitivity over noise_scale", release.mu, 0.0, 101.0)
            self.close("releases, padded_sensitivity", release.padded_sensitivity, expected, 1e-12)

    def standardisation_mu(self) -> float:
        """Gaussian parameter of the standardisation (docs/proofs/standardising.md), 0 without one."""
        stated, facts = self.statement["standardisation"], self.facts
        found = [release for release in self.all_releases if release.name in (MEAN, MOMENTS)]
        expected = [] if stated is None else [MEAN, MOMENTS] if facts.intercept > 0 else [MOMENTS]
        if [release.name for release in self.all_releases[: len(found)]] != expected:
            self.faults.append("standardisation and the releases that it is made of do not fit each other")
            return 0.0
        for k, release in enumerate(found):
            x = facts.x_norm if release.name == MEAN else facts.x_norm**2
            counted = facts.rows == 1 and k == 0
            count = stated["count_column"] ** (1 if release.name == MEAN else 2) if counted else 0.0
            moved = (
                (2.0 if release.name == MEAN else math.sqrt(2.0))
                if facts.rows == 2
                else math.hypot(1.0, count)
            )
            rounding = 2 * (facts.adding(facts.n) + 4 * U) * (1 + count)
            self.close(
                f"releases, sensitivity of the {release.name}",
                release.sensitivity,
                x * (moved / facts.n + rounding),
            )
            self.equal(
                f"releases, dimension of the {release.name}", release.dimension, facts.n_features + counted
            )
            self.equal(f"releases, count of the {release.name}", release.count, 1)
            self.close("standardisation, noise_scales", stated["noise_scales"][k], release.noise_scale)
        if stated is not None:
            self.equal("standardisation, number of noise_scales", len(stated["noise_scales"]), len(found))
            self.close("standardisation, mu", stated["mu"], self.gaussian_mu(found))
        return self.gaussian_mu(found)

    def gaussian_mu(self, releases: Iterable[Release]) -> float:
        """All these releases together."""
        return math.sqrt(math.fsum(release.count * release.mu**2 for release in releases))


def inference_mu(evidence: Evidence) -> float:
    """Gaussian parameter of the release for intervals, 0 without one."""
    stated, facts = evidence.statement.get("inference"), evidence.facts
    found = [release for release in evidence.all_releases if release.name in TOLD]
    if stated is None and not found:
        return 0.0
    name, release = TOLD[evidence.name == "adassp"], evidence.all_releases[-1]
    if stated is None or len(found) != 1 or release.name != name:  # the weights are public by then
        evidence.faults.append("inference and the release that it is about do not fit each other")
        return 0.0
    change = _curvature_change(evidence)
    if evidence.name not in INFERRING or change is None or evidence.statement["standardisation"] is not None:
        evidence.faults.append(
            "inference: no release for intervals is proved for this mechanism and this loss"
        )
        return 0.0
    pairs, squares = facts.p * (facts.p + 1) // 2, _squares_error(facts)
    moved = math.sqrt(facts.rows) * facts.curvature * _stretched(facts)
    weight: float | None = None
    dimension, sensitivity = pairs, moved + 2 * _hessian_error(facts, change)
    if evidence.name == "adassp":
        weight, dimension, sensitivity = 1.0, 1, facts.slope**2 + 2 * squares
    elif facts.loss != "logistic":
        weight, dimension = moved / facts.slope**2, pairs + 1
        sensitivity += (math.sqrt(2) - 1) * moved + 2 * weight * squares
    evidence.close("releases, sensitivity of the release for intervals", release.sensitivity, sensitivity)
    evidence.equal("releases, dimension of the release for intervals", release.dimension, dimension)
    evidence.equal("releases, count of the release for intervals", release.count, 1)
    evidence.close("inference, noise_scale", stated["noise_scale"], release.noise_scale)
    evidence.close("inference, mu", stated["mu"], release.mu)
    if weight is None or stated["weight"] is None:
        evidence.equal("inference, weight", stated["weight"], weight)
    else:
        evidence.close("inference, weight", stated["weight"], weight)
    constant = 1.0 if evidence.name == "adassp" or facts.intercept == 0 else CONSTANT
    evidence.equal("inference, constant", stated["constant"], constant)
    # Noise scales of moments that were released before, where these are what intervals are made of.
    before = [release.noise_scale for release in evidence.releases[1:]]
    evidence.equal("inference, moments", stated["moments"], before if evidence.name == "adassp" else None)
    return release.mu


def _curvature_change(evidence: Evidence) -> float | None:
    """How steep the curvature of a loss with coefficients to make intervals for is; None for any other loss."""
    parameters = evidence.statement["problem"]["loss_parameters"]
    if evidence.facts.loss == "logistic":
        return 1 / math.sqrt(108)
    if evidence.facts.intercept <= 0:  # the squared residuals are summed in that column
        return None
    if evidence.facts.loss == "squared":
        return 1 / (RAMP * float(parameters[0]))
    if evidence.facts.loss == "soft-clipped-squared":
        return 1 / (float(parameters[0]) * (1 - float(parameters[1])))
    return None


def _stretched(facts: Facts) -> float:
    """Squared norm of a row whose constant column is longer."""
    return facts.x_norm**2 + (CONSTANT * facts.intercept) ** 2


def _hessian_error(facts: Facts, change: float) -> float:
    margin = 2 * facts.p * U * LONGEST
    row = change * margin + (1e-14 + facts.adding(facts.n) + 8 * U) * facts.curvature
    return facts.n * _stretched(facts) * row


def _squares_error(facts: Facts) -> float:
    off = facts.curvature * 2 * facts.p * U * LONGEST + 1e-14 * max(facts.slope, facts.curvature / 5)
    row = off * (2 * facts.slope + off) + (facts.adding(facts.n) + 8 * U) * facts.slope**2
    return facts.n * row
