"""One module per family: sensitivities by the formulas of its proof page, then a price by the second accountant."""

from __future__ import annotations

from collections.abc import Callable

from dperm.certificate.accountant import Price
from dperm.certificate.routes import gradient, noisy_sgd, objective, output, sampled, statistics, zcdp
from dperm.certificate.routes.evidence import Evidence
from dperm.errors import InvalidInput
from dperm.mechanisms import Mechanism
from dperm.mechanisms.registry import is_own

Route = Callable[[Evidence], Price]

ROUTES: dict[str, Route] = {
    "minimiser": output.minimiser,
    "descent": output.descent,
    "objective": objective.gaussian,
    "full-batches": gradient.full_batches,
    "coordinates": gradient.coordinates,
    "last-iterate": noisy_sgd.last_iterate,
    "poisson": sampled.poisson,
    "fixed-size": sampled.fixed_size,
    "variance-reduced": sampled.variance_reduced,
    "adaptive-steps": zcdp.adaptive_steps,
    "corners": zcdp.corners,
    "pair": statistics.pair,
    "three": statistics.three,
}
_OF_OTHERS: dict[str, Route] = {}


def register_route(mechanism: str, route: Route) -> None:
    """Formulas of your own for a mechanism that your package registers, by its name."""
    if _OF_OTHERS.setdefault(mechanism, route) is not route:
        raise InvalidInput(f"a route for {mechanism!r} is registered already.")


def route_of(mechanism: Mechanism) -> Route | None:
    """The formulas for a mechanism. What another package derives from ours does not inherit them: they are proved for
    ours alone."""
    return ROUTES.get(mechanism.route) if is_own(mechanism) else _OF_OTHERS.get(mechanism.name)
