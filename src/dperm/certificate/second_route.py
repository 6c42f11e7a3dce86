"""The guarantee by a second route: sensitivities by the formulas of the proofs, priced by the second accountant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from dperm.certificate.accountant import Price
from dperm.certificate.facts import Facts
from dperm.certificate.routes import Route, route_of
from dperm.certificate.routes.evidence import Evidence
from dperm.errors import InvalidInput
from dperm.mechanisms import resolve
from dperm.privacy import Budget


class Promised(Protocol):
    """What a price is held against."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...


def stated_route(statement: Mapping[str, Any]) -> Route | None:
    """The route of the chosen mechanism; None for one from elsewhere, which can only be planned again."""
    return route_of(resolve(statement["mechanism"]["chosen"]["name"]))


def check_constants(statement: Mapping[str, Any]) -> str:
    """The constants of loss and rows, from what was declared."""
    facts, problem = Facts.of(statement), statement["problem"]
    derived = {
        "lipschitz": facts.slope,
        "smoothness": facts.curvature,
        "row_norm": facts.r,
        "n_coefficients": facts.dimension,
    }
    for name, value in derived.items():
        if not math.isclose(problem[name], value, rel_tol=1e-12):
            raise InvalidInput(f"problem, {name} is stated as {problem[name]:.12g}; it is {value:.12g}.")
    Budget(**statement["budget"])
    return f"{problem['loss']} loss, bounds of rows and gradients, number of coefficients"


def check_price(price: Price, promised: Promised) -> str:
    """The price by the second accountant, against the claim."""
    reached = price.delta(promised.epsilon)
    if not price.meets(promised.epsilon, promised.delta):
        raise InvalidInput(
            f"the noise costs delta = {reached:.6g} at epsilon = {promised.epsilon:g}, above the "
            f"{promised.delta:g} claimed ({price.how})."
        )
    return f"delta = {reached:.6g} at epsilon = {promised.epsilon:g} ({price.how})"


def recomputed_price(route: Route, evidence: Evidence) -> Price:
    """The price of the stated releases, once each of them follows from the constants."""
    evidence.check_passages()
    price = None if evidence.faults else route(evidence)
    if price is None or evidence.faults:
        raise InvalidInput("; ".join(dict.fromkeys(evidence.faults[:3])) + ".")
    return price


def releases_checked(evidence: Evidence) -> str:
    """What was looked at in each release, and what could not be."""
    count = sum(release.count for release in evidence.all_releases)
    found = f"sensitivity, grid, padding, size and count of {count} releases"
    left = unchecked(evidence)
    return f"{found}; not checked: {'; '.join(left)}" if left else found


def unchecked(evidence: Evidence) -> tuple[str, ...]:
    return tuple(dict.fromkeys(evidence.not_checked))
