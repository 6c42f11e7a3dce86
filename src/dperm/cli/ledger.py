"""``dperm ledger``: one budget over many fits."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from dperm.cli import options
from dperm.cli.output import check_figure, check_free, console, fitting, plain_table, print_json, write_figure
from dperm.errors import InvalidInput
from dperm.ledger.overview import CHARGES, UNIT, in_words, with_units

if TYPE_CHECKING:
    from dperm.ledger import Ledger


def _unit_option(default: str | None, what: str) -> options.Decorator:
    shown = "that of the dataset 'default'" if default is None else True
    return click.option(
        "--unit", type=click.Choice(["row", "person"]), default=default, show_default=shown, help=what
    )


def _for(unit: str) -> str:
    return "" if unit == "row" else f" for one {unit}"


@click.group(cls=options.Ordered, short_help="One budget over many fits, kept in a file.")
def ledger() -> None:
    """Keep count of what all fits on the same people cost together.

    \b
    Example:
      dperm ledger create budget.db --epsilon 2 --delta 1e-7
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --ledger budget.db --output model.json
      dperm ledger show budget.db
      dperm ledger check budget.db --model model.json
    """


@ledger.command(short_help="Make a new ledger.")
@options.file_argument("file")
@click.option("--epsilon", type=float, required=True, help="Cap on ε of all fits together.")
@click.option("--delta", type=float, required=True, help="The δ at which the cap holds.")
@options.neighbours_option("What every guarantee in the ledger hides.")
@click.option(
    "--strict",
    is_flag=True,
    help="For operators who may not learn about rows: no charge is ever void, and every error about rows is one.",
)
@_unit_option("row", "Whom the cap protects: a cap for one person takes fits on persons only.")
def create(file: str, epsilon: float, delta: float, neighbours: str, strict: bool, unit: str) -> None:
    """Make a new ledger with a cap. The cap can be lowered later, never raised; --strict and --unit stay."""
    from dperm.ledger import Ledger

    if Path(file).exists():
        raise InvalidInput(f"{file} exists already; look at it with: dperm ledger show {file}")
    made = Ledger.create(file, epsilon, delta, neighbours=neighbours, strict=strict, unit=unit)
    click.echo(
        f"Created {file}: at most ε = {epsilon:g} at δ = {delta:g}{_for(unit)}, {made.neighbours.value} neighbours"
        f"{', strict' if made.strict else ''}."
    )


@ledger.command(short_help="Add a dataset, or lower a cap.")
@options.file_argument("file")
@click.argument("dataset")
@click.option("--epsilon", type=float, required=True, help="Cap on ε of all releases about this dataset.")
@click.option("--delta", type=float, required=True, help="The δ at which the cap holds.")
@_unit_option(None, "Whom the cap of a new dataset protects.")
def cap(file: str, dataset: str, epsilon: float, delta: float, unit: str | None) -> None:
    """Set the cap of DATASET, which is new or whose cap is lowered. Nobody in it may be in another dataset.

    \b
    Example:
      dperm ledger cap budget.db later --epsilon 1 --delta 1e-7
    """
    found = _existing(file)
    found.set_cap(dataset, epsilon, delta, unit=unit)
    kept = _for(found.unit(dataset))
    click.echo(f"{Path(file).name}: at most ε = {epsilon:g} at δ = {delta:g}{kept} for {dataset!r}.")


@ledger.command(short_help="What is spent and what is left.")
@options.file_argument("file")
@click.option(
    "--charge",
    type=click.IntRange(1),
    show_default="all",
    help="Only this charge, with its digest and the words by which a model cites it.",
)
@options.file_option("--plot", "plot_path", "Also draw the spending over time, to a .png, .svg or .pdf.")
@options.force_option
@options.json_option
@click.option(
    "--full", is_flag=True, help="With --json: privacy costs too, which may be hundreds of numbers each."
)
def show(
    file: str, charge: int | None, plot_path: str | None, force: bool, as_json: bool, full: bool
) -> None:
    """Show what is spent and what is left of every dataset, and each charge.

    A charge says what it was for (fit, search, evaluate), the mechanism that was used, the file that the model was
    saved to, and what all charges of the dataset cost together before and after it.

    \b
    Examples:
      dperm ledger show budget.db
      dperm ledger show budget.db --charge 2
      dperm ledger show budget.db --plot spending.png
    """
    if full and not as_json:
        raise click.UsageError("--full belongs to --json.")
    found = _existing(file)
    if plot_path is not None:
        check_figure(Path(plot_path), force)
    document = found.to_dict(full=full)
    if charge is not None:
        document["charges"] = [one for one in document["charges"] if one["id"] == charge]
        if not document["charges"]:
            raise InvalidInput(f"{file} has no charge {charge}; it has {len(found.entries())}.")
    if as_json:
        print_json(document)
    elif charge is not None:
        show_charge(document["charges"][0])
    else:
        show_ledger(document)
    if plot_path is not None:
        from dperm.ledger.overview import spending_figure

        write_figure(spending_figure(found.to_dict(full=False)), Path(plot_path))
        click.echo(f"Wrote {plot_path}.", err=True)


@ledger.command(short_help="Write down which file holds the model of a charge.")
@options.file_argument("file")
@options.file_argument("model")
@options.import_option
def note(file: str, model: str) -> None:
    """Write the name of MODEL and its digest beside the charge that MODEL cites.

    dperm fit does it by itself, and so does save_model for a model that still has its ledger. It costs nothing.

    \b
    Example:
      dperm ledger note budget.db model.json
    """
    from dperm.models import read_model

    found = _existing(file)
    estimator, _ = read_model(model)
    found.note(estimator, model)
    click.echo(f"{file}: noted {Path(model).name} beside its charge.")


@ledger.command(short_help="Is this the whole ledger that was charged for these models?")
@options.file_argument("file")
@options.file_option("--model", "models", "Model that cites its charge. Repeatable.", multiple=True)
@click.option(
    "--head",
    "heads",
    metavar="HEAD",
    multiple=True,
    show_default="none",
    help="Head that was noted down earlier. Repeatable.",
)
@options.import_option
@click.pass_context
def check(ctx: click.Context, file: str, models: tuple[str, ...], heads: tuple[str, ...]) -> None:
    """Compare a ledger with what is kept outside of it: models that it was charged for, and heads.

    The history of a ledger is a chain of hashes. A model cites its charge and the head right after it; a later head
    extends an earlier one. A head that is missing means that an older copy was put in the place of the ledger, that
    it was made anew, or that a copy of it was charged by itself. Exit code 0 means that everything is in order, 1 that
    something is not.

    \b
    Example:
      dperm ledger check budget.db --model model.json
    """
    from dperm.models import load_model

    found = _existing(file)
    answers = [(f"head {head}", _problem(found, head)) for head in heads]
    paid_for: dict[str, str] = {}
    for name in models:
        model = load_model(name)
        problem = _problem(found, model)
        if problem is None:
            digest = model.certificate_["digest"]
            if paid_for.setdefault(str(model.ledger_entry_), digest) != digest:
                problem = "another of these models cites the same charge, and a charge is for one model."
        answers.append((name, problem))
    count = len(found.entries())
    click.echo(f"{file}: ledger {found.id}, {count} charge{'' if count == 1 else 's'}, history unbroken.")
    for name, problem in answers:
        click.echo(f"{name}: {'in order.' if problem is None else f'NOT IN ORDER: {problem}'}")
    if not answers:
        click.echo("Nothing kept outside of the file was compared: give --model or --head.")
    ctx.exit(int(any(problem is not None for _, problem in answers)))


@ledger.command(short_help="Write everything to a JSON file.")
@options.file_argument("file")
@options.file_option("--output", "output_path", "JSON file to write.", required=True)
@options.force_option
def export(file: str, output_path: str, force: bool) -> None:
    """Write caps, totals and every charge to a JSON file."""
    found, path = _existing(file), Path(output_path)
    check_free(path, force)
    found.export(path)
    click.echo(f"Saved to {path}.", err=True)


def _existing(file: str) -> "Ledger":
    from dperm.ledger import Ledger

    if not Path(file).is_file():
        raise InvalidInput(f"{file} is not a file; make a ledger with: dperm ledger create {file}")
    return Ledger(file)


def _problem(found: "Ledger", anchor: object) -> str | None:
    try:
        found.check(anchor)
    except InvalidInput as error:
        return str(error)
    return None


COLUMNS = {
    **CHARGES,
    UNIT: "unit",
    "partition": "partition",
    "label": "label",
    "sha256": "sha256",
    "head": "head",
}
OPTIONAL = ("file", "time", "ε before", "dataset", "partition", "label", "sha256", "head")
SHORT = 12
"""Digits of a digest in a table."""


def show_ledger(document: Mapping[str, Any]) -> None:
    """Print the balance, then the charges in as many columns as there is room for."""
    screen = console()
    of_datasets, of_charges = (with_units(name, document) for name in ("datasets", "charges"))
    balance = plain_table(list(of_datasets))
    for row in document["datasets"]:
        balance.add_row(*(in_words(row[key]) for key in of_datasets.values()))
    screen.print(balance)
    entries = [_cells(charge) for charge in document["charges"]]
    extra = [
        name for name in COLUMNS if name not in (*CHARGES, UNIT) and any(cells[name] for cells in entries)
    ]
    used = [*of_charges, *extra]

    def charges(columns: list[str]) -> Table:
        made = plain_table(columns)
        for cells in entries:
            made.add_row(*(cells[name] for name in columns))
        return made

    table, left_out = fitting(screen, used, [name for name in OPTIONAL if name in used], charges)
    screen.print(table)
    if left_out:
        screen.print(f"Not shown at this width: {', '.join(left_out)}; --json shows all.")
    strict = ", strict" if document["strict"] else ""
    screen.print(
        f"{document['neighbours']} neighbours{strict}. left: one more release with Gaussian noise, at the same δ."
    )
    screen.print(f"ledger {document['id']}\nhead   {document['head']}")


def show_charge(charge: Mapping[str, Any]) -> None:
    """Print all that is known of one charge."""
    rows = {name: in_words(charge[key]) for name, key in COLUMNS.items() if name != "head"}
    rows["cited as"] = charge["citation"]
    for name, text in rows.items():
        click.echo(f"{name:<10}{text or '-'}")


def _cells(charge: Mapping[str, Any]) -> dict[str, str]:
    cells = {name: in_words(charge[key]) for name, key in COLUMNS.items()}
    short = {name: cells[name][:SHORT] for name in ("sha256", "head")}
    return cells | short | {"time": cells["time"][:16].replace("T", " ")}
