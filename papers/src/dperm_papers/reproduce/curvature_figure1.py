"""Figure 1 of Yu et al. (2020): expected curvature over the noise scale. NOT PRIVATE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.models.atomic import atomic_path
from dperm_papers.analysis.curvature import Curvature
from dperm_papers.reproduce.curvature_drawing import draw_expected
from dperm_papers.reproduce.item import Bench, Check, Report, Section
from dperm_papers.reproduce.regression_sets import load_all

NOISE_SCALES = (*(float(scale) for scale in np.geomspace(1e-3, 10, 25)), 1.0)


def figure1(bench: Bench) -> Report:
    sets, missing = load_all()
    if not sets:
        return Report(skipped=tuple(missing))
    scales = sorted(set(NOISE_SCALES[::4] if bench.quick else NOISE_SCALES) | {1.0})
    found = {one.name: one.curvature(one.convention, scales) for one in sets}
    path, figure = bench.folder / "curvature.parquet", bench.folder / "figure.png"
    rows = [
        {
            "dataset": name,
            "noise_scale": scale,
            "expected": value,
            "average": some.average,
            "minimum": some.minimum,
        }
        for name, some in found.items()
        for scale, value in some.expected.items()
    ]
    with atomic_path(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished)
    draw_expected(found, figure)
    also = {
        f"{one.name}, labels 0 and 1": replace(one, target=(one.target + 1) / 2).curvature(
            one.convention, scales
        )
        for one in sets
        if set(one.target) == {-1.0, 1.0}
    }
    shown = tuple(
        (
            name,
            f"{some.minimum:.3g}",
            f"{some.average:.3g}",
            f"{some.expected[scales[0]]:.3g}",
            f"{some.expected[1.0]:.3g}",
            f"{some.distance:.3g}",
        )
        for name, some in (found | also).items()
    )
    section = Section(
        title="expected curvature at zero weights (NOT PRIVATE)",
        columns=("set", "minimum", "average", f"ν(σ={scales[0]:g})", "ν(σ=1)", "way to the minimum"),
        rows=shown,
    )
    return Report(
        sections=(section,), checks=tuple(_near_average(found)), skipped=tuple(missing), files=(path, figure)
    )


def _near_average(found: dict[str, Curvature]) -> list[Check]:
    checks = []
    for name, some in found.items():
        value = some.expected[1.0]
        checks.append(
            Check(
                claim=f"{name}: at σ = 1 the expected curvature ({value:.3g}) is within a factor 2 of the average "
                f"({some.average:.3g})",
                holds=0.5 <= value / some.average <= 2,
            )
        )
        checks.append(
            Check(
                claim=f"{name}: it is above the minimum curvature at every σ",
                holds=min(some.expected.values()) > some.minimum,
            )
        )
    return checks
