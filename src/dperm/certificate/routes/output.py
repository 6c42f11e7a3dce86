"""Noise on the result: docs/proofs/output.md and docs/proofs/descent.md, Theorem 4 and Lemma 6, update by update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.accountant import Price, mixture_price
from dperm.certificate.constants import Facts, U, padded
from dperm.certificate.routes.evidence import Evidence
from dperm.errors import InvalidInput

Vector = NDArray[np.float64]

HOW = "Gaussian losses integrated numerically"
HOW_MIXED = "Gaussian losses integrated numerically, averaged over the hidden batch"
MOST_UPDATES = 5_000_000


def minimiser(evidence: Evidence) -> Price:
    facts = evidence.facts
    weights = 2 * facts.R / facts.l2
    error = facts.gradient_error(facts.n, weights) + 4 * U * facts.l2 * weights
    residual = max(evidence.used["tolerance"] * facts.R / facts.n, 3 * error)
    evidence.close("planned, residual", evidence.statement["planned"]["residual"], residual)
    evidence.within("planned, residual and rounding", residual + error, 0.0, facts.R)
    moved = facts.gap / (facts.n * facts.l2) + 2 * (residual + error) / facts.l2
    return _price(evidence, np.ones(1), np.array([moved]), [[moved, 1]])


def descent(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    sizes, steps, averaged = _schedule(evidence)
    evidence.equal("used, batches", used["batches"], len(sizes))
    evidence.equal("used, batch_size", used["batch_size"], int(sizes.max()))
    largest = float(steps.max())
    evidence.close("used, step_size", used["step_size"], largest)
    evidence.within("used, step_size times the smoothness", largest * facts.L, 0.0, 2.0)
    moved = recurrence(facts, sizes, steps, averaged)
    if evidence.name in ("nsgd", "output-gd"):
        return _price(evidence, np.ones(1), moved.max(keepdims=True), _pairs(moved))
    return _price(evidence, sizes / facts.n, moved, _pairs(moved))


def recurrence(facts: Facts, sizes: Vector, steps: Vector, averaged: list[bool]) -> Vector:
    """How far the weights may be apart for every batch of the differing row, one update after the other."""
    shortest = facts.l2 > 0 and steps.max() * facts.l2 <= 1
    weights = min(facts.R * steps.sum(), facts.R / facts.l2) if shortest else facts.R * float(steps.sum())
    apart = np.zeros(len(sizes))
    window, visited = np.zeros(len(sizes)), 0
    for epoch, means in zip(steps, averaged, strict=True):
        for batch, (size, step) in enumerate(zip(sizes, epoch, strict=True)):
            rounding = step * facts.gradient_error(size, weights) + 8 * U * (weights + step * facts.R)
            apart = apart * max(abs(1 - step * facts.l2), abs(1 - step * facts.L)) + 2 * rounding
            apart[batch] += step * facts.gap / size
            window += apart
            visited += 1
        if means:
            apart = window / visited + 2 * (visited + 1) * U * weights
            window, visited = np.zeros(len(sizes)), 0
    return apart


def _schedule(evidence: Evidence) -> tuple[Vector, Vector, list[bool]]:
    """Batches, step sizes and averages, as the proof page of the mechanism states them."""
    facts, used, name = evidence.facts, evidence.used, evidence.name
    passes = used[{"output-gd": "iterations", "bolt-on": "passes"}.get(name, "epochs")]
    batches = used["batches"]
    evidence.within("used, batches", batches, 1, facts.n)
    asked = evidence.statement["mechanism"]["chosen"]["settings"].get("batch_size", facts.n)
    if asked is not None:
        evidence.equal("used, batches", batches, math.ceil(facts.n / asked))
    if passes * batches > MOST_UPDATES:
        raise InvalidInput(f"{passes * batches} updates are too many to check one by one.")
    short, longer = divmod(facts.n, batches)
    sizes = np.array([short + (1 if batch < longer else 0) for batch in range(batches)], float)
    shape = (passes, batches)
    if name == "bolt-on":
        return (
            sizes,
            _bolt_on_steps(facts, used, np.arange(1, passes * batches + 1.0)).reshape(shape),
            [False] * passes,
        )
    first = used["step_size"]
    if name == "output-gd":
        return sizes, np.full(shape, first), [False] * passes
    every = used["average_every"] if name == "rsgd-ar" else passes + 1
    number = [epoch % every + 1 for epoch in range(passes)]
    steps = np.array([[first / since] * batches for since in number])
    return sizes, steps, [since == every for since in number]


def _bolt_on_steps(facts: Facts, used: Mapping[str, Any], t: Vector) -> Vector:
    rule, offset = used["rule"], facts.n ** float(used["exponent"])
    if rule in ("convex-constant", "strong-constant"):
        return np.full(len(t), float(used["step_size"]))
    if rule == "strong-decreasing":
        return np.array([min(1 / facts.L, 1 / (facts.l2 * update)) for update in t])
    if rule == "convex-decreasing":
        return np.asarray(2 / facts.L / (t + offset))
    if rule == "convex-sqrt":
        return np.asarray(2 / facts.L / (np.sqrt(t) + offset))
    raise InvalidInput(f"no step-size rule is named {rule!r}.")


def _price(evidence: Evidence, share: Vector, moved: Vector, branches: list[list[float]]) -> Price:
    """The mixture over the hidden batch, with the noise as stated."""
    (release,) = evidence.once_each((f"{evidence.name} weights", evidence.facts.dimension))
    largest = float(moved.max())
    evidence.close("releases, sensitivity", release.sensitivity, largest)
    stated = evidence.statement["planned"]["branches"]
    evidence.equal("planned, branches", sum(int(n) for _, n in stated), sum(int(n) for _, n in branches))
    if not evidence.faults:
        evidence_of = [value for value, count in stated for _ in range(int(count))]
        expected = [value for value, count in branches for _ in range(int(count))]
        for value, follows in zip(evidence_of, expected, strict=True):
            evidence.close("planned, branches", value, follows)
    centre = evidence.standardisation_mu()
    mu = np.array([padded(value, release.dimension, largest) / release.noise_scale for value in moved])
    return mixture_price(share, np.hypot(mu, centre), HOW if len(moved) == 1 else HOW_MIXED)


def _pairs(values: Vector) -> list[list[float]]:
    return [[float(value), 1] for value in values]
