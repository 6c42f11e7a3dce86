"""A small table with a schema, and ways to write it to shards that a test can break."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA: dict[str, Any] = {
    "target": {"name": "bought", "classes": ["no", "yes"]},
    "features": {
        "age": {"range": [18, 90]},
        "income": {"range": [0, 1e6], "log": True, "spline": 0, "missing": [-1]},
        "town": {"categories": ["north", "south", "west"]},
    },
}
ROWS = 5000


def people(n: int = ROWS, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 90, n), rng.choice(["north", "south", "west", "abroad"], n)
    income = np.where(rng.random(n) < 0.1, -1.0, rng.lognormal(10, 1, n))
    bought = np.where(age + 20 * (town == "south") + 5 * rng.normal(size=n) > 60, "yes", "no")
    return pa.table({"age": age, "town": town, "income": income, "bought": bought})


def write_parquet(folder: Path, n: int = ROWS) -> Path:
    """Three files of several row groups each."""
    folder.mkdir()
    table = people(n)
    for k in range(3):
        part = table.slice(k * n // 3, (k + 1) * n // 3 - k * n // 3)
        pq.write_table(part, folder / f"part-{k}.parquet", row_group_size=700)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_until(source: Path, folder: Path, moment: str) -> None:
    """Convert in a child process that kills itself at a moment: an event and how often it is let pass.

    The events are those of the file system: ``write`` to a new file, ``replace`` (a file takes its name) and ``fsync``.
    """
    event, count = moment.split(":")
    code = f"""
        import os, signal
        from pathlib import Path
        import dperm.data.folder as files
        from dperm.data import write_shards
        from shard_cases import SCHEMA

        left = {count}

        def dying(real):
            def call(*arguments, **more):
                global left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **more)
            return call

        if {event!r} == "write":
            files.Summed.write = dying(files.Summed.write)
        else:
            setattr(os, {event!r}, dying(getattr(os, {event!r})))
        write_shards(Path({str(source)!r}), SCHEMA, {str(folder)!r}, rows_per_shard=1024)
    """
    place = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": place}, check=False
    )
    assert done.returncode == -9
