"""Plans: made from public facts alone, priced right by other people's arithmetic, refused where unproved."""

import dataclasses
import inspect
import math

import mpmath
import numpy as np
import pytest

from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import HuberHinge, Linear, Logistic, Loss, SoftClippedLogistic, Softmax, Weighted
from dperm.mechanisms import (
    NSGD,
    RSGD,
    RSGDAR,
    BoltOn,
    Majority,
    Mechanism,
    NoPrivacy,
    Output,
    OutputGD,
    Plan,
    mechanism_names,
    register,
    resolve,
)
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.output.bolt_on import RULES
from dperm.mechanisms.output.family import DescentMechanism
from dperm.planning.rules import NOISY_RESULT, against_descent_noise
from dperm.privacy import Budget, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours

mp = mpmath.MPContext()
mp.dps = 50

RAW = {"standardise": False}
USUAL = {"epochs": 20, "batch_size": 4000, **RAW}
BOLT_ON = BoltOn(passes=10, batch_size=400, rule="strong-decreasing", **RAW)
MIXTURES: list[Mechanism] = [
    RSGDAR(**USUAL, average_every=10),
    RSGD(**USUAL),
    BOLT_ON,
    RSGDAR(epochs=7, batch_size=4000, average_every=3, **RAW),
]
SINGLE: list[Mechanism] = [NSGD(**USUAL), OutputGD(iterations=20, **RAW), Output(**RAW)]
PRIVATE = [*MIXTURES, *SINGLE]
DESCENTS = [mechanism for mechanism in PRIVATE if isinstance(mechanism, DescentMechanism)]
OPEN: list[Mechanism] = [RSGDAR(**RAW), RSGD(**RAW), BoltOn(**RAW), NSGD(**RAW), OutputGD(**RAW)]
BUDGETS = [Budget(0.05, 1e-8), Budget(1.0, 1e-6), Budget(8.0, 1e-5)]


def problem(loss: Loss | None = None, **facts: object) -> Problem:
    defaults = {"l2": 1e-3, "x_norm": 1.0, "n_rows": 10_301, "n_features": 20, "intercept": 1.0}
    return Problem(loss=loss or Logistic(), **{**defaults, **facts})  # type: ignore[arg-type]


def scale(mechanism: Mechanism, budget: Budget, facts: Problem) -> float:
    noise = mechanism.plan(facts, budget).noise
    assert noise is not None
    return noise.scale


def with_clip(mechanism: Mechanism, clip: float | str | None) -> Mechanism:
    """Where the mechanism has one."""
    given = {"clip": clip} if isinstance(mechanism, LossClippingMechanism) else {}
    return dataclasses.replace(mechanism, **given)


def with_step(mechanism: Mechanism, step: float) -> Mechanism:
    """Where the step would else follow the budget and the loss."""
    chosen = isinstance(mechanism, DescentMechanism) and not isinstance(mechanism, BoltOn)
    return dataclasses.replace(mechanism, **{"step_size": step} if chosen else {})


def delta_of_mixture(share: list, mu: list, epsilon: float) -> mpmath.mpf:
    """Delta of Gaussians behind a hidden branch, in 50 digits, straight from the definition."""

    def one(m: mpmath.mpf) -> mpmath.mpf:
        return mp.ncdf(-epsilon / m + m / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / m - m / 2)

    return mp.fsum(mp.mpf(q) * one(mp.mpf(m)) for q, m in zip(share, mu, strict=True))


def branches(plan: Plan, sensitivities: np.ndarray) -> tuple[list, list]:
    """Chance and sensitivity of each batch, worked out here from the numbers of rows and batches."""
    if plan.mechanism.name not in ("rsgd-ar", "rsgd", "bolt-on"):
        return [1], [float(sensitivities.max())]
    facts, given = plan.problem, plan.mechanism.settings["batch_size"]
    count = math.ceil(facts.n_rows / (given or plan.settings["batch_size"]))  # type: ignore[operator]
    sizes = [facts.n_rows // count + (k < facts.n_rows % count) for k in range(count)]
    return [mp.mpf(size) / facts.n_rows for size in sizes], [float(s) for s in sensitivities]


@pytest.mark.cover(1)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("mechanism", [*PRIVATE, *OPEN], ids=repr)
def test_the_noise_meets_the_budget_in_fifty_digits(mechanism: Mechanism, budget: Budget) -> None:
    plan = mechanism.plan(problem(), budget)
    assert plan.noise is not None
    assert plan.sensitivities is not None
    assert plan.noise.sensitivity == plan.sensitivities.max()
    assert plan.noise.dimension == 21
    share, sensitivity = branches(plan, plan.sensitivities)
    reached = delta_of_mixture(share, [s / plan.noise.scale for s in sensitivity], budget.epsilon)
    assert reached <= budget.delta
    with_less = delta_of_mixture(share, [s / (0.999 * plan.noise.scale) for s in sensitivity], budget.epsilon)
    assert with_less > budget.delta  # the calibration is not wasteful either


@pytest.mark.cover(1)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("mechanism", SINGLE, ids=repr)
def test_the_noise_meets_the_budget_by_dp_accounting(mechanism: Mechanism, budget: Budget) -> None:
    from dp_accounting.pld import privacy_loss_distribution

    plan = mechanism.plan(problem(), budget)
    assert plan.noise is not None
    multiplier = plan.noise.scale / plan.noise.sensitivity
    distribution = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier, value_discretization_interval=budget.epsilon * 1e-4
    )
    epsilon = distribution.get_epsilon_for_delta(budget.delta)
    assert 0.99 * budget.epsilon <= epsilon <= 1.001 * budget.epsilon  # its discretisation is pessimistic


@pytest.mark.parametrize("mechanism", [*PRIVATE, *OPEN], ids=repr)
def test_the_profile_carried_by_the_plan_is_the_one_of_its_noise(mechanism: Mechanism) -> None:
    budget = Budget(1.0, 1e-8)
    plan = mechanism.plan(problem(), budget)
    assert plan.noise is not None
    assert plan.profile is not None
    assert plan.profile.delta(budget.epsilon) <= budget.delta
    assert plan.profile.mu.max() >= plan.noise.sensitivity / plan.noise.scale
    assert plan.profile.mu.max() <= plan.noise.sensitivity / plan.noise.scale * (1 + 1e-6)
    assert plan.private


# Tight against paper.


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("budget", [Budget(0.05, 1e-8), Budget(1.0, 1e-8), Budget(0.3, 1e-5)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(
    "mechanism",
    [
        *MIXTURES[:2],
        *SINGLE[1:],
        *(BoltOn(passes=10, batch_size=50, rule=rule, **RAW) for rule in RULES),
    ],
    ids=repr,
)
def test_tight_noise_is_never_above_paper_noise(
    mechanism: Mechanism, relation: Neighbours, budget: Budget
) -> None:
    """Of one loss: by rule the tight accounting clips it and that of the paper does not."""
    facts, mechanism = problem(neighbours=relation), with_clip(mechanism, None)
    paper = dataclasses.replace(mechanism, accounting="paper")
    tight_scale, paper_scale = scale(mechanism, budget, facts), scale(paper, budget, facts)
    assert tight_scale < 0.97 * paper_scale
    assert paper.plan(facts, budget).accountant != mechanism.plan(facts, budget).accountant


def test_tight_noise_of_nsgd_is_below_paper_noise() -> None:
    facts, budget = problem(), Budget(1.0, 1e-8)
    mechanism = NSGD(**USUAL, clip=None)
    assert scale(mechanism, budget, facts) < 0.9 * scale(
        dataclasses.replace(mechanism, accounting="paper"), budget, facts
    )


def clip_by_rule(facts: Problem, budget: Budget) -> float:
    moved = facts.neighbours.rows_changed / 2 * math.sqrt(facts.dimension)
    level = moved / (facts.n_rows * gaussian_mu(budget))
    return min(max(0.5 * (0.0015 / level) ** 0.25, 0.35), 0.5)


@pytest.mark.together
@pytest.mark.parametrize("budget", [Budget(0.05, 1e-8), Budget(1.0, 1e-8), Budget(8.0, 1e-5)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("mechanism", DESCENTS, ids=repr)
def test_a_clip_makes_the_noise_for_given_steps_smaller_by_its_slope(
    mechanism: Mechanism, relation: Neighbours, budget: Budget
) -> None:
    """A row then moves every gradient that much less. Steps of bolt-on's rules follow the curvature, which falls."""
    facts = problem(l2=1e-5, neighbours=relation)
    if mechanism.misfit(facts) is not None:
        pytest.skip("not for this relation")
    mechanism = with_step(mechanism, 0.5)
    plain = scale(with_clip(mechanism, None), budget, facts)
    for clip in ("auto", 0.4):
        clipped = with_clip(mechanism, clip)
        used = clipped.plan(facts, budget).settings["clip"]
        assert used == pytest.approx(clip_by_rule(facts, budget) if clip == "auto" else clip, rel=1e-12)
        share = scale(clipped, budget, facts) / plain
        if isinstance(mechanism, BoltOn):
            assert used < share < 1
        else:
            assert share == pytest.approx(used, rel=1e-6)


@pytest.mark.parametrize("mechanism", [*MIXTURES[:2], OutputGD(iterations=20, **RAW), BOLT_ON], ids=repr)
def test_the_accounting_of_the_paper_clips_only_where_it_is_told_to(mechanism: Mechanism) -> None:
    facts, budget = problem(), Budget(0.5, 1e-8)
    by_rule, none, given = (
        dataclasses.replace(with_clip(mechanism, clip), accounting="paper").plan(facts, budget)
        for clip in ("auto", None, 0.4)
    )
    assert by_rule.problem == none.problem == facts
    assert by_rule.noise == none.noise
    assert by_rule.settings == none.settings
    assert given.problem.loss == SoftClippedLogistic(0.4, 0.7)
    assert with_clip(mechanism, "auto").plan(facts, budget).problem.loss != facts.loss


# Noise by the paper's accounting and by ours, and the clip by rule, None where l2 is far above its own.
TABLE = {
    0.05: (0.12856, 0.09342, 0.35),
    0.1: (0.06433, 0.04822, 0.36757),
    0.5: (0.01294, 0.01037, None),
    1.0: (0.006513, 0.005369, None),
}


@pytest.mark.together
@pytest.mark.parametrize("epsilon", TABLE)
def test_known_noise_of_rsgd_ar(epsilon: float) -> None:
    """m = 10, b = 4000, 20 epochs, averages every 10, step 0.5/h, l2 = 1e-3, R = 1, delta = 1e-8."""
    facts = problem(n_rows=40_000, intercept=0.0)
    mechanism = RSGDAR(**USUAL, step_size=0.5, average_every=10, clip=None)
    budget = Budget(epsilon, 1e-8)
    paper, tight, clip = TABLE[epsilon]
    assert scale(mechanism, budget, facts) == pytest.approx(tight, rel=5e-4)
    by_rule = with_clip(mechanism, "auto").plan(facts, budget)
    assert by_rule.settings["clip"] == (clip if clip is None else pytest.approx(clip, rel=1e-4))
    for clipped, slope in ((with_clip(mechanism, 0.4), 0.4), (by_rule.mechanism, clip or 1.0)):
        assert scale(clipped, budget, facts) == pytest.approx(slope * tight, rel=5e-4)
    for clip in (None, "auto"):
        of_paper = dataclasses.replace(with_clip(mechanism, clip), accounting="paper")
        assert scale(of_paper, budget, facts) == pytest.approx(paper, rel=5e-4)


@pytest.mark.parametrize("mechanism", [OutputGD(), Output(), BoltOn()], ids=repr)
def test_the_classic_formula_is_refused_above_epsilon_one(mechanism: Mechanism) -> None:
    paper = dataclasses.replace(mechanism, accounting="paper")
    assert scale(paper, Budget(1.0, 1e-8), problem()) > 0
    with pytest.raises(NotCertified):
        paper.plan(problem(), Budget(1.0001, 1e-8))
    assert scale(mechanism, Budget(1.0001, 1e-8), problem()) > 0


def test_a_paper_scale_that_is_too_small_is_refused() -> None:
    """The paper's scale is checked against the exact profile, so a wrong constant cannot pass."""

    class HalfNoise(RSGD):
        def paper_scale(self, *args: object) -> float:
            return super().paper_scale(*args) / 2  # type: ignore[arg-type]

    with pytest.raises(NotCertified, match="paper"):
        HalfNoise(accounting="paper").plan(problem(), Budget(1.0, 1e-8))


# Monotone.


@pytest.mark.parametrize(
    ("mechanism", "clip"),
    [
        *((mechanism, clip) for mechanism in DESCENTS for clip in (None, "auto")),
        *((Output(**RAW), clip) for clip in (None, "auto")),
    ],
    ids=repr,
)
def test_noise_falls_with_epsilon_delta_and_rows_and_grows_with_the_bound(
    mechanism: Mechanism, clip: str | None
) -> None:
    """A clip by rule grows with budget and rows.

    More rows in batches of one size hardly lessen the noise, so there it falls for each unit of the slope alone.
    """
    mechanism, usual = with_clip(mechanism, clip), Budget(1.0, 1e-6)

    def noise(budget: Budget = usual, step: float = 2.0, **facts: object) -> tuple[float, float]:
        plan = with_step(mechanism, step).plan(problem(l2=1e-5 if clip else 1e-3, **facts), budget)
        assert isinstance(plan.problem.loss, SoftClippedLogistic) == (clip is not None)
        assert plan.noise is not None
        return plan.noise.scale, plan.noise.scale / plan.problem.loss.lipschitz

    here, per_slope = noise()
    for more in (Budget(2.0, 1e-6), Budget(1.0, 1e-5)):
        assert noise(more)[0] < here
        assert noise(more)[1] < per_slope
    assert noise(n_rows=20_602)[1] < per_slope
    if mechanism.name in ("output", "output-gd"):
        assert noise(n_rows=20_602)[0] < 0.51 * 2**0.25 * here
    if not isinstance(mechanism, BoltOn):
        grown = [noise(step=0.5, x_norm=r, intercept=r)[0] for r in (0.5, 1.0, 1.5)]
        assert grown == sorted(grown)
        assert grown[0] < grown[-1]
    if Neighbours.ADD_REMOVE in mechanism.relations:
        halved = noise(neighbours=Neighbours.ADD_REMOVE)
        assert halved[1] < 0.51 * per_slope
        assert halved[0] < 0.51 * 2**0.25 * here


BY_RULE: list[DescentMechanism] = [
    *(kind() for kind in (RSGDAR, RSGD, NSGD, OutputGD)),
    *(BoltOn(rule=rule) for rule in RULES),
]


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("mechanism", BY_RULE, ids=repr)
def test_by_rule_the_loss_is_clipped_unless_l2_is_far_above_its_rule(
    mechanism: DescentMechanism, budget: Budget, standardise: bool
) -> None:
    """Where it is kept, the plan is that of a mechanism without a clip."""
    mechanism = dataclasses.replace(mechanism, standardise=standardise)
    rule, clip = mechanism.regularised(problem(), budget).l2, clip_by_rule(problem(), budget)
    clipped = problem(loss=SoftClippedLogistic(clip, 0.7))
    most = max(2.0, 40 * against_descent_noise(clipped, budget, NOISY_RESULT) / rule)
    for factor in (1e-3, 1.0, 0.99 * most, 1.01 * most, 1e3 * most):
        facts = problem(l2=factor * rule)
        plan, plain, given = (with_clip(mechanism, clip).plan(facts, budget) for clip in ("auto", None, 0.4))
        assert plain.problem == facts
        assert given.problem.loss == SoftClippedLogistic(0.4, 0.7)
        if factor < most:
            assert plan.settings["clip"] == pytest.approx(clip, rel=1e-12)
            assert plan.problem.loss == SoftClippedLogistic(plan.settings["clip"], 0.7)
            assert plan.problem == dataclasses.replace(facts, loss=plan.problem.loss)
        else:
            assert plan.problem == plain.problem
            assert plan.noise == plain.noise
            assert plan.settings == plain.settings


@pytest.mark.together
@pytest.mark.parametrize("clip", ["auto", 0.4])
@pytest.mark.parametrize("kind", [RSGDAR, RSGD, NSGD, OutputGD, BoltOn])
def test_of_weighted_rows_the_base_is_clipped_and_other_losses_are_kept(
    kind: type[DescentMechanism], clip: float | str
) -> None:
    mechanism, budget = kind(clip=clip), Budget(0.5, 1e-8)
    used = mechanism.plan(problem(), budget).settings["clip"]
    weighted = mechanism.plan(problem(Weighted(Logistic(), 5.0)), budget)
    assert weighted.problem.loss == Weighted(SoftClippedLogistic(used, 0.7), 5.0)  # type: ignore[arg-type]
    assert weighted.settings["clip"] == used
    for loss in (HuberHinge(), Softmax(3), SoftClippedLogistic(0.9, 0.2), Weighted(HuberHinge(), 5.0)):
        plan = mechanism.plan(problem(loss), budget)
        assert plan.problem.loss == loss
        assert plan.settings["clip"] == (0.9 if isinstance(loss, SoftClippedLogistic) else None)


# Refusals before any data.


def test_a_misfit_is_said_before_any_data() -> None:
    without = problem(l2=0.0)
    assert Output().misfit(without) == "it needs l2 > 0"
    for rule in RULES:
        assert (BoltOn(rule=rule).misfit(without) is not None) == rule.startswith("strong")
        assert BoltOn(rule=rule).misfit(problem()) is None
    for mechanism in (Output(), BoltOn(accounting="paper"), BoltOn(rule="strong-constant")):
        with pytest.raises(Unsupported, match="l2 > 0"):
            mechanism.plan(without, Budget(1.0, 1e-8))
    for mechanism in (RSGDAR(), RSGD(), NSGD(), OutputGD(), BoltOn(), BoltOn(rule="convex-sqrt")):
        assert mechanism.plan(without, Budget(1.0, 1e-8)).noise is not None
    assert Majority().misfit(problem(intercept=0.0)) is not None


def test_public_order_is_refused_when_rows_may_be_removed() -> None:
    """Without a secret order a removed row moves all later rows to other batches: that is not proved."""
    facts = problem(neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(Unsupported, match="add-remove"):
        NSGD(batch_size=100).plan(facts, Budget(1.0, 1e-8))
    for mechanism in (RSGD(), RSGDAR(), OutputGD(), Output(), BoltOn()):
        assert mechanism.misfit(facts) is None


@pytest.mark.parametrize("mechanism", [RSGDAR(), RSGD(), NSGD(), OutputGD()], ids=repr)
def test_a_loss_without_curvature_needs_a_step_or_l2(mechanism: Mechanism) -> None:
    flat = problem(Linear(), l2=0.0)
    with pytest.raises((InvalidInput, Unsupported, NotCertified)):
        mechanism.plan(flat, Budget(1.0, 1e-8))
    given = dataclasses.replace(mechanism, step_size=1.0)
    assert given.plan(flat, Budget(1.0, 1e-8)).noise is not None


@pytest.mark.parametrize("rule", RULES)
def test_paper_accounting_of_bolt_on_survives_a_linear_loss(rule: str) -> None:
    """L = l2 makes the contraction of a constant step 1/L zero."""
    plan = BoltOn(rule=rule, accounting="paper").plan(problem(Linear(), l2=0.1), Budget(1.0, 1e-8))
    assert plan.noise is not None


@pytest.mark.together
@pytest.mark.parametrize("n_rows", [10_000, 300_000, 3_000_000])
def test_output_gd_is_certified_at_its_limit_for_large_tables(n_rows: int) -> None:
    """The closed-form check must leave room for the rounding that the sensitivity itself includes."""
    facts = problem(n_rows=n_rows, l2=1.0)
    assert OutputGD(iterations=100).plan(facts, Budget(1.0, 1e-8)).noise is not None


def test_a_residual_too_large_for_the_rounding_bound_is_refused() -> None:
    """The bound on float64 errors assumes weights below 2R/l2, which a huge tolerance or a tiny l2 breaks."""
    with pytest.raises(NotCertified):
        Output(tolerance=1e9).plan(problem(), Budget(1.0, 1e-8))
    with pytest.raises(NotCertified):
        Output().plan(problem(l2=1e-16), Budget(1.0, 1e-8))


@pytest.mark.together
@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (RSGDAR, {"average_every": 0}),
        (RSGDAR, {"epochs": 2.5}),
        (RSGD, {"epochs": True}),
        (RSGD, {"batch_size": -3}),
        (NSGD, {"step_size": 0.0}),
        (NSGD, {"step_size": math.nan}),
        (OutputGD, {"iterations": 0}),
        (OutputGD, {"step_size": -1.0}),
        (OutputGD, {"clip": 0.0}),
        (OutputGD, {"clip": 1.0}),
        (RSGDAR, {"clip": -0.4}),
        (RSGD, {"clip": "none"}),
        (RSGD, {"clip": math.nan}),
        (NSGD, {"clip": True}),
        (BoltOn, {"passes": 0}),
        (BoltOn, {"rule": "fast"}),
        (BoltOn, {"exponent": 1.0}),
        (BoltOn, {"exponent": -0.1}),
        (BoltOn, {"rule": "convex-sqrt", "step_size": 0.1}),
        (Output, {"tolerance": 0.0}),
        (Output, {"tolerance": math.inf}),
        (Output, {"accounting": "loose"}),
        (NoPrivacy, {"tolerance": -1.0}),
        (NoPrivacy, {"accounting": "paper"}),
        (Majority, {"accounting": "paper"}),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: type[Mechanism], wrong: dict) -> None:
    with pytest.raises(InvalidInput):
        make(**wrong)


@pytest.mark.parametrize("mechanism", [RSGDAR(), Output(), BoltOn()], ids=repr)
def test_budgets_that_gaussian_noise_cannot_meet_are_refused(mechanism: Mechanism) -> None:
    with pytest.raises(InvalidInput):
        mechanism.plan(problem(), Budget(1.0, 0.0))


def test_baselines_promise_nothing() -> None:
    for baseline in (NoPrivacy(), Majority()):
        plan = baseline.plan(problem(), Budget(1.0, 1e-8))
        assert not plan.private
        assert plan.profile is None
        assert not baseline.private
        assert "not private" in plan.accountant


# A plan sees no row.


@pytest.mark.together
@pytest.mark.parametrize("name", mechanism_names())
def test_a_plan_takes_no_data(name: str) -> None:
    assert list(inspect.signature(resolve(name).plan).parameters) == ["problem", "budget", "inference"]


def test_a_problem_holds_public_facts_alone() -> None:
    fields = {f.name for f in dataclasses.fields(Problem)}
    known = "loss l2 x_norm n_rows n_features intercept neighbours arithmetic persons"
    assert fields == set(known.split())


def test_settings_of_the_plan_are_the_ones_used() -> None:
    budget = Budget(1.0, 1e-8)
    plan = RSGDAR(epochs=6, batch_size=4000, step_size=0.7, average_every=4).plan(problem(), budget)
    assert plan.settings["epochs"] == 6
    assert plan.settings["batches"] == 3
    assert plan.settings["batch_size"] == 3434
    assert plan.settings["step_size"] == 0.7
    assert plan.settings["average_every"] == 4
    unclipped, given_clip = ([with_clip(mechanism, clip) for mechanism in OPEN] for clip in (None, 0.4))
    for mechanism in (RSGDAR(epochs=6), *OPEN, *unclipped, *given_clip):
        plan = mechanism.plan(problem(), budget)
        unset = {name for name, value in plan.settings.items() if value is None}
        assert unset == ({"clip"} if mechanism in unclipped else set())
        given = {name: value for name, value in mechanism.settings.items() if value not in (None, "auto")}
        assert {name: plan.settings[name] for name in given} == given
        assert plan.settings["clip"] == getattr(plan.problem.loss, "clip", None)
        rounds = {"output-gd": "iterations", "bolt-on": "passes"}.get(mechanism.name, "epochs")
        schedule = plan.schedule  # type: ignore[attr-defined]
        assert schedule.step_sizes.shape == (plan.settings[rounds], plan.settings["batches"])
        assert schedule.step_sizes.max() == plan.settings["step_size"]
        assert max(schedule.batch_sizes) == plan.settings["batch_size"]


def test_bolt_on_by_the_paper_is_the_papers_own() -> None:
    paper = BoltOn(accounting="paper").plan(problem(), Budget(1.0, 1e-8)).settings
    own = {"rule": "strong-decreasing", "passes": 10, "batch_size": 50, "batches": 207}
    assert {name: paper[name] for name in own} == own
    open_rule = BoltOn().plan(problem(), Budget(1.0, 1e-8)).settings
    assert open_rule["rule"] == "convex-constant"


# Names.


def test_mechanisms_are_found_by_name() -> None:
    assert set(mechanism_names()) >= {
        "rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output", "none", "majority",
    }  # fmt: skip
    for name in mechanism_names():
        assert resolve(name).name == name
    assert resolve("rsgd:paper") == RSGD(accounting="paper")
    assert resolve("output:tight") == Output()
    assert resolve(RSGD(epochs=3)) == RSGD(epochs=3)


@pytest.mark.together
@pytest.mark.parametrize("wrong", ["sgd", "", "rsgd:loose", "none:paper", 3, None, RSGD])
def test_unknown_names_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput):
        resolve(wrong)  # type: ignore[arg-type]


def test_a_name_is_given_once() -> None:
    class Impostor(RSGD):
        pass

    assert register(RSGD) is RSGD
    with pytest.raises(InvalidInput, match="registered already"):
        register(Impostor)


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=repr)
@pytest.mark.parametrize("mechanism", PRIVATE, ids=repr)
def test_every_private_mechanism_uses_up_its_budget_with_both_losses(
    mechanism: Mechanism, loss: Loss
) -> None:
    profile = mechanism.plan(problem(loss), Budget(0.1, 1e-8)).profile
    assert profile is not None
    assert 0.999e-8 < profile.delta(0.1) <= 1e-8
