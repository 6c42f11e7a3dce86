"""``dperm plot``: the tables and figures of a finished comparison, again."""

from pathlib import Path

import click
import pyarrow as pa

from dperm.cli import completion
from dperm.cli.compare import draw, metric_option
from dperm.cli.comparison import show
from dperm.cli.options import html_option
from dperm.cli.output import console
from dperm.errors import InvalidInput


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
    try:
        tables = separate(pq.read_table(path))
    except pa.ArrowInvalid:
        raise InvalidInput(f"{path} is not a Parquet file.") from None
    show(tables, metrics)
    console().print(f"Wrote {', '.join(map(str, draw(tables, Path(folder), html, metrics)))}.")
