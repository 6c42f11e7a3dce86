"""``dperm report``: what a saved model guarantees, for the person who signs off its release."""

from pathlib import Path

import click

from dperm.cli.output import check_free


@click.command(short_help="Explain what a saved model guarantees.")
@click.argument("model")
@click.option("--html", "html_path", metavar="FILE", help="Write one self-contained web page instead.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def report(model: str, html_path: str | None, force: bool) -> None:
    """Explain the guarantee of a saved model: in plain words, what an attacker can achieve, what was assumed.

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

    if html_path is not None:
        check_free(Path(html_path), force)
    estimator, _ = read_model(model)
    verdict = verify(read_document(model))
    statement = estimator.certificate_
    if html_path is not None:
        with atomic_path(Path(html_path)) as file:
            file.write_text(page(Path(model).name, statement, verdict), encoding="utf-8")
        click.echo(f"Wrote {html_path}.", err=True)
        return
    click.echo(str(estimator.privacy_))
    click.echo("\nVerification\n  " + str(verdict).replace("\n", "\n  "))
    click.echo("\nIn plain words\n" + "\n".join(f"  {line}" for line in meaning(statement, verdict)))
    rows = attack_table(verdict)
    if rows:
        click.echo("\nRight accusations of an attacker who knows all rows but one, at most")
        click.echo("  if wrong in   by this mechanism   by the claim alone")
    for row in rows:
        click.echo(f"  {row.fpr:>11.1%}   {row.mechanism:>17.3%}   {row.budget:>18.3%}")
