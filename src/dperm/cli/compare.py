"""``dperm compare``: how accurate is each private method on this kind of data?"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich import box
from rich.progress import MofNCompleteColumn
from rich.table import Table

from dperm.cli import completion
from dperm.cli.data import hash_option, is_sparse_data, load, load_sparse_data
from dperm.cli.grammar import read_grid, read_method
from dperm.cli.options import (
    GRAMMAR,
    LOSS_HELP,
    LossName,
    check_max_rows,
    data_argument,
    html_option,
    json_option,
    loss_names,
    person_option,
    schema_option,
    spline_option,
    target_option,
    task_options,
)
from dperm.cli.output import Counter, console, print_json, shown
from dperm.errors import InvalidInput, NotCertified
from dperm.experiments.metrics import HELD_OUT, METRICS, OF_CLASSES, OF_NUMBERS, with_error
from dperm.experiments.results import Curve, Study, combine, curves
from dperm.experiments.series import error_in_words, known_metrics
from dperm.experiments.spec import Configuration, Method, configurations_of
from dperm.losses.registry import AUTO_LOSS, fitting_loss, fitting_losses, form_of
from dperm.mechanisms import mechanism_names, resolve
from dperm.planning.rules import l2_in_words


def parse_methods(
    mechanisms: Sequence[str], searches: Sequence[str], oracles: Sequence[str]
) -> list[Configuration]:
    """The methods in the order of the options, baselines last."""
    from dperm.experiments.tuning import tuned

    found: list[Method] = [_method(text) for text in mechanisms]
    for tuning, texts in (("search", searches), ("oracle", oracles)):
        found += [tuned(tuning, *read_grid(text)) for text in texts]
    return sorted(configurations_of(found), key=lambda method: not method.candidates[0].private)


def _method(text: str) -> Method:
    mechanism = read_method(text)
    if isinstance(mechanism, str):
        return mechanism
    return Configuration(label=" ".join(text.split()), candidates=(mechanism,))


USUAL_TABLES = (*HELD_OUT, "objective")
NOT_A_RELEASE = (
    "These numbers are an evaluation on held-out rows, not a private release: no noise was added to them and "
    "they come from many models on the same rows."
)
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
GRID = "'NAME SETTING=VALUE,VALUE ...'"
metric_option = click.option(
    "--metric",
    "metrics",
    type=click.Choice(tuple(METRICS)),
    multiple=True,
    show_default="those of held-out rows, and as a table objective",
    help="What tables and figures show, in this order. Repeatable.",
)


@click.command(short_help="How accurate is each private method?")
@data_argument(default="cps")
@target_option
@schema_option
@spline_option
@hash_option
@person_option
@click.option(
    "--loss",
    "losses",
    type=LossName(loss_names),
    metavar="LOSS",
    multiple=True,
    show_default="all that go with two classes; else auto",
    help=f"{LOSS_HELP} Repeatable.",
)
@click.option(
    "--mechanism",
    "mechanisms",
    metavar="NAME",
    multiple=True,
    show_default="all that apply, and rsgd-ar:paper",
    shell_complete=completion.mechanisms,
    help=f"What to compare. Repeatable. {GRAMMAR}",
)
@click.option(
    "--search",
    "searches",
    metavar="GRID",
    multiple=True,
    show_default="none",
    shell_complete=completion.mechanisms,
    help=f"{GRID}: settings chosen privately, charged to the same budget. Slow. Repeatable.",
)
@click.option(
    "--oracle",
    "oracles",
    metavar="GRID",
    multiple=True,
    show_default="none",
    shell_complete=completion.mechanisms,
    help=f"{GRID}: the settings that are best on the test rows. Not private. Repeatable.",
)
@click.option(
    "--epsilon",
    "epsilons",
    type=float,
    multiple=True,
    show_default=", ".join(f"{epsilon:g}" for epsilon in EPSILONS),
    help="Privacy budget ε of a model. Repeatable.",
)
@click.option(
    "--delta",
    type=float,
    show_default="1/n² rounded down to a power of ten",
    help="Privacy budget δ of a model.",
)
@click.option(
    "--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds of the cross-validation."
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="How often to cross-validate, each time with other folds.",
)
@click.option(
    "--published-split",
    is_flag=True,
    help="Train and test on the published parts of the data set instead of folds.",
)
@task_options
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed of the noise and of the secret orders.",
)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    default="dperm-results",
    show_default=True,
    shell_complete=completion.folders,
    help="Folder for results.parquet, the figures and the finished batches.",
)
@metric_option
@html_option
@click.option("--fresh", is_flag=True, help="Run all batches, also those that are finished in the folder.")
@json_option
def compare(
    data: str,
    target: str | None,
    schema_path: str | None,
    spline: int | None,
    n_hashed: int | None,
    person: str | None,
    losses: tuple[str, ...],
    mechanisms: tuple[str, ...],
    searches: tuple[str, ...],
    oracles: tuple[str, ...],
    epsilons: tuple[float, ...],
    delta: float | None,
    published_split: bool,
    neighbours: str,
    max_rows: int | None,
    folder: str,
    metrics: tuple[str, ...],
    html: bool,
    as_json: bool,
    **settings: Any,  # folds, repeats, l2, seed and fresh, as the comparison takes them
) -> None:
    """Compare private mechanisms by repeated cross-validation, at several ε, on the same splits.

    DATA is the name of a data set (default: cps, bundled), a CSV or Parquet file with --schema, a set of text (rcv1,
    made-topics) or a LIBSVM file (.svm), which --hash brings to fewer columns. Writes
    results.parquet, one row per model, and a figure per loss: accuracy, area under the ROC curve (of several classes,
    the mean over each against the rest) and log loss; of numbers R², root mean squared and mean absolute error.
    Where the schema or --person names persons, folds hold persons, models are trained by person, one at a time, and a
    row counts by its share of the person.
    Finished batches are kept: the same command goes on where it was stopped. `dperm plot DIR` draws the figures again.

    \b
    Examples:
      dperm compare
      dperm compare people.csv --schema people.toml --epsilon 1 \\
          --mechanism 'rsgd-ar epochs=10' --mechanism rsgd-ar:paper
      dperm compare --mechanism rsgd --oracle 'rsgd step_size=0.3,1,3' --epsilon 1
    """
    from dperm.experiments.compare import compare as run_comparison

    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; --out takes a folder.")
    if find_spec("matplotlib") is None:
        raise InvalidInput("curves.png needs matplotlib. Install it with: pip install 'dperm[cli]'")
    check_max_rows(neighbours, max_rows)
    methods = parse_methods(mechanisms or _all_mechanisms(), searches, oracles)
    if is_sparse_data(data):
        if person is not None:
            raise InvalidInput("sparse rows and texts come without ids of persons; leave out --person.")
        records = load_sparse_data(data, n_hashed, schema=schema_path, target=target, spline=spline)
    elif n_hashed is not None:
        raise InvalidInput(
            "--hash is for sparse rows and texts; a schema hashes a column by hashed = COLUMNS."
        )
    else:
        records = load(data, schema_path, target, spline, person)
    if published_split and records.held_out is None:
        raise InvalidInput(
            f"{records.name} was published without a split into parts; leave out --published-split."
        )
    started = time.perf_counter()
    y_range = None if records.schema is None else records.schema.target.range
    n_classes = None if y_range is not None else len(np.unique(records.y))
    _check_metrics(metrics, n_classes)
    tables, kept, total = [], 0, 0
    for loss in _fitting(losses, n_classes):
        with shown(out, MofNCompleteColumn()) as bars:
            bar = Counter(bars, f"{records.summary}, {loss}")
            results = run_comparison(
                records.X,
                records.y,
                dataset=records.name,
                loss=loss,
                mechanisms=methods,
                epsilons=epsilons or EPSILONS,
                delta=default_delta(max_rows or records.n_units) if delta is None else delta,
                held_out=records.held_out if published_split else None,
                groups=records.groups,
                y_range=y_range,
                neighbours=neighbours,
                max_rows=max_rows,
                folder=out / "parts",
                progress=bar,
                **settings,
            )
        kept, total = kept + bar.kept, total + bar.total
        if not len(results):
            study = Study.of(results)
            reasons = "; ".join(dict.fromkeys(f"{part.name}: {part.reason}" for part in study.skipped))
            raise NotCertified(f"no mechanism could be used here. {reasons}")
        tables.append(results)
    seconds = time.perf_counter() - started
    files = _write(tables, out, html, metrics)
    if as_json:
        print_json({**_facts(tables), "seconds": seconds, "files": [str(file) for file in files]})
        return
    show(tables, metrics)
    before = f" {kept} of {total} batches were finished before; --fresh runs them again." if kept else ""
    console().print(f"Took {seconds:.1f} s.{before} Wrote {', '.join(map(str, files))}.")


@click.command(short_help="Draw the figures of a comparison again.")
@click.argument("folder", metavar="[DIR]", default="dperm-results", shell_complete=completion.folders)
@metric_option
@html_option
def plot(folder: str, metrics: tuple[str, ...], html: bool) -> None:
    """Print the tables and draw the figures of DIR/results.parquet again, without training anything.

    DIR is dperm-results if it is left out.

    \b
    Example:
      dperm plot dperm-results
    """
    import pyarrow.parquet as pq

    from dperm.experiments.results import separate

    path = Path(folder) / "results.parquet"
    if not path.is_file():
        raise InvalidInput(f"{path} is not there; run dperm compare --out {folder} first, or to its end.")
    tables = None
    with suppress(pa.ArrowInvalid):
        tables = separate(pq.read_table(path))
    if tables is None:
        raise InvalidInput(f"{path} is not a Parquet file.")
    show(tables, metrics)
    console().print(f"Wrote {', '.join(map(str, draw(tables, Path(folder), html, metrics)))}.")


def _facts(tables: Sequence[pa.Table]) -> dict[str, Any]:
    studies = [Study.of(results) for results in tables]
    return {
        **asdict(studies[0]),
        "loss": [study.loss for study in studies],
        "identity": [study.identity for study in studies],
        "skipped": [asdict(part) for study in studies for part in study.skipped],
        "summary": [
            {"loss": study.loss, **row}
            for study, results in zip(studies, tables, strict=True)
            for curve in curves(results)
            for row in _summary(curve)
        ],
    }


def _all_mechanisms() -> list[str]:
    """Every registered mechanism, the baselines last, and the accounting of one paper beside the tight one."""
    names = sorted(mechanism_names(), key=lambda name: not resolve(name).private)
    names.insert(names.index("rsgd-ar") + 1, "rsgd-ar:paper")
    return names


def _fitting(losses: Sequence[str], n_classes: int | None) -> tuple[str, ...]:
    """The losses that were asked for, or the usual ones of such a target; of several classes logistic is softmax."""
    asked = losses or (fitting_losses(2) if n_classes == 2 else (AUTO_LOSS,))
    return tuple(dict.fromkeys(form_of(fitting_loss(loss, n_classes), n_classes) for loss in asked))


def _check_metrics(metrics: Sequence[str], n_classes: int | None) -> None:
    others, target = (OF_CLASSES, "a number") if n_classes is None else (OF_NUMBERS, "classes")
    for metric in metrics:
        if metric in others:
            known = ", ".join(name for name in METRICS if name not in others)
            raise InvalidInput(f"--metric {metric} is not measured of {target}; choose from {known}.")


def default_delta(n_rows: int) -> float:
    """1/n² rounded down to a power of ten, inside the certified range; n is public: the rows or a bound on them."""
    return 10.0 ** max(-15, min(-2, math.floor(-2 * math.log10(n_rows))))


def _write(tables: Sequence[pa.Table], folder: Path, html: bool, metrics: Sequence[str]) -> list[Path]:
    """The results and the figures, all of them or none."""
    import pyarrow.parquet as pq

    from dperm.models.atomic import atomic_path

    results = folder / "results.parquet"
    with atomic_path(results) as unfinished:
        pq.write_table(combine(tables), unfinished)
        return [results, *draw(tables, folder, html, metrics)]


def draw(
    tables: Sequence[pa.Table], folder: Path, html: bool = False, metrics: Sequence[str] = ()
) -> list[Path]:
    """One figure per study, and the page if wanted, all of them or none."""
    from dperm.experiments.figures import figure_of, save
    from dperm.models.atomic import atomic_path

    names = ["curves.png"] if len(tables) == 1 else [f"curves-{Study.of(table).loss}.png" for table in tables]
    files = [folder / name for name in names]
    with ExitStack() as stack:
        figures = [stack.enter_context(atomic_path(file)) for file in files]
        for table, figure in zip(tables, figures, strict=True):
            save(figure_of(table, metrics or None), figure)
        if html:
            from dperm.experiments.html import write_html

            title = f"Private mechanisms on {Study.of(tables[0]).dataset}"
            files.append(write_html(tables, folder / "report.html", title=title))
    return files


def _summary(curve: Curve) -> Iterator[dict[str, Any]]:
    means = {metric: curve.means(metric) for metric in USUAL_TABLES}
    for epsilon, runs in zip(curve.epsilons.tolist(), curve.runs, strict=True):
        row: dict[str, Any] = {"mechanism": curve.label, "epsilon": epsilon, "runs": len(runs)}
        for metric in USUAL_TABLES:
            for name, number in zip(("mean", "se"), means[metric][epsilon], strict=True):
                row[f"{metric}_{name}"] = number if math.isfinite(number) else None
        yield {**row, "seconds_per_model": curve.seconds}


def show(tables: Sequence[pa.Table], metrics: Sequence[str] = ()) -> None:
    """A table per metric of every study, all usual ones if none is asked for, and what was skipped."""
    screen = console()
    for results in tables:
        study, found = Study.of(results), curves(results)
        split = "published split" if study.folds == 1 else f"{study.folds} folds"
        screen.print(
            f"{study.dataset}: {study.n_rows:,} {study.unit}s, {study.n_features} features; {study.loss} loss, "
            f"l2 = {l2_in_words(study.l2)}, δ = {study.delta:g}, {study.relation}, {split} × {study.repeats}\n"
        )
        for place, metric in enumerate(metrics or known_metrics(found, USUAL_TABLES)):
            screen.print(METRICS[metric].title, style="bold")
            screen.print(_table(found, metric, timed=place == 0))
        for line in _arithmetic_lines(found):
            screen.print(line, style="dim")
        for (name, reason), epsilons in study.gaps().items():
            at = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
            screen.print(f"Skipped: {name} at ε = {at}: {reason}", style="yellow")
        screen.print()
    screen.print(f"Cells: mean {error_in_words(Study.of(tables[0]))}. {NOT_A_RELEASE}")


def _table(found: Sequence[Curve], metric: str, *, timed: bool) -> Table:
    cells = {curve.label: curve.means(metric, METRICS[metric].factor) for curve in found}
    means = [mean for some in cells.values() for mean, _ in some.values() if math.isfinite(mean)]
    places = (METRICS[metric].decimals(means), METRICS[metric].finer)
    epsilons = sorted({float(epsilon) for curve in found for epsilon in curve.epsilons})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("mechanism", no_wrap=True)
    for epsilon in epsilons:
        table.add_column(f"ε = {epsilon:g}", justify="right", overflow="fold")
    if timed:
        table.add_column("ms/model", justify="right", min_width=len("ms/model"))
    for i, curve in enumerate(found):
        mine = cells[curve.label]
        shown = [with_error(*mine[e], *places) if e in mine else "skipped" for e in epsilons]
        if timed:
            shown.append(f"{1000 * curve.seconds:.1f}")
        last_private = curve.private and i + 1 < len(found) and not found[i + 1].private
        table.add_row(curve.label, *shown, end_section=last_private, style="" if curve.private else "dim")
    return table


def _arithmetic_lines(found: Sequence[Curve]) -> Iterator[str]:
    """Which mechanisms kept their plans in the arithmetic of these batches."""
    for kept, words in (
        (True, "Certified but for the seeded noise"),
        (False, "Not certified, by its plan or by passes in float32"),
    ):
        names = [curve.label for curve in found if curve.private and curve.certified is kept]
        if names:
            yield f"{words}: {', '.join(names)}."
