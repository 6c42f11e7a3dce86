"""DATA from standard input, ``-``: kept in a private file while the command runs, and removed when it ends."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

FROM_STDIN = "-"
_BEGINNINGS = {b"\x1f\x8b": "stdin.csv.gz", b"PAR1": "stdin.parquet", b"PK\x03\x04": "stdin.xlsx"}
_MAGIC = 4


def spooled(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """What was given, or the path of a file with what standard input holds: its first bytes say what kind it is."""
    if value != FROM_STDIN or ctx.resilient_parsing:
        return value
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("- stands for standard input, and nothing is piped into it.", ctx)
    folder = Path(tempfile.mkdtemp(prefix="dperm-"))  # which others may not enter
    ctx.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    source = sys.stdin.buffer
    begun = source.read(_MAGIC)
    name = next((name for magic, name in _BEGINNINGS.items() if begun.startswith(magic)), "stdin.csv")
    path = folder / name
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(begun)
        shutil.copyfileobj(source, file)
    return str(path)
