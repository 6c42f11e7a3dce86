"""``dperm verify``: check the certificate inside a saved model."""

from dataclasses import asdict

import click

from dperm.cli.options import json_option
from dperm.cli.output import console, print_json


@click.command(short_help="Check the certificate inside a saved model.")
@click.argument("model")
@json_option
@click.pass_context
def verify(ctx: click.Context, model: str, as_json: bool) -> None:
    """Recompute the guarantee of a saved model by a second route.

    Sensitivities follow anew from the declared constants by the formulas of the proofs; a second accountant, which
    shares no code with the first, prices the stated noise; then the whole fit is planned once more. Exit code 0
    means that everything agrees, 1 that something does not. No data are needed.

    \b
    Example:
      dperm verify model.json
    """
    from dperm.certificate import verify as examine
    from dperm.estimators.saved import read_document

    verdict = examine(read_document(model))
    if as_json:
        print_json(
            {
                "accepted": verdict.accepted,
                "guarantee": verdict.guarantee,
                "reason": verdict.reason,
                "independent": verdict.independent,
                "caveats": verdict.caveats,
                "checks": [asdict(check) for check in verdict.checks],
            }
        )
    else:
        from rich.table import Table

        table = Table("", "checked", "route", "found", box=None, pad_edge=False)
        for check in verdict.checks:
            table.add_row("ok" if check.passed else "FAILED", check.name, check.route, check.detail)
        console().print(table)
        click.echo(f"\n{verdict}")
    if not verdict.accepted:
        ctx.exit(1)
