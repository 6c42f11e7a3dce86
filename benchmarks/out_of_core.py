"""A table beyond memory: Parquet to shards to a private fit, with the time and the highest memory of each step.

``python -m benchmarks.out_of_core [ROWS [FOLDER]] [--data docs/data/out-of-core.parquet]``: 20,000,000 rows of 30 raw
columns (120 encoded) unless told otherwise, below a temporary folder, with about 2.5 GB of it for every 20,000,000
rows. ``make bench`` runs 1,000,000. Each step is a process of its own; its memory is the highest resident size that the
system counted, mapped files too.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import record
from benchmarks.timing import HEADER, Result, interleaved
from dperm_papers.pages.runs import Stopwatch

ROWS, AT_ONCE, FILE_ROWS = 20_000_000, 250_000, 1_000_000
CATEGORIES = (2, 3, 4, 5, 6, 8, 10, 12, 9, 7, 5, 4, 3, 6, 8, 2, 9, 5)
NUMBERS = 12
MOST_BYTES = 2e9


def schema() -> str:
    """The declarations: 18 categorical columns and 12 numbers without hats."""
    lines = ["[target]", 'name = "label"', 'classes = ["no", "yes"]', "", "[rows]", "spline = 0", ""]
    for k, size in enumerate(CATEGORIES):
        levels = ", ".join(f'"level {level}"' for level in range(size))
        lines += [f"[features.c{k}]", f"categories = [{levels}]", ""]
    for k in range(NUMBERS):
        lines += [f"[features.x{k}]", "range = [-4, 4]", ""]
    return "\n".join(lines)


def make(folder: Path, n: int) -> None:
    """Parquet files of random rows, written a piece at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    chances = [rng.dirichlet(np.full(size, 2.0)) for size in CATEGORIES]
    pull = [rng.normal(size=size) for size in CATEGORIES]
    slopes = rng.normal(size=NUMBERS) / 3
    writer, columns = None, {}
    for first in range(0, n, AT_ONCE):
        size = min(AT_ONCE, n - first)
        margin = rng.logistic(size=size)
        for k, chance in enumerate(chances):
            codes = np.searchsorted(np.cumsum(chance)[:-1], rng.random(size)).astype(np.int8)
            margin += pull[k][codes]
            levels = pa.array([f"level {level}" for level in range(len(chance))])
            columns[f"c{k}"] = pa.DictionaryArray.from_arrays(codes, levels)
        for k in range(NUMBERS):
            values = rng.normal(size=size).astype(np.float32)
            margin += slopes[k] * values
            columns[f"x{k}"] = values
        columns["label"] = pa.DictionaryArray.from_arrays(
            (margin > 0).astype(np.int8), pa.array(["no", "yes"])
        )
        table = pa.table(columns)
        if writer is not None and first % FILE_ROWS == 0:
            writer.close()
            writer = None
        if writer is None:
            writer = pq.ParquetWriter(folder / f"part-{first // FILE_ROWS:03d}.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


_ALONE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)
"""


def step(*arguments: str) -> tuple[float, float, int]:
    """Seconds, seconds of processors and highest memory of a process; it must end well.

    A small process stands between, since a new one counts the memory of the one that it was forked from.
    """
    started = time.perf_counter()
    command = [sys.executable, "-c", _ALONE, sys.executable, *arguments]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if told[0] != "0":
        raise SystemExit(f"{' '.join(arguments)} ended with {told[0]}.")
    return time.perf_counter() - started, float(told[1]), int(told[2])


def beyond_memory(n: int, folder: Path) -> Iterator[Result]:
    source, shards, model = folder / "parquet", folder / "shards", folder / "model.json"
    source.mkdir()
    (folder / "schema.toml").write_text(schema())
    step("-m", "benchmarks.out_of_core", "make", str(source), str(n))
    name = f"{n:,} x {len(CATEGORIES) + NUMBERS} raw"
    size = sum(path.stat().st_size for path in source.iterdir())
    steps = {
        "convert": ("convert", source, "--schema", folder / "schema.toml", "--out", shards),
        "fit": ("fit", shards, "--epsilon", 1, "--delta", 1e-9, "--output", model),
        "verify": ("verify", model, "--max-epsilon", 1),
    }
    for what, arguments in steps.items():
        seconds, busy, peak = step("-m", "dperm", *map(str, arguments))
        target = None if what == "verify" else 1.0
        told = f"{what}, {name}, s ({busy:.0f} of CPU)"
        yield Result(told, 0, seconds, "peak MB, over 2 GB", peak / 1e6, peak / MOST_BYTES, target)
        if what == "convert":
            written = sum(path.stat().st_size for path in shards.iterdir())
            yield Result("shards, MB", 0, written / 1e6, "Parquet, MB", size / 1e6, written / size, None)


def map_against_memory(moved: bool, n: int = 400_000, columns: int = 120, rounds: int = 15) -> Result:
    """One pass for one model over a warm memory map against rows in memory, which were bounded and moved beforehand.

    Rows of a map are bounded on the way, which is what has a target; ``moved`` ones are centred and scaled on it too.
    """
    from dperm.engine import MappedRows, Table
    from dperm.losses import Logistic
    from dperm.row_map import RowMap

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns)).astype(np.float32) / np.float32(12)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    centre, scale = rng.normal(size=columns) / 50, rng.uniform(0.5, 2, columns)
    moves = RowMap(x_norm=1.0, intercept=0.3, **({"centre": centre, "scale": scale} if moved else {}))
    W = rng.normal(size=(columns + 1, 1))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), X)
        mapped = np.load(Path(folder, "X.npy"), mmap_mode="r")
        kinds = [kind(rows, y, row_map=moves, n_rows=n) for kind, rows in ((MappedRows, mapped), (Table, X))]
        there, here = (rows.open(threads=1) for rows in kinds)
        ours, theirs, ratio = interleaved(
            lambda: there.gradient_sum(Logistic(), W), lambda: here.gradient_sum(Logistic(), W), rounds
        )
    name = f"pass over a map, {'moved' if moved else 'bounded'}, {n:,} x {columns}"
    return Result(name, 1, ours, "the same in memory", theirs, ratio, None if moved else 1.3)


def run(n: int = 1_000_000, place: str | None = None) -> Iterator[Result]:
    yield map_against_memory(moved=False)
    yield map_against_memory(moved=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield from beyond_memory(n, Path(folder))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", type=int, nargs="?", default=ROWS)
    options.add_argument("folder", nargs="?")
    chosen = record.data_option(options).parse_args()
    watch, found = Stopwatch(), []
    print(HEADER)
    for result in run(chosen.rows, chosen.folder):
        print(result, flush=True)
        found.append(result)
    if chosen.data:
        command = "python -m benchmarks.out_of_core" + (f" {chosen.rows}" if chosen.rows != ROWS else "")
        record.write(chosen.data, command, watch, {"steps": record.ratios(found)})


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
