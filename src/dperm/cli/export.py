"""``dperm export``: a saved model for other software."""

from pathlib import Path

import click

from dperm.cli import completion
from dperm.cli.options import force_option, import_option
from dperm.cli.output import check_free
from dperm.errors import InvalidInput


@click.command(short_help="Write a saved model as ONNX.")
@click.argument("model", shell_complete=completion.files)
@click.argument("output", metavar="FILE.onnx", shell_complete=completion.files)
@click.option(
    "--raw", is_flag=True, help="Take the columns of the schema instead of encoded rows, one input each."
)
@force_option
@import_option
def export(model: str, output: str, raw: bool, force: bool) -> None:
    """Write a saved model to an ONNX file, which other software can predict with.

    The graph gives label and probabilities (of a regression variable, of a linear SVM label and scores), and takes
    encoded rows as one float32 matrix X. With --raw it takes the columns of the schema: numbers as float64 with NaN
    where one is missing, dates as days since 1970-01-01, text, or truth values. The metadata name ε, δ and the
    digest of the certificate. It costs no privacy. It needs the package onnx: pip install 'dperm[onnx]'.

    \b
    Examples:
      dperm export model.json model.onnx
      dperm export model.json model.onnx --raw
    """
    from dperm.models.onnx import export_onnx

    if Path(output).suffix.lower() != ".onnx":
        raise InvalidInput(f"{output}: a name ending in .onnx was expected.")
    check_free(Path(output), force)
    export_onnx(model, output, raw=raw)
    click.echo(f"Wrote {output}.", err=True)
