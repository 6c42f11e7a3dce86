"""``dperm report``: what a saved model guarantees, for the person who signs off its release."""

from pathlib import Path

import click

from dperm.cli import completion
from dperm.cli.options import force_option, import_option
from dperm.cli.output import check_free, say


@click.command(short_help="Explain what a saved model guarantees.")
@click.argument("model", shell_complete=completion.files)
@click.option(
    "--html",
    "html_path",
    metavar="FILE",
    show_default="text on standard output",
    shell_complete=completion.files,
    help="Write one self-contained web page instead.",
)
@force_option
@import_option
def report(model: str, html_path: str | None, force: bool) -> None:
    """Explain the guarantee of a saved model: in plain words, what an attacker can achieve, what was assumed.

    A model that was saved with its schema also shows what each feature does: a number as a curve over its range.
    The certificate is verified first, and the result is part of the report. The page needs no network.

    \b
    Example:
      dperm report model.json --html report.html
    """
    from dperm.certificate import verify
    from dperm.certificate.page import page
    from dperm.certificate.words import attack_table, meaning
    from dperm.models import read_document, read_model
    from dperm.models.atomic import atomic_path
    from dperm.models.effects import effects_section, effects_text

    if html_path is not None:
        check_free(Path(html_path), force)
    estimator, schema = read_model(model)
    verdict = verify(read_document(model))
    statement = estimator.certificate_
    if html_path is not None:
        with atomic_path(Path(html_path)) as file:
            effects = "" if schema is None else effects_section(estimator, schema)
            file.write_text(page(Path(model).name, statement, verdict, effects), encoding="utf-8")
        click.echo(f"Wrote {html_path}.", err=True)
        return
    say(str(estimator.privacy_))
    say("\nVerification\n  " + str(verdict).replace("\n", "\n  "))
    say("\nIn plain words\n" + "\n".join(f"  {line}" for line in meaning(statement, verdict)))
    rows = attack_table(verdict)
    if rows:
        say("\nRight accusations of an attacker who knows all rows but one, at most")
        say("  if wrong in   by this mechanism   by the claim alone")
    for row in rows:
        say(f"  {row.fpr:>11.1%}   {row.mechanism:>17.3%}   {row.budget:>18.3%}")
    if schema is not None:
        say("\n" + effects_text(estimator, schema))
