"""``dperm account``: how much noise a promise costs, from public facts alone."""

import math
from dataclasses import asdict, replace
from typing import Any

import click
from rich import box
from rich.table import Table

from dperm.certificate.cautions import cautions
from dperm.cli.options import json_option, l2_option, mechanism_option
from dperm.cli.output import console, print_json, warn
from dperm.cli.risk import risk_of, show_risk
from dperm.errors import InvalidInput
from dperm.experiments.prices import Price, price
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms import Mechanism, Plan, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.privacy.budget import EPSILON_RANGE
from dperm.problem import Problem

_PASSES = ("epochs", "passes", "iterations")


@click.command(short_help="How much noise a promise costs; no data needed.")
@mechanism_option("rsgd-ar")
@click.option(
    "--n",
    "n_rows",
    type=int,
    required=True,
    help="Number of rows; for add-remove a capacity that the table never exceeds.",
)
@click.option("--epsilon", type=float, help="Privacy budget ε; smaller is more private.")
@click.option("--tpr", type=float, help="Instead of ε, with --fpr: the most true positives of any attacker.")
@click.option("--fpr", type=float, help="The false positives at which --tpr must hold.")
@click.option("--advantage", type=float, help="Instead of ε: the most that true may exceed false positives.")
@click.option(
    "--delta", type=float, required=True, help="Privacy budget δ; far below one over the number of rows."
)
@click.option("--features", type=int, default=100, show_default=True, help="Number of features.")
@click.option(
    "--loss",
    type=click.Choice(["logistic", "svm", "squared"]),
    default="logistic",
    show_default=True,
    help="Logistic regression, linear SVM or linear regression.",
)
@click.option(
    "--classes", type=int, help="Number of classes, for logistic regression; above 2 the softmax loss."
)
@click.option(
    "--residual-bound",
    type=float,
    help="For linear regression: residuals count squared up to this size.  [default: 1.0]",
)
@l2_option
@click.option(
    "--x-norm", type=float, default=1.0, show_default=True, help="Bound on the norm of a row of features."
)
@click.option("--no-intercept", is_flag=True, help="Leave out the constant column.")
@click.option(
    "--neighbours",
    type=click.Choice([relation.value for relation in Neighbours]),
    default="replace-one",
    show_default=True,
    help="What is hidden: the content of a row, or also its presence.",
)
@click.option("--batch-size", type=int, help="Rows per batch.")
@click.option("--epochs", type=int, help="Passes over the rows.")
@click.option("--average-every", type=int, help="Epochs between averages (rsgd-ar).")
@click.option("--step-size", type=float, help="First or constant step size; by default 1/smoothness.")
@click.option(
    "--accounting",
    type=click.Choice(["tight", "paper", "both"]),
    default="both",
    show_default=True,
    help="Our exact accounting, the paper's own, or both with others beside them.",
)
@json_option
def account(
    mechanism: str,
    n_rows: int,
    epsilon: float | None,
    tpr: float | None,
    fpr: float | None,
    advantage: float | None,
    delta: float,
    features: int,
    loss: str,
    classes: int | None,
    residual_bound: float | None,
    l2: float,
    x_norm: float,
    no_intercept: bool,
    neighbours: str,
    batch_size: int | None,
    epochs: int | None,
    average_every: int | None,
    step_size: float | None,
    accounting: str,
    as_json: bool,
) -> None:
    """Show the noise that an (ε, δ) promise needs and what it leaves to an attacker, before any data is touched.

    The promise is given by --epsilon, or by the risk: --tpr and --fpr, or --advantage, for an attacker who knows
    every row but one.

    \b
    Examples:
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8
      dperm account --n 50000 --tpr 0.05 --fpr 0.01 --delta 1e-8
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8 --mechanism dp-gd --features 784 --classes 10
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8 --mechanism bolt-on --batch-size 100
    """
    if ":" in mechanism:
        raise click.UsageError("write --accounting paper instead of NAME:paper.")
    chosen = _with_settings(
        resolve(mechanism),
        batch_size=batch_size,
        epochs=epochs,
        average_every=average_every,
        step_size=step_size,
    )
    problem = Problem.for_table(
        n_rows,
        features,
        loss=_loss(loss, classes, residual_bound),
        l2=l2,
        x_norm=x_norm,
        fit_intercept=not no_intercept,
        neighbours=Neighbours.parse(neighbours),
    )
    budget = _budget(delta, epsilon=epsilon, tpr=tpr, fpr=fpr, advantage=advantage)
    plan, prices = price(chosen, problem, budget)
    cautioned = cautions(problem, budget, plan.private)
    for caution in cautioned:
        warn(caution.text)
    wanted = [p for p in prices if accounting in ("both", p.accounting)]
    settings = {key: value for key, value in plan.settings.items() if key != "accounting"}
    if as_json:
        public = {"mechanism": chosen.name, "epsilon": budget.epsilon, "delta": delta, "n_rows": n_rows}
        public |= {"neighbours": neighbours, "loss": loss, "classes": classes, "l2": l2, "settings": settings}
        public |= {"cautions": [caution.text for caution in cautioned]}
        print_json({**public, "prices": [asdict(p) for p in wanted], "risk": risk_of(plan)})
    else:
        _show(plan, settings, wanted)
        show_risk(plan)


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
    if classes is not None and (classes < 2 or (name != "logistic" and (name == "squared" or classes > 2))):
        raise click.UsageError(
            "--classes is at least 2; above 2 it belongs to --loss logistic, which fits them all."
        )
    if name == "squared":
        return ClippedSquared(1.0 if residual_bound is None else residual_bound)
    if name == "svm":
        return HuberHinge()
    return Logistic() if classes is None or classes == 2 else Softmax(classes)


def _with_settings(mechanism: Mechanism, **given: Any) -> Mechanism:
    """The mechanism with the settings that were given; --epochs is called passes or iterations by some."""
    settings = {name: value for name, value in given.items() if value is not None}
    if "epochs" in settings:
        passes = settings.pop("epochs")
        settings[next((name for name in _PASSES if name in mechanism.settings), "epochs")] = passes
    for name in settings:
        if name not in mechanism.settings:
            known = ", ".join(sorted(mechanism.settings.keys() - {"accounting"}))
            raise InvalidInput(f"mechanism {mechanism.name!r} has no setting {name}; it has {known}.")
    return replace(mechanism, **settings)


def _show(plan: Plan, settings: dict[str, Any], prices: list[Price]) -> None:
    screen = console()
    mechanism, problem, budget = plan.mechanism, plan.problem, plan.budget
    facts = Table.grid(padding=(0, 3))
    facts.add_row("mechanism", f"{mechanism.name}: {mechanism.title}")
    facts.add_row("source", mechanism.source)
    facts.add_row("promise", f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {problem.neighbours} neighbours")
    norms = f"feature norm ≤ {problem.x_norm:g}, whole row ≤ {problem.row_norm:.4g}"
    facts.add_row("rows", f"{problem.n_rows:,}; {norms}")
    facts.add_row("loss", f"{problem.loss.name}, l2 = {problem.l2:g}, smoothness {problem.smoothness:.4g}")
    facts.add_row("settings", ", ".join(f"{key} = {_short(value)}" for key, value in settings.items()))
    screen.print(facts)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("accounting", no_wrap=True)
    for name in ("sensitivity", "noise scale", "vs tight"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("how")
    for row in prices:
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
        table.add_row(
            row.accounting,
            _short(row.sensitivity),
            _short(row.noise_scale),
            ratio,
            row.reason or row.accountant,
        )
    screen.print(table)
    scale = prices[0].noise_scale
    if scale is not None and mechanism.family == "output":
        length = scale * math.sqrt(problem.dimension)
        screen.print(
            f"Every coefficient gets Gaussian noise of this standard deviation; with {prices[0].accounting} "
            f"accounting the noise on all {problem.dimension} is a vector of length about {length:.3g}."
        )


def _short(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
