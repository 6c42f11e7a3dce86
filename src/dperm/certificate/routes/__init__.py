"""One module per family: sensitivities by the formulas of its proof page, then a price by the second accountant."""

from __future__ import annotations

from collections.abc import Callable

from dperm.certificate.accountant import Price
from dperm.certificate.routes import gradient, noisy_sgd, objective, output, sampled, statistics, zcdp
from dperm.certificate.routes.evidence import Evidence

Route = Callable[[Evidence], Price]

ROUTES: dict[str, Route] = {
    "output": output.minimiser,
    "output-gd": output.descent,
    "rsgd-ar": output.descent,
    "rsgd": output.descent,
    "nsgd": output.descent,
    "bolt-on": output.descent,
    "objective": objective.gaussian,
    "objective-kst": objective.gaussian,
    "amp": objective.gaussian,
    "dp-gd": gradient.full_batches,
    "dp-cd": gradient.coordinates,
    "noisy-sgd": noisy_sgd.last_iterate,
    "dp-sgd": sampled.poisson,
    "sgd-ma": sampled.poisson,
    "psgd": sampled.fixed_size,
    "dp-sgd-adv": sampled.fixed_size,
    "dp-svrg": sampled.variance_reduced,
    "dp-agd": zcdp.adaptive_steps,
    "frank-wolfe": zcdp.corners,
    "ssp": statistics.pair,
    "adassp": statistics.three,
}
