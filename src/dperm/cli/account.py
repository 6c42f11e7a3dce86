"""``dperm account``: how much noise a guarantee costs, from public facts alone."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
import numpy as np
from rich.table import Table

from dperm.certificate.assumptions import cautions
from dperm.certificate.statement import describe_loss
from dperm.cli import options
from dperm.cli.grammar import read_mechanism
from dperm.cli.output import console, plain_table, print_json, warn
from dperm.errors import DpermError, InvalidInput
from dperm.estimators.labels import weighted
from dperm.estimators.persons import declared_persons, loss_of_persons
from dperm.losses import ClippedSquared, Loss, resolve_loss
from dperm.losses.registry import AUTO_LOSS, fitting_loss, form_for
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.auto import Auto, choose
from dperm.mechanisms.output.family import DescentPlan
from dperm.planning.pricing import TIGHT, price_branches
from dperm.planning.rules import L2
from dperm.privacy import Budget, calibrate_rdp
from dperm.privacy.budget import EPSILON_RANGE, DeltaCurve, advantage, tradeoff
from dperm.privacy.events import Point, Unbounded
from dperm.problem import Problem
from dperm.unit import Neighbours, PersonLoss


@click.command(short_help="How much noise a guarantee costs; no data needed.")
@options.mechanism_option
@click.option(
    "--n", "n_rows", type=int, show_default="none", help="Number of rows; with add-remove give --max-rows."
)
@options.persons_option
@options.person_loss_option
@options.max_rows_per_person_option
@click.option("--epsilon", type=float, show_default="none", help="Privacy budget ε; smaller is more private.")
@click.option(
    "--tpr",
    type=float,
    show_default="none",
    help="Instead of ε, with --fpr: the most true positives of any attacker.",
)
@click.option("--fpr", type=float, show_default="none", help="The false positives at which --tpr must hold.")
@click.option(
    "--advantage",
    type=float,
    show_default="none",
    help="Instead of ε: the most that true may exceed false positives.",
)
@click.option(
    "--delta", type=float, required=True, help="Privacy budget δ; far below one over the number of rows."
)
@click.option("--features", type=int, default=100, show_default=True, help="Number of features.")
@options.loss_option
@click.option(
    "--classes",
    type=int,
    show_default="2",
    help="Number of classes of the target; above 2 the softmax loss.",
)
@click.option(
    "--residual-bound",
    type=float,
    show_default="1.0",
    help="For linear regression: residuals count squared up to this size.",
)
@click.option(
    "--weight-bound",
    type=click.FloatRange(1e-9, 1e9),
    show_default="all weigh 1",
    help="Largest weight of a row: of a class, or of a sample.",
)
@options.task_options
@click.option(
    "--x-norm", type=float, default=1.0, show_default=True, help="Bound on the norm of a row of features."
)
@click.option("--no-intercept", is_flag=True, help="Leave out the constant column.")
@options.json_option
def account(
    mechanism: str,
    n_rows: int | None,
    n_persons: int | None,
    person_loss: str | None,
    max_rows_per_person: int | None,
    epsilon: float | None,
    tpr: float | None,
    fpr: float | None,
    advantage: float | None,
    delta: float,
    features: int,
    loss: str,
    classes: int | None,
    residual_bound: float | None,
    weight_bound: float | None,
    l2: L2,
    neighbours: str,
    max_rows: int | None,
    x_norm: float,
    no_intercept: bool,
    as_json: bool,
) -> None:
    """Show the noise that an (ε, δ) guarantee needs and what it leaves to an attacker, before any data is touched.

    The guarantee is given by --epsilon, or by the risk: --tpr and --fpr, or --advantage, for an attacker who knows
    every row but one. The table compares our exact accounting with the paper's own and others, for one training: loss,
    settings and standardisation are those that NAME, or NAME:paper, trains with. With NAME:paper the risk is that of
    the paper's noise. It is the privacy cost of one mechanism; dperm plan says what the default is expected to lose in
    accuracy.

    \b
    Examples:
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8
      dperm account --n 50000 --tpr 0.05 --fpr 0.01 --delta 1e-8
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8 \\
          --mechanism dp-gd --features 784 --classes 10
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8 \\
          --mechanism 'bolt-on batch_size=100'
      dperm account --neighbours add-remove --max-rows 50000 \\
          --epsilon 0.5 --delta 1e-8
      dperm account --persons 20000 --epsilon 0.5 --delta 1e-8
    """
    asked = read_mechanism(mechanism)
    minimised = _loss(loss, classes, residual_bound)
    n_units, _ = options.units(
        neighbours,
        n_rows,
        max_rows,
        n_persons,
        "give --n, the number of rows; or --neighbours add-remove and --max-rows.",
    )
    persons = declared_persons(
        n_persons is not None, person_loss or PersonLoss.MEAN.value, max_rows_per_person, n_units
    )
    problem = Problem.for_table(
        n_units,
        features,
        loss=loss_of_persons(weighted(minimised, None, weight_bound), persons),
        l2=l2 if isinstance(l2, float) else 0.0,
        x_norm=x_norm,
        fit_intercept=not no_intercept,
        neighbours=Neighbours.parse(neighbours),
        persons=persons,
    )
    budget = _budget(delta, epsilon=epsilon, tpr=tpr, fpr=fpr, advantage=advantage)
    if not isinstance(l2, float):
        problem = asked.regularised(problem, budget)
    chosen, why = asked, None
    problem = replace(problem, loss=asked.trained_loss(problem, budget))
    if isinstance(asked, Auto):
        chosen, why = choose(problem, budget, asked.variant(problem, budget))
    plan, prices = price(chosen, problem, budget)
    cautioned = cautions(problem, budget, plan.private)
    for caution in cautioned:
        warn(caution.text)
    settings = {key: value for key, value in plan.settings.items() if key != "accounting"}
    if as_json:
        public = {
            "mechanism": asked.name,
            "chosen": chosen.name,
            "why": why,
            "accounting": chosen.accounting,
            "epsilon": budget.epsilon,
            "delta": delta,
            "n_rows": problem.n_rows,
            "unit": problem.unit,
            "neighbours": neighbours,
            "loss": minimised.name if loss == AUTO_LOSS else loss,
            "trained_loss": describe_loss(problem.loss),
            "classes": classes,
            "l2": problem.l2,
            "settings": settings,
            "cautions": [caution.text for caution in cautioned],
            "not_certified": plan.not_certified,
        }
        risk = risk_of(plan) if plan.not_certified is None else None
        print_json({**public, "prices": [asdict(p) for p in prices], "risk": risk})
        return
    _show(plan, asked, why, minimised, settings, prices)
    if plan.not_certified is None:
        show_risk(plan)
    else:
        console().print(f"\nThe guarantee does NOT hold, so no risk follows from it: {plan.not_certified}")


def _budget(
    delta: float, *, epsilon: float | None, tpr: float | None, fpr: float | None, advantage: float | None
) -> Budget:
    """The budget that was given, or the largest that keeps every mechanism within the risk that was given.

    The latter is rounded down to the digits that are shown, so that they can be copied.
    """
    if (tpr is None) != (fpr is None):
        raise click.UsageError("--tpr and --fpr belong together.")
    if sum(choice is not None for choice in (epsilon, tpr, advantage)) != 1:
        raise click.UsageError("give one of --epsilon, --tpr with --fpr, and --advantage.")
    if epsilon is not None:
        return Budget(epsilon, delta)
    if tpr is not None and fpr is not None:
        largest = Budget.from_attack(tpr=tpr, fpr=fpr, delta=delta).epsilon
    else:
        assert advantage is not None
        largest = Budget.from_advantage(advantage, delta=delta).epsilon
    unit = 10.0 ** (math.floor(math.log10(largest)) - 4)
    return Budget(max(float(f"{math.floor(largest / unit) * unit:.5g}"), EPSILON_RANGE[0]), delta)


def _loss(name: str, classes: int | None, residual_bound: float | None) -> Loss:
    if residual_bound is not None and name != "squared":
        raise click.UsageError("--residual-bound belongs to --loss squared.")
    if residual_bound is not None:
        return ClippedSquared(residual_bound)
    if name != AUTO_LOSS and resolve_loss(name).labels == "real":
        if classes is not None:
            raise click.UsageError(f"--classes is for targets of classes; --loss {name} is for numbers.")
        return resolve_loss(name)
    n_classes = 2 if classes is None else classes
    if n_classes < 2:
        raise click.UsageError(f"--classes is at least 2; got {n_classes}.")
    loss = form_for(resolve_loss(fitting_loss(name, n_classes)), n_classes)
    assert loss is not None  # since it is for so many
    return loss


RENYI_CKS = "Rényi divergence over the batches, converted as in Canonne, Kamath & Steinke (2020)"


@dataclass(frozen=True)
class Price:
    """The noise that one way of accounting asks for; without one, ``reason`` says why."""

    accounting: str
    accountant: str
    sensitivity: float | None = None
    noise_scale: float | None = None
    ratio: float | None = None
    reason: str | None = None


def price(mechanism: Mechanism, problem: Problem, budget: Budget) -> tuple[Plan, list[Price]]:
    """The plan, and for the same training the noise of either accounting and, for a secret order, of two others.

    ``worst batch alone`` forgets that the batch of the differing row is hidden. ``Rényi + CKS`` is the
    paper's Rényi divergence with a later, better conversion. ``ratio`` is relative to the tight scale.
    """
    if not mechanism.private:
        raise InvalidInput(f"mechanism {mechanism.name!r} is a baseline without noise; choose a private one.")
    plan = mechanism.plan(problem, budget)
    problem, same = plan.problem, mechanism.as_planned(plan)

    def planned(accounting: str) -> Plan:
        other = accounting != mechanism.accounting
        return replace(same, accounting=accounting).plan(problem, budget) if other else plan

    tight = planned("tight")
    sensitivity, scale = _noise(tight)
    prices = [("tight", tight.accountant, sensitivity, scale)]
    if isinstance(tight, DescentPlan) and tight.secret_batches:
        spent = 0.0 if tight.standardisation is None else tight.standardisation.mu
        alone, _ = price_branches(problem, budget, np.ones(1), np.array([sensitivity]), spent)
        share = np.array(tight.secret_batches) / problem.n_rows
        cks = calibrate_rdp(share, np.asarray(tight.sensitivities), budget, "cks", spent)
        prices.append(("worst batch alone", TIGHT, sensitivity, alone.scale))
        prices.append(("Rényi + CKS", RENYI_CKS, sensitivity, cks))
    refused = []
    try:
        paper = planned("paper")
    except DpermError as error:
        refused = [Price("paper", mechanism.source, reason=str(error))]
    else:
        formula = getattr(same, "paper_sensitivity", None)
        papers = _noise(paper)[0] if formula is None else formula(problem)
        prices.append(("paper", paper.accountant, papers, _noise(paper)[1]))
    return plan, [*(Price(*one, ratio=one[-1] / scale) for one in prices), *refused]


def _noise(plan: Plan) -> tuple[float, float]:
    if plan.noise is None:
        raise InvalidInput(f"mechanism {plan.mechanism.name!r} adds no noise of one scale.")
    return plan.noise.sensitivity, plan.noise.scale


def _show(
    plan: Plan,
    asked: Mechanism,
    why: str | None,
    asked_loss: Loss,
    settings: dict[str, Any],
    prices: list[Price],
) -> None:
    screen = console()
    mechanism, problem, budget = plan.mechanism, plan.problem, plan.budget
    facts = Table.grid(padding=(0, 3))
    chooser = "" if why is None else f", chosen by {asked.name}"
    facts.add_row("mechanism", f"{mechanism.name}{chooser}: {mechanism.title}")
    if why is not None:
        facts.add_row("why", why)
    facts.add_row("source", mechanism.source)
    facts.add_row(
        "guarantee", f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {problem.neighbours} neighbours"
    )
    norms = f"feature norm ≤ {problem.x_norm:g}, whole row ≤ {problem.row_norm:.4g}"
    facts.add_row(f"{problem.unit}s", f"{problem.n_rows:,}; {norms}")
    instead = "" if problem.loss.unweighted == asked_loss else f" in place of {asked_loss.name}"
    loss = f"{problem.loss.name}{instead}, slope at most {problem.loss.lipschitz:.4g}"
    facts.add_row("loss", f"{loss}; l2 = {problem.l2:g}, smoothness {problem.smoothness:.4g}")
    facts.add_row("settings", ", ".join(f"{key} = {_short(value)}" for key, value in settings.items()))
    screen.print(facts)
    table = plain_table(["accounting"], ("sensitivity", "noise scale", "vs tight"))
    table.add_column("how")
    for row in prices:
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
        noise = _short(row.sensitivity), _short(row.noise_scale), ratio
        table.add_row(row.accounting, *noise, row.reason or row.accountant)
    screen.print(table)
    if plan.noise is not None and mechanism.family == "output":
        length = plan.noise.scale * math.sqrt(problem.dimension)
        screen.print(
            f"Every coefficient gets Gaussian noise of this standard deviation; with {mechanism.accounting} "
            f"accounting the noise on all {problem.dimension} is a vector of length about {length:.3g}."
        )


def _short(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


FALSE_POSITIVE_RATES = (0.001, 0.01, 0.05)


def risk_of(plan: Plan) -> dict[str, Any]:
    """Bounds for every mechanism that keeps the plan's budget, and for this one where its own price is known."""
    budget, own = plan.budget, _own_price(plan)
    return {
        "attacks": [
            {
                "fpr": fpr,
                "tpr": tradeoff(budget, fpr),
                "tpr_own_price": None if own is None else min(tradeoff(budget, fpr), tradeoff(own, fpr)),
            }
            for fpr in FALSE_POSITIVE_RATES
        ],
        "advantage": advantage(budget),
        "advantage_own_price": None if own is None else min(advantage(budget), advantage(own)),
    }


def _own_price(plan: Plan) -> DeltaCurve | None:
    """The mechanism's whole curve delta(epsilon), where more of it is known than the guarantee."""
    if plan.profile is not None:
        return plan.profile
    cost = plan.cost
    return None if all(isinstance(part, Point | Unbounded) for part in cost.parts) else cost


def show_risk(plan: Plan) -> None:
    screen = console()
    risk = risk_of(plan)
    unit = plan.problem.unit
    target = (
        f"which of two {unit}s the table holds"
        if plan.problem.neighbours is Neighbours.REPLACE_ONE
        else f"whether the table holds a certain {unit}"
    )
    screen.print(f"\nRisk that someone who knows all other {unit}s tells {target}, true positives:")
    bounds = ("blind guess", "any mechanism, at most", f"{plan.mechanism.name}, at most")
    table = plain_table(["false positives"], bounds)
    for attack in risk["attacks"]:
        blind = f"{100 * attack['fpr']:g} %"
        table.add_row(blind, blind, percent(attack["tpr"]), percent(attack["tpr_own_price"]))
    table.add_row("advantage", "0 %", percent(risk["advantage"]), percent(risk["advantage_own_price"]))
    screen.print(table)
    one = risk["attacks"][1]
    caught = percent(one["tpr"] if one["tpr_own_price"] is None else one["tpr_own_price"])
    screen.print(
        f"In plain words: an attacker who may accuse 1 of 100 wrongly catches at most {caught} of the true cases; "
        "without the model they would catch 1 %. All numbers are rounded up."
    )


def percent(rate: float | None) -> str:
    """A rate in percent, rounded up, with at least two digits that count."""
    if rate is None:
        return "-"
    decimals = max(1, 1 - math.floor(math.log10(100 * rate))) if rate > 0 else 1
    scale = 10**decimals
    # Up to the next digit, unless the margin alone, of 2e-9 at most, has pushed the rate over one.
    return f"{math.ceil(100 * rate * scale * (1 - 4e-9)) / scale:.{decimals}f} %"
