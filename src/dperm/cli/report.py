"""``dperm report``: the page about a saved model, for the person who signs off its release."""

from pathlib import Path

import click

from dperm.cli.options import file_argument, file_option, force_option, import_option
from dperm.cli.output import check_free, say


@click.command(short_help="The page to sign: what a saved model guarantees.")
@file_argument("model", required=False)
@file_option("--html", "html_path", "Write one self-contained web page instead.", "text on standard output")
@file_option("--deployment", "deployment_path", "TOML file of what people say about the release.")
@file_option("--evaluation", "evaluation_path", "What dperm evaluate wrote about this model.")
@file_option("--ledger", "ledger_path", "The ledger that was charged for this model.")
@file_option(
    "--registry", "registry_path", "Write an entry of the OpenDP Deployments Registry; needs --deployment."
)
@file_option(
    "--init-deployment", "init_path", "Write an empty deployment file with all questions, and nothing else."
)
@force_option
@import_option
@click.pass_context
def report(
    ctx: click.Context,
    model: str | None,
    html_path: str | None,
    deployment_path: str | None,
    evaluation_path: str | None,
    ledger_path: str | None,
    registry_path: str | None,
    init_path: str | None,
    force: bool,
) -> None:
    """Explain the guarantee of a saved model to the person who signs off its release.

    The certificate is verified first, and the answer stands at the top. Then: what is released and why, what a person
    with several rows is guaranteed, what an attacker can achieve, the budget, the evaluation, what each feature does,
    what must be trusted and what was assumed, how to verify it again, and where to sign. The page needs no network.
    What only people know is asked for in a deployment file; without it the page has visible blanks.

    \b
    Examples:
      dperm report model.json
      dperm report --init-deployment deployment.toml
      dperm report model.json --html page.html --deployment deployment.toml \\
          --ledger budget.db --evaluation evaluation.json
      dperm report model.json --deployment deployment.toml --registry entry.yaml
    """
    from dperm.release import page, read_release, registry_entry, template, text

    if init_path is not None:
        if model is not None:
            raise click.UsageError("--init-deployment writes the questions and takes no model.", ctx)
        _write(Path(init_path), template(), force)
        return
    if model is None:
        raise click.MissingParameter(ctx=ctx, param_type="argument", param_hint="'MODEL'")
    if registry_path is not None and deployment_path is None:
        raise click.UsageError(
            "--registry needs --deployment FILE; dperm report --init-deployment FILE writes one to fill in.",
            ctx,
        )
    outputs = [Path(path) for path in (html_path, registry_path) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise click.UsageError("--html and --registry name the same file.", ctx)
    for path in outputs:
        check_free(path, force)
    release = read_release(model, deployment=deployment_path, evaluation=evaluation_path, ledger=ledger_path)
    entry = None if registry_path is None else registry_entry(release)
    if html_path is not None:
        _write(Path(html_path), page(release), force=True)
    if registry_path is not None and entry is not None:
        _write(Path(registry_path), entry, force=True)
    if not outputs:
        say(text(release))


def _write(path: Path, content: str, force: bool) -> None:
    from dperm.models.atomic import atomic_path

    check_free(path, force)
    with atomic_path(path) as file:
        file.write_text(content, encoding="utf-8")
    click.echo(f"Wrote {path}.", err=True)
