"""``dperm plan``: is epsilon enough? From public facts alone, before anything is spent."""

from dataclasses import asdict
from typing import Any

import click

from dperm.cli import options
from dperm.cli.output import console, plain_table, print_json, say, warn
from dperm.planning.outlook import (
    NAMES,
    Outlook,
    half_in_words,
    losses_in_words,
    noise_in_words,
    points_at_most,
)
from dperm.privacy import Budget

DEFAULT_DELTA = 1e-6


@click.command(short_help="Is ε enough? Expected loss, rows or ε for half of it; no data needed.")
@click.option(
    "--n", "n_rows", type=click.IntRange(1), show_default="none", help="Number of rows to train on."
)
@options.persons_option
@click.option(
    "--features",
    type=click.IntRange(1),
    show_default="those of --schema",
    help="Number of columns that a model sees, with those of categories and splines.",
)
@click.option(
    "--classes", type=click.IntRange(2), show_default="those of --schema, or 2", help="Number of classes."
)
@click.option(
    "--target-range",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    show_default="that of --schema, or classes",
    help="For regression: declared range of the target.",
)
@options.file_option(
    "--schema", "schema_path", "Take features and classes, or the range of the target, from this schema."
)
@click.option("--epsilon", type=float, required=True, help="Privacy budget ε; smaller is more private.")
@click.option("--delta", type=float, default=DEFAULT_DELTA, show_default=True, help="Privacy budget δ.")
@click.option(
    "--evaluation",
    type=float,
    show_default="a fifth of --epsilon",
    help="ε that an evaluation would take from the same budget.",
)
@options.neighbours_option("What is hidden: the content of a row, or also whether it is there.")
@options.max_rows_option
@options.json_option
def plan(
    n_rows: int | None,
    n_persons: int | None,
    features: int | None,
    classes: int | None,
    target_range: tuple[float, float] | None,
    schema_path: str | None,
    epsilon: float,
    delta: float,
    evaluation: float | None,
    neighbours: str,
    max_rows: int | None,
    as_json: bool,
) -> None:
    """Say what the default is expected to lose to the model without noise, and what would change that.

    The numbers come from a study of the default on public tables: a curve over the noise level, which follows from
    rows, coefficients, ε and δ, with a band for 8 of 10 tables. They are a forecast for tables like those. dperm
    account shows the noise of one mechanism and what it leaves to an attacker.

    \b
    Examples:
      dperm plan --n 20000 --features 40 --classes 2 --epsilon 0.5
      dperm plan --n 20000 --schema people.toml --epsilon 0.5 --delta 1e-7
      dperm plan --n 8000 --features 60 --target-range 0 100 --epsilon 1
      dperm plan --persons 5000 --features 40 --epsilon 0.5
    """
    from dperm.certificate.assumptions import cautions
    from dperm.estimators.linear import PrivateLinearRegression
    from dperm.estimators.logistic import PrivateLogisticRegression
    from dperm.planning.outlook import outlook

    spent = epsilon / 5 if evaluation is None else Budget(evaluation, delta).epsilon
    if evaluation is not None and evaluation >= epsilon:
        raise click.UsageError("--evaluation is a part of --epsilon; give less.")
    features, classes, bounds = _shape(features, classes, target_range, schema_path, n_persons is not None)
    n_units, max_rows = options.units(
        neighbours,
        n_rows,
        max_rows,
        n_persons,
        "give --n, the number of rows that you have or could collect.",
    )
    common: Any = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "max_rows": max_rows}
    default = (
        PrivateLogisticRegression(**common, classes=list(range(classes)))
        if bounds is None
        else PrivateLinearRegression(**common, y_range=bounds)
    )
    made = default.plan(n_units, features, n_persons=n_persons)
    found = outlook(made.problem, made.budget)
    if found is None:
        raise click.UsageError(
            "the default needs a δ above 0; give --delta, far below one over the number of rows."
        )
    for caution in cautions(made.problem, made.budget):
        warn(caution.text)
    if as_json:
        print_json(_document(found, made, spent))
    else:
        _show(found, made, spent)


def _shape(
    features: int | None,
    classes: int | None,
    target_range: tuple[float, float] | None,
    schema_path: str | None,
    by_person: bool,
) -> tuple[int, int, tuple[float, float] | None]:
    """Features, classes and the range of a target that is a number, from the options or from the schema."""
    if schema_path is not None:
        from dperm.schema import Schema

        if any(given is not None for given in (features, classes, target_range)):
            raise click.UsageError("--schema says features, classes and range; leave out the others.")
        schema = Schema.from_toml(schema_path)
        if schema.person is not None and not by_person:
            raise click.UsageError(
                "the schema names persons: give --persons, their number, in place of that of rows."
            )
        return schema.n_columns, len(schema.classes), schema.target.range
    if features is None:
        raise click.UsageError("give --features, the number of columns that a model sees, or --schema.")
    if classes is not None and target_range is not None:
        raise click.UsageError("a target has --classes or a --target-range, not both.")
    return features, classes or 2, target_range


def _show(found: Outlook, made: Any, spent: float) -> None:
    problem, budget = found.problem, found.budget
    kind = "a number to predict" if "r2" in found.losses else f"{max(problem.loss.outputs, 2)} classes"
    rows = (
        f"{'at most ' if problem.neighbours.value == 'add-remove' else ''}{problem.n_rows:,} {problem.unit}s"
    )
    say(
        f"Is ε = {budget.epsilon:g} enough? {rows}, {problem.n_features:,} features, {kind}, δ = {budget.delta:g}, "
        f"{problem.neighbours.value} neighbours"
    )
    _section("Expected to lose, against the same model without noise", losses_in_words(found))
    noise = (
        f"{made.trained_by.mechanism.name}: standard deviation {made.noise.scale:.3g} on {made.noise_on}; one "
        f"{problem.unit} moves them by at most {made.noise.sensitivity:.3g}."
    )
    _section("The noise", [*noise_in_words(found), noise])
    _section(f"To halve the loss of {NAMES[next(iter(found.losses))]}", half_in_words(found))
    if found.too_noisy:
        return
    say("\nWhat the budget could buy, with the points lost (up to the end of the band)")
    numbers = ("its ε", f"{problem.unit}s", *(NAMES[metric] for metric in found.losses))
    table = plain_table(["way"], numbers, no_wrap=False)
    for way in found.ways(spent):
        losses = [points_at_most(forecast) for forecast in way.losses.values()]
        table.add_row(way.name, f"{way.epsilon:.3g}", f"{way.n_rows:,}", *losses)
    console().print(table)


def _section(title: str, lines: list[str]) -> None:
    say("\n".join([f"\n{title}", *(f"  {line}" for line in lines)]))


def _document(found: Outlook, made: Any, spent: float) -> dict[str, Any]:
    from dperm.planning.outlook import constants

    problem, budget = found.problem, found.budget
    half = found.half()
    return {
        "n_rows": problem.n_rows,
        "unit": problem.unit,
        "features": problem.n_features,
        "outputs": problem.loss.outputs,
        **asdict(budget),
        "neighbours": problem.neighbours.value,
        "mechanism": made.trained_by.mechanism.name,
        "noise_level": found.level,
        "noise_scale": made.noise.scale,
        "sensitivity": made.noise.sensitivity,
        "rows_worth": found.rows_worth,
        "losses": {
            metric: {**asdict(forecast), "share_left_out_inside": found.curves[metric].share}
            for metric, forecast in found.losses.items()
        },
        "beyond_what_was_studied": {name: list(ends) for name, ends in found.beyond.items()},
        "half": None if half is None else asdict(half),
        "ways": [asdict(way) for way in found.ways(spent)],
        "study": {name: constants()[name] for name in ("made", "command", "version", "sets")},
    }
