"""The attacks on every registered mechanism: settings, neighbours and view for which its claim is tightest.

The linear loss attains every sensitivity, so most attacks use it. The tables are tiny: a claim says nothing of how
many rows there are. Where a mechanism composes steps, a few steps are enough to see the composition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.audit.attack import (
    RELEASES,
    WEIGHTS,
    Attack,
    Matrix,
    Score,
    Vector,
    lone_pair,
    opposing_pair,
    opposite_pair,
)
from dperm.audit.neighbours import Pair
from dperm.errors import DpermError, InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Softmax
from dperm.mechanisms import (
    AMP,
    DPAGD,
    DPCD,
    DPGD,
    DPSGD,
    DPSVRG,
    NSGD,
    PSGD,
    RSGD,
    RSGDAR,
    SGDMA,
    SSP,
    AdaSSP,
    Auto,
    BoltOn,
    DPSGDAdv,
    FrankWolfe,
    Mechanism,
    NoisySGD,
    Objective,
    ObjectiveKST,
    ObjectivePure,
    Output,
    OutputGD,
    Plan,
    mechanism_names,
    resolve,
)
from dperm.mechanisms.gradient.family import GradientMechanism
from dperm.mechanisms.objective.family import ObjectivePlan
from dperm.mechanisms.output.descent import DescentMechanism
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.problem import Problem

ROWS = 8
OPPOSING = 1000
SECOND = 0.1  # share of the runs for attacks after the first
FEW_RUNS, SYSTEM_RUNS, SOFTMAX_JOBS = 1500, 2000, 500
CENTRED_RUNS = 3000  # they go one by one
CLIP = 0.25  # a quarter of what a gradient of these problems may be
WEAK = 0.6  # n times l2, against a curvature of at most 1
WIDE = 21  # features, so many that ``auto`` centres them
# What runs cost differs by a factor of a hundred. Claims that attacks cannot reach need fewer; so does one whose
# ratio is constant over half of all outputs. ``auto`` chooses what is audited by itself.
_SHARES = {
    "auto": 0.1,
    "nsgd": 2.0,
    "output-gd": 2.0,
    "output": 2.0,
    "objective": 0.9,
    "objective-kst": 0.9,
    "objective-pure": 0.2,
    "amp": 0.3,
    "dp-gd": 0.7,
    "noisy-sgd": 0.7,
    "dp-cd": 0.7,
    "ssp": 1.0,
    "adassp": 1.2,
    "dp-sgd": 0.4,
    "sgd-ma": 0.4,
    "psgd": 0.4,
    "frank-wolfe": 0.2,
    "dp-sgd-adv": 0.03,
    "dp-svrg": 0.1,
    "dp-agd": 0.05,
}
# Claims that no attack of this length can touch; their audits rest on replays and on the checks of noise and draws.
OUT_OF_REACH = {"dp-sgd-adv": "priced exactly, its noise costs less than a hundredth of the claim"}
NEWTON_JOBS = 200  # the solver's time grows with the square of the batch

LINEAR = Problem(loss=Linear(), l2=0.01, x_norm=1.0, n_rows=ROWS, n_features=1)
REMOVED = replace(LINEAR, neighbours=Neighbours.ADD_REMOVE)
LOGISTIC = replace(LINEAR, loss=Logistic())
CLASSES = replace(LINEAR, loss=Softmax(3))
LABEL, GONE = "label of a lone row, linear loss", "lone row removed, linear loss"

_MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Auto(),
        RSGDAR(batch_size=4),
        RSGD(epochs=3, batch_size=4),
        NSGD(epochs=3, batch_size=4),
        OutputGD(iterations=5),
        BoltOn(passes=2, batch_size=4),
        Output(),
        Objective(output_share=1e-5),  # hardly any noise beside that in the objective
        ObjectivePure(),
        ObjectiveKST(output_share=1e-5),
        AMP(tolerance=1e-4),  # its own leaves much noise on the weights of a small table
        DPGD(steps=3),
        DPSGD(steps=2, rate=0.5),
        SGDMA(steps=2, rate=0.25),
        DPAGD(splits=2),
        PSGD(steps=2, batch_size=4),
        DPSGDAdv(steps=8),
        DPSVRG(outer=2, inner=2, rate=0.5),
        NoisySGD(epochs=2, batch_size=ROWS),
        DPCD(passes=3),
        FrankWolfe(steps=12),
        SSP(),
        AdaSSP(),
    )
}


def audited_names() -> tuple[str, ...]:
    """Every registered mechanism that claims to be private."""
    return tuple(name for name in mechanism_names() if resolve(name).private)


def attacks_on(name: str) -> tuple[Attack, ...]:
    """The attacks on a registered mechanism; the first is the one meant to reach its claim."""
    if name not in audited_names():
        raise InvalidInput(
            f"no private mechanism is named {name!r}; choose from {', '.join(audited_names())}."
        )
    mechanism = _MECHANISMS.get(name) or resolve(name)
    first = _SPECIAL.get(name, _label)(mechanism)
    more = (replace(attack, share=attack.share * SECOND) for attack in _more(mechanism))
    return tuple(replace(attack, share=attack.share * _SHARES.get(name, 1.0)) for attack in (first, *more))


def attacks_by(mechanism: Mechanism, problem: Problem, pair: Pair | None = None) -> tuple[Attack, ...]:
    """Attacks on any mechanism for any problem: on what it releases and on its weights, and on the intercept."""
    mine = lone_pair(problem) if pair is None else pair
    found = [Attack(name="lone row, weights", mechanism=mechanism, problem=problem, pair=mine, sees=WEIGHTS)]
    if problem.intercept > 0 and problem.neighbours is Neighbours.REPLACE_ONE:
        found.append(intercept_attack(mechanism, problem))
    return tuple(replace(attack, jobs=_jobs(mechanism)) for attack in found)


def intercept_attack(mechanism: Mechanism, problem: Problem) -> Attack:
    """The label of a row without features: it moves the intercept alone, and the result is all that is seen."""
    return Attack(
        name="intercept alone, weights",
        mechanism=mechanism,
        problem=problem,
        pair=lone_pair(problem, np.zeros(problem.n_features)),
        sees=WEIGHTS,
        jobs=_jobs(mechanism),
    )


def _attack(
    name: str, mechanism: Mechanism, problem: Problem, pair: Pair | None = None, **more: float
) -> Attack:
    return Attack(
        name=name,
        mechanism=mechanism,
        problem=problem,
        pair=lone_pair(problem) if pair is None else pair,
        jobs=_jobs(mechanism),
        delta=more.get("delta"),
    )


def _jobs(mechanism: Mechanism) -> int:
    return NEWTON_JOBS if mechanism.family in ("objective", "auto") else 5000


def _label(mechanism: Mechanism) -> Attack:
    """Under a public order the row stands last, in the batch whose push is decayed least."""
    return _attack(LABEL, mechanism, LINEAR)


def _removal(mechanism: Mechanism) -> Attack:
    return _attack(GONE, mechanism, REMOVED)


def _pure(mechanism: Mechanism) -> Attack:
    return _attack(LABEL, mechanism, LINEAR, delta=0.0)


def _corners(mechanism: Mechanism) -> Attack:
    return replace(_attack(LABEL, mechanism, replace(LINEAR, l2=0.0)), sees=WEIGHTS)


def _moments(mechanism: Mechanism) -> Attack:
    """Two rows at 120 degrees move the first and the second moments together as far as they can."""
    problem = replace(LOGISTIC, n_features=2)
    pair = lone_pair(problem)
    X, y = pair.left
    other = X.copy()
    other[pair.row] = [-0.5, np.sqrt(0.75)]
    return _attack("rows at 120 degrees", mechanism, problem, replace(pair, right=(other, y)))


def _regression(mechanism: Mechanism) -> Attack:
    problem = replace(REMOVED, loss=ClippedSquared())
    return _attack("lone row removed, squared loss", mechanism, problem)


_SPECIAL: dict[str, Callable[[Mechanism], Attack]] = {
    "auto": _removal,
    "objective": _removal,
    "objective-kst": _removal,
    "amp": _removal,
    "objective-pure": _pure,
    "frank-wolfe": _corners,
    "ssp": _moments,
    "adassp": _regression,
}


def _more(mechanism: Mechanism) -> list[Attack]:
    """Second attacks: other losses and relations, and every part of the code that the first one does not run."""
    found = [*_on_the_intercept(mechanism), *_by_family(mechanism)]
    if isinstance(mechanism, GradientMechanism):
        clipped = replace(mechanism, clip=CLIP)
        found += _fitting("label, clipped gradients", clipped, LINEAR)
        found += _fitting("label of one of three, clipped", clipped, CLASSES)
    found += _fitting("label of one of three classes", mechanism, CLASSES)
    found += _centred(mechanism)
    return [*found, _by_the_system(mechanism)]


def _fitting(name: str, mechanism: Mechanism, problem: Problem, pair: Pair | None = None) -> list[Attack]:
    """The attack, where a plan can be made for it."""
    try:
        mechanism.plan(problem, Budget(1.0, 1e-2))
    except DpermError:
        return []
    attack = _attack(name, mechanism, problem, pair)
    slow = mechanism.family in ("objective", "auto") and problem.loss.outputs > 1  # solved one by one
    return [replace(attack, jobs=SOFTMAX_JOBS, most_runs=FEW_RUNS) if slow else attack]


def _on_the_intercept(mechanism: Mechanism) -> list[Attack]:
    with_intercept = replace(LINEAR, x_norm=0.1, intercept=1.0)
    for loss in (Linear(), Logistic(), ClippedSquared()):
        problem = replace(with_intercept, loss=loss)
        if mechanism.misfit(problem) is None:
            return [intercept_attack(mechanism, problem)]
    return []


def _by_family(mechanism: Mechanism) -> list[Attack]:
    found = []
    if mechanism.name in ("rsgd", "rsgd-ar", "bolt-on"):
        found.append(_attack("label, unequal hidden batches", mechanism, replace(LINEAR, l2=0.1)))
    if mechanism.name in ("dp-sgd", "sgd-ma"):
        found.append(_removal(mechanism))
    if isinstance(mechanism, DPGD):
        small = replace(mechanism, step_size=1e-3)
        found.append(_attack("label of a lone row, logistic loss", small, LOGISTIC))
    if isinstance(mechanism, NoisySGD):
        found.append(_attack("label, several hidden batches", replace(mechanism, batch_size=2), LINEAR))
    if mechanism.name in ("objective", "objective-kst", "amp", "auto"):
        found.append(_label(mechanism))
    if isinstance(mechanism, Objective):
        problem = replace(REMOVED, loss=Logistic(), n_rows=OPPOSING)
        attack = _attack("row among opposing ones, logistic loss", mechanism, problem, opposing_pair(problem))
        found += [replace(attack, share=1.5), _curved(mechanism)]
    if mechanism.name == "auto":
        wide = replace(LOGISTIC, n_features=WIDE, intercept=0.1)
        found.append(_attack("mirrored row, many features, centred", mechanism, wide, opposite_pair(wide)))
    return found


def _centred(mechanism: Mechanism) -> list[Attack]:
    """A mirrored row moves the mean as far as it can, and what is computed from the centred rows too."""
    for loss in (Linear(), Logistic(), ClippedSquared()):
        problem = replace(LINEAR, loss=loss, intercept=0.1)
        try:
            centred = replace(mechanism, center=True, accounting="tight")
        except InvalidInput:
            return []
        if attacks := _fitting("mirrored row, centred", centred, problem, opposite_pair(problem)):
            return [replace(attack, most_runs=CENTRED_RUNS) for attack in attacks]
    return []


def _curved(mechanism: Objective) -> Attack:
    """One row removed, hinge loss, little l2: most of the price is that of what the row adds to the Hessian."""
    weak = replace(mechanism, strength=WEAK / ROWS)
    problem = replace(REMOVED, loss=HuberHinge(0.5), l2=WEAK / ROWS)
    attack = _attack("lone row removed, weak l2, exact likelihood", weak, problem)
    return replace(attack, sees=WEIGHTS, score=likelihood_of_curved, share=1.5)


def likelihood_of_curved(plan: Plan) -> Score:
    r"""How much likelier the minimiser is with the lone row than without it, from its exact density.

    The noise that leads to w is :math:`b(w) = -(\phi'(w) + \Lambda w)`, so the density of w is that of b(w) times
    :math:`\phi''(w) + \Lambda`; without the row :math:`\phi = 0`. The little noise on w is left out.
    """
    assert isinstance(plan, ObjectivePlan)
    loss, scale = plan.problem.loss, plan.perturbation.objective.scale
    strength = plan.problem.n_rows * plan.perturbation.problem.l2

    def score(weights: Matrix) -> Vector:
        w = weights[:, 0]
        label = np.ones_like(w)
        with_row, without = strength * w + loss.slope(w, label), strength * w
        more = np.log1p(loss.curvature(w, label) / strength)
        return np.asarray((without**2 - with_row**2) / (2 * scale**2) + more)

    return score


def _by_the_system(mechanism: Mechanism) -> Attack:
    """Everything from the operating system, one fit at a time, where a secret draw of rows pays for most.

    The row stands last, where a secret order that is not drawn would cost most; among samples of a fixed size first.
    """
    problem, row, settings = LINEAR, ROWS - 1, dict[str, Any]()
    if isinstance(mechanism, NoisySGD | DescentMechanism):
        problem = replace(LINEAR, l2=1.0)
        forgetful = {"step_size": 0.8, "batch_size": 1}
        settings = {name: value for name, value in forgetful.items() if name in mechanism.settings}
    elif "rate" in mechanism.settings:
        settings = {"rate": 0.1}
    elif "batch_size" in mechanism.settings:
        row, settings = 0, {"batch_size": 1}
    if "clip" in mechanism.settings:
        settings["clip"] = CLIP
    for loss in (Linear(), Logistic(), ClippedSquared()):
        for chosen in (settings, {}):
            fitted = replace(problem, loss=loss)
            try:
                changed = replace(mechanism, **chosen)
                changed.plan(fitted, Budget(1.0, 1e-2))
            except DpermError:
                continue
            attack = _attack(
                "label, all from the operating system", changed, fitted, lone_pair(fitted, row=row)
            )
            sees = WEIGHTS if isinstance(mechanism, FrankWolfe) else RELEASES  # it releases choices alone
            return replace(attack, system=True, sees=sees, share=1 / SECOND, most_runs=SYSTEM_RUNS)
    raise InvalidInput(f"no attack on {mechanism.name!r} fits its theorem.")
