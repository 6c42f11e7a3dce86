"""Table 2 of Yu et al. (2020): minimum, average and expected curvature, measured by every convention. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.models.atomic import atomic_path
from dperm_papers.analysis.curvature import Curvature
from dperm_papers.reproduce.curvature_drawing import draw_table
from dperm_papers.reproduce.item import Bench, Check, Report, Section
from dperm_papers.reproduce.published import YU_TABLE2, off
from dperm_papers.reproduce.regression_sets import CONVENTIONS, Convention, RegressionSet, load_all

CLOSE = 0.1  # relative distance to a published figure


def table2(bench: Bench) -> Report:
    sets, missing = load_all()
    if not sets:
        return Report(skipped=tuple(missing))
    progress = bench.progress("conventions")
    measured: dict[tuple[str, str], Curvature] = {}
    for done, one in enumerate(sets):
        progress(done, len(sets))
        for convention in CONVENTIONS:
            measured[one.name, convention.name] = one.curvature(convention, (1.0, 0.1, 0.01))
    progress(len(sets), len(sets))
    chosen = {one.name: measured[one.name, one.convention.name] for one in sets}
    checks = [_closeness(chosen), *_one_convention(sets, measured)]
    checks += [
        Check(
            claim=f"{name}: the average curvature is far above the minimum (by {found.average / found.minimum:,.0f})",
            holds=found.average > 10 * found.minimum,
        )
        for name, found in chosen.items()
    ]
    path = bench.folder / "curvature.parquet"
    _save_table(sets, measured, path)
    figure = bench.folder / "figure.png"
    draw_table(chosen, figure)
    return Report(
        sections=(_beside(sets, chosen), _all_conventions(sets, measured)),
        checks=tuple(checks),
        skipped=tuple(missing),
        files=(path, figure),
    )


def _closeness(chosen: dict[str, Curvature]) -> Check:
    close = [name for name, found in chosen.items() if is_close(name, found)]
    return Check(
        claim=f"minimum and average curvature are within {CLOSE:.0%} of the published on {len(close)} of "
        f"{len(YU_TABLE2)} sets, three asked for, with the convention that fits each set best",
        holds=len(close) >= 3,
    )


def _one_convention(sets: Sequence[RegressionSet], measured: dict[tuple[str, str], Curvature]) -> list[Check]:
    counts = {
        convention.name: sum(is_close(one.name, measured[one.name, convention.name]) for one in sets)
        for convention in CONVENTIONS
    }
    best = max(counts, key=counts.__getitem__)
    return [
        Check(
            claim=f"one convention for all sets comes within {CLOSE:.0%} on three of them (the best of "
            f"{len(counts)}, {best!r}, on {counts[best]})",
            holds=counts[best] >= 3,
        )
    ]


def _beside(sets: Sequence[RegressionSet], chosen: dict[str, Curvature]) -> Section:
    rows = []
    for one in sets:
        found, there = chosen[one.name], YU_TABLE2[one.name]
        n_rows, n_columns = one.convention.rows(one).shape
        rows.append(
            (
                one.name,
                f"{n_rows:,} x {n_columns}",
                one.convention.name,
                f"{found.minimum:.3g}",
                f"{there.minimum:.3g}",
                f"{off(found.minimum, there.minimum):+.1%}",
                f"{found.average:.3f}",
                f"{there.average:.2f}",
                f"{off(found.average, there.average):+.1%}",
                *(f"{found.expected[scale]:.3g}" for scale in (1.0, 0.1, 0.01)),
            )
        )
    columns = ("set", "rows", "columns scaled", "minimum", "published", "off", "average", "published", "off")
    return Section(
        title="curvature of least squares without regulariser, at zero weights (NOT PRIVATE)",
        columns=(*columns, "ν(σ=1)", "ν(0.1)", "ν(0.01)"),
        rows=tuple(rows),
    )


def _all_conventions(sets: Sequence[RegressionSet], measured: dict[tuple[str, str], Curvature]) -> Section:
    """Everything that was tried, so that the reader sees how much choice there was."""

    def cell(one: RegressionSet, convention: Convention) -> str:
        found, there = measured[one.name, convention.name], YU_TABLE2[one.name]
        mark = " *" if convention is one.convention else ""
        return f"{off(found.minimum, there.minimum):+.0%}, {off(found.average, there.average):+.0%}{mark}"

    return Section(
        title="minimum and average relative to the published, for every convention (* chosen, after seeing them)",
        columns=("columns scaled", *(one.name for one in sets)),
        rows=tuple((convention.name, *(cell(one, convention) for one in sets)) for convention in CONVENTIONS),
    )


def _save_table(
    sets: Sequence[RegressionSet], measured: dict[tuple[str, str], Curvature], path: Path
) -> None:
    rows = [
        {
            "dataset": one.name,
            "convention": convention.name,
            "chosen": convention is one.convention,
            "minimum": found.minimum,
            "average": found.average,
            "maximum": found.maximum,
            "published_minimum": YU_TABLE2[one.name].minimum,
            "published_average": YU_TABLE2[one.name].average,
            **{f"expected_at_{scale:g}": value for scale, value in found.expected.items()},
        }
        for one in sets
        for convention in CONVENTIONS
        for found in (measured[one.name, convention.name],)
    ]
    with atomic_path(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished)


def is_close(name: str, found: Curvature) -> bool:
    """Both figures are within 10 % of the published ones."""
    there = YU_TABLE2[name]
    return max(abs(off(found.minimum, there.minimum)), abs(off(found.average, there.average))) <= CLOSE
