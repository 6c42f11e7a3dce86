"""A package of R: whether it can be had here. Nothing is run with it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from dperm_papers.peers.environments import INSTALL_LIMIT_S, Attempt, Environment, message_of

MIRROR = "https://cloud.r-project.org"


def try_r_package(name: str) -> Environment:
    """Ask Debian's packages first and then CRAN, and keep nothing: what either of them answers is the result."""
    with TemporaryDirectory() as folder:
        attempts = (
            _attempt(
                f"Debian's r-cran-{name.lower()}",
                ["apt-get", "--simulate", "install", f"r-cran-{name.lower()}"],
            ),
            _attempt(f"CRAN's {name}", ["Rscript", "-e", _install(name, Path(folder))]),
        )
    return Environment(name=f"{name} (R)", python=None, attempts=attempts)


def _install(name: str, folder: Path) -> str:
    where = f'"{folder.as_posix()}"'
    load = f"library({name}, lib.loc = {where})"
    return f'install.packages("{name}", lib = {where}, repos = "{MIRROR}"); {load}'


def _attempt(what: str, command: list[str]) -> Attempt:
    started = time.perf_counter()
    if shutil.which(command[0]) is None:
        message = f"there is no {command[0]} on the path"
    else:
        message = message_of(command, INSTALL_LIMIT_S) or "can be had, but nothing here runs it"
    return Attempt(requirements=(what,), message=message, seconds=time.perf_counter() - started)
