"""``dperm verify``: check what a saved model, an evaluation or mean predictions state of their guarantee."""

import math
from dataclasses import asdict
from typing import Any

import click

from dperm.cli.options import Decorator, file_argument, import_option, json_option
from dperm.cli.output import console, print_json, say
from dperm.errors import InvalidInput


def _finite(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("a finite number was expected.", ctx, parameter)
    return value


def _limit(name: str, letter: str) -> Decorator:
    what = f"Not ok if the guarantee has a larger {letter}."
    return click.option(
        name, type=click.FloatRange(min=0), callback=_finite, show_default="no limit", help=what
    )


@click.command(short_help="Check the guarantee that a saved file states.")
@file_argument("file")
@_limit("--max-epsilon", "ε")
@_limit("--max-delta", "δ")
@click.option(
    "--unit",
    type=click.Choice(["row", "person"]),
    show_default="any",
    help="Not ok if the guarantee protects something else.",
)
@import_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    file: str,
    max_epsilon: float | None,
    max_delta: float | None,
    unit: str | None,
    as_json: bool,
) -> None:
    """Recompute independently the guarantee that a file states, and say in the first line whether it stands.

    FILE is a saved model, an evaluation or mean predictions. Sensitivities follow anew from the declared constants by
    the formulas of the proofs; a second accountant, which shares no code with the first, prices the stated noise; then
    the whole release is planned once more. Figures of an evaluation and means are made again from the released numbers.
    No data are needed.

    \b
    Exit codes:
      0  ok: a guarantee is claimed, every check passes, nothing is NOT MET, and
         it is within what was asked for
      1  not ok: anything else, a file that cannot be read included
      2  the command line was wrong

    \b
    Examples:
      dperm verify model.json --max-epsilon 1 --max-delta 1e-6 --unit row
      dperm verify evaluation.json --max-epsilon 0.5
    """
    from dperm.models import read_model
    from dperm.models.format import FORMAT
    from dperm.verification import read_statement
    from dperm.verification import verify as examine

    try:
        document = read_statement(file)
        verdict = examine(document, max_epsilon=max_epsilon, max_delta=max_delta, unit=unit)
        if verdict.accepted and document["format"] == FORMAT:
            read_model(file)  # what is stated may be true of a file that no model can be made of
    except InvalidInput as error:
        if as_json:
            print_json({"ok": False, "verdict": f"NOT OK: {error}"})
        else:
            click.echo(f"NOT OK: {error}")
        ctx.exit(1)
    if as_json:
        print_json({"format": document["format"], **_as_dict(verdict)})
    else:
        _show(verdict)
    ctx.exit(0 if verdict.ok else 1)


def _as_dict(verdict: Any) -> dict[str, Any]:
    return {
        "ok": verdict.ok,
        "verdict": str(verdict).splitlines()[0],
        "objections": verdict.objections,
        "accepted": verdict.accepted,
        "guarantee": verdict.guarantee,
        "claim": verdict.claim,
        "reason": verdict.reason,
        "unit": verdict.unit,
        "relation": verdict.relation,
        "independent": verdict.independent,
        "not_checked": verdict.not_checked,
        "unmet": [one.to_dict() for one in verdict.unmet],
        "cautions": [one.to_dict() for one in verdict.cautions],
        "checks": [asdict(check) for check in verdict.checks],
    }


def _show(verdict: Any) -> None:
    from rich.table import Table

    say(f"{verdict}\n")
    table = Table("", "checked", "route", "found", box=None, pad_edge=False)
    for check in verdict.checks:
        table.add_row("ok" if check.passed else "FAILED", check.name, check.route, check.detail)
    console().print(table)
