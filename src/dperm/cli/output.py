"""What the commands share when they write: a console, JSON, and files that must not be lost."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dperm.errors import InvalidInput


def console() -> Console:
    """Standard output; into a pipe or file at least 100 columns, so that no table is cut there."""
    screen = Console(highlight=False, markup=False)
    if not screen.is_terminal:
        screen.width = max(100, screen.width)
    return screen


def warn(text: str) -> None:
    """Say one line beside the result."""
    click.echo(f"dperm: warning: {text}", err=True)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=1, allow_nan=False))


def check_free(path: Path, force: bool) -> None:
    """Find out before the work whether the result can be written to ``path``."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give the name of a file in it.")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path} is a device or a pipe; give the name of a file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is not a folder; create it before writing {path.name} there.")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already; use --force to replace it, or another name.")
