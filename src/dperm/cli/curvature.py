"""``dperm curvature``: how curved the objective is. NOT PRIVATE."""

from dataclasses import asdict

import click
import numpy as np

from dperm.cli.data import load
from dperm.cli.options import json_option, l2_option, loss_option, schema_option, target_option
from dperm.cli.output import print_json

NOISE_SCALES = (1.0, 0.1, 0.01)


@click.command(short_help="How curved the objective is on this data; NOT PRIVATE.")
@click.argument("data")
@target_option
@schema_option
@loss_option
@l2_option
@click.option(
    "--sigma",
    "noise_scales",
    type=float,
    multiple=True,
    help="Noise on each coordinate of the iterate: step size times the noise of the gradient. May be "
    f"repeated. [default: {', '.join(f'{scale:g}' for scale in NOISE_SCALES)}]",
)
@json_option
def curvature(
    data: str,
    target: str | None,
    schema_path: str | None,
    loss: str,
    l2: float,
    noise_scales: tuple[float, ...],
    as_json: bool,
) -> None:
    """Measure minimum, average and expected curvature at zero weights. NOT PRIVATE: for study only.

    The expected curvature of Yu et al. (2020) drives their utility bound of noisy gradient descent. No noise is
    added, so nothing printed here may be published or used to choose the settings of a private fit.

    \b
    Example:
      dperm curvature cps --l2 1e-4 --sigma 1 --sigma 0.01
    """
    from dperm.analysis.curvature import NOT_PRIVATE, measure_curvature
    from dperm.engine import open_rows
    from dperm.estimators._base import INTERCEPT_SCALE
    from dperm.experiments.compare import LOSSES
    from dperm.problem import Problem

    records = load(data, schema_path, target)
    n_rows, n_features = records.X.shape
    signs = np.where(records.y == records.schema.classes[1], 1.0, -1.0)
    problem = Problem(
        loss=LOSSES[loss],
        l2=l2,
        x_norm=1.0,
        n_rows=n_rows,
        n_features=n_features,
        intercept=INTERCEPT_SCALE,
    )
    found = measure_curvature(open_rows(records.X, signs, problem), problem, noise_scales or NOISE_SCALES)
    if as_json:
        print_json(
            {"not_private": NOT_PRIVATE, "data": records.name, "loss": loss, "l2": l2, **asdict(found)}
        )
        return
    click.echo(f"{records.summary}; {loss} loss, l2 = {l2:g}")
    click.echo(str(found))
