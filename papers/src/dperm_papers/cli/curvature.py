"""``dperm curvature``: how curved the objective is. NOT PRIVATE."""

from dataclasses import asdict, replace

import click

from dperm.cli import completion
from dperm.cli.data import load
from dperm.cli.options import (
    import_option,
    json_option,
    l2_option,
    loss_option,
    schema_option,
    spline_option,
    target_option,
)
from dperm.cli.output import print_json
from dperm.errors import Unsupported
from dperm.planning.penalty import L2, without_noise

NOISE_SCALES = (1.0, 0.1, 0.01)


@click.command(short_help="How curved the objective is on this data; NOT PRIVATE.")
@click.argument("data", shell_complete=completion.data)
@target_option
@schema_option
@spline_option
@loss_option
@l2_option
@import_option
@click.option(
    "--sigma",
    "noise_scales",
    type=float,
    multiple=True,
    show_default=", ".join(f"{scale:g}" for scale in NOISE_SCALES),
    help="Noise on each coordinate of the iterate: step size times the noise of the gradient. Repeatable.",
)
@json_option
def curvature(
    data: str,
    target: str | None,
    schema_path: str | None,
    spline: int | None,
    loss: str,
    l2: L2,
    noise_scales: tuple[float, ...],
    as_json: bool,
) -> None:
    """Measure minimum, average and expected curvature at zero weights. NOT PRIVATE: for study only.

    The expected curvature of Yu et al. (2020) drives their utility bound of noisy gradient descent. No noise is
    added, so nothing printed here may be published or used to choose the settings of a private fit. --l2 auto is that
    of the model without noise.

    \b
    Example:
      dperm curvature cps --l2 1e-4 --sigma 1 --sigma 0.01
    """
    from dperm.engine import open_rows
    from dperm.estimators.labels import encode_labels, encode_numbers
    from dperm.losses import resolve_loss
    from dperm.losses.registry import fitting_loss
    from dperm.problem import Problem
    from dperm_papers.analysis.curvature import NOT_PRIVATE, measure_curvature

    records = load(data, schema_path, target, spline)
    n_rows, n_features = records.X.shape
    assert records.schema is not None  # only sets of text have none
    declared = records.schema.target
    n_classes = None if declared.range is not None else len(declared.labels)
    if n_classes is not None and n_classes > 2:
        raise Unsupported(
            f"curvature is measured for two classes or a number; the target has {n_classes} classes."
        )
    name = fitting_loss(loss, n_classes)
    if declared.range is None:
        targets = encode_labels(records.y, declared.labels)
    else:
        targets = encode_numbers(records.y, *declared.range)
    number = l2 if isinstance(l2, float) else 0.0
    problem = Problem.for_table(n_rows, n_features, loss=resolve_loss(name), l2=number, x_norm=1.0)
    if not isinstance(l2, float):
        problem = replace(problem, l2=without_noise(problem))
    found = measure_curvature(open_rows(records.X, targets, problem), problem, noise_scales or NOISE_SCALES)
    if as_json:
        print_json(
            {
                "not_private": NOT_PRIVATE,
                "data": records.name,
                "loss": name,
                "l2": problem.l2,
                **asdict(found),
            }
        )
        return
    click.echo(f"{records.summary}; {name} loss, l2 = {problem.l2:g}")
    click.echo(str(found))
