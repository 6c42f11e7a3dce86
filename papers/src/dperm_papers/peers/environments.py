"""Environments of other tools: made once, with what was installed in them, or why nothing could be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from dperm.models.atomic import atomic_path

NOTE = "environment.json"
LONGEST_MESSAGE = 200
INSTALL_LIMIT_S, IMPORT_LIMIT_S = 3600, 300
_PATH = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?[\\/](?:[\w.+@~-]+[\\/])*[\w.+@~-]+")
_ADDRESS = re.compile(r"\b[a-z+]+://\S+|\b(?:host|index)=\S+")
_VERSIONS = """
import json, sys
from importlib.metadata import distributions
found = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in distributions()}
json.dump({"python": sys.version.split()[0], "packages": found}, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One list of requirements that was tried, and what came of it; ``message`` is empty where the tool works."""

    requirements: tuple[str, ...]
    message: str
    seconds: float

    @property
    def works(self) -> bool:
        return not self.message


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Where a tool was installed. ``python`` is None where no attempt led to a tool that works."""

    name: str
    python: Path | None
    attempts: tuple[Attempt, ...]
    python_version: str = ""
    packages: tuple[tuple[str, str], ...] = ()
    megabytes: float = 0.0

    def version(self, package: str) -> str:
        return dict(self.packages).get(package.lower().replace("_", "-"), "")


def make_environment(
    folder: Path,
    name: str,
    check: str,
    candidates: Sequence[tuple[str, ...]],
    *,
    fresh: bool = False,
    options: Sequence[str] = (),
) -> Environment:
    """The environment ``folder / name`` with the first list of requirements for which the Python in ``check`` runs.

    What worked before is used again. What failed is tried again: a registry may be reachable by now.
    """
    home = folder / name
    kept = None if fresh else _kept(home, candidates)
    if kept is not None:
        return kept
    attempts = []
    for requirements in candidates:
        attempts.append(_attempt(home, check, requirements, options))
        if attempts[-1].works:
            break
    if not attempts[-1].works:
        shutil.rmtree(home, ignore_errors=True)
        return Environment(name=name, python=None, attempts=tuple(attempts))
    found = json.loads(subprocess.check_output([_python(home), "-I", "-c", _VERSIONS], text=True))
    made = Environment(
        name=name,
        python=_python(home),
        attempts=tuple(attempts),
        python_version=found["python"],
        packages=tuple(sorted(found["packages"].items())),
        megabytes=_megabytes(home),
    )
    with atomic_path(home / NOTE) as unfinished:
        unfinished.write_text(json.dumps(asdict(made) | {"python": None}, indent=1), encoding="utf-8")
    return made


def plain_message(text: str) -> str:
    """The last line of an error in one short sentence, without folders and hosts of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(("WARNING", "[notice]"))]
    last = (errors or lines or ["no message"])[-1]
    last = re.sub(r"\s*\((?:[A-Za-z]:)?[\\/][^)]*\)", "", last)
    last = _PATH.sub("…", _ADDRESS.sub("…", last)).replace("|", "/")
    return last if len(last) <= LONGEST_MESSAGE else last[: LONGEST_MESSAGE - 1] + "…"


def message_of(command: list[str], limit: int) -> str:
    """What a command says of its failure; empty where it went well."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=clean)
    except (OSError, subprocess.TimeoutExpired) as error:
        return plain_message(f"{type(error).__name__}: {error}")
    return plain_message(done.stderr) if done.returncode else ""


def _attempt(home: Path, check: str, requirements: tuple[str, ...], options: Sequence[str]) -> Attempt:
    started = time.perf_counter()
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    quietly = ("install", "--quiet", "--no-input", "--disable-pip-version-check", "--retries", "2")
    borrowed = find_spec("pip") is not None  # the present pip serves all: one for each takes longer to make
    pip = [str(_python(home)), "-m", "pip"]
    if borrowed:
        pip = [sys.executable, "-m", "pip", "--python", str(_python(home))]
    steps: list[tuple[list[str], int]] = [
        ([sys.executable, "-m", "venv", *["--without-pip"] * borrowed, str(home)], INSTALL_LIMIT_S),
        ([*pip, *quietly, *options, *requirements], INSTALL_LIMIT_S),
        ([str(_python(home)), "-I", "-c", check], IMPORT_LIMIT_S),
    ]
    for command, limit in steps:
        message = message_of(command, limit)
        if message:
            break
    return Attempt(requirements=requirements, message=message, seconds=time.perf_counter() - started)


def _kept(home: Path, candidates: Sequence[tuple[str, ...]]) -> Environment | None:
    if not (home / NOTE).is_file() or not _python(home).exists():
        return None
    found = json.loads((home / NOTE).read_text(encoding="utf-8"))
    attempts = tuple(
        Attempt(**attempt | {"requirements": tuple(attempt["requirements"])}) for attempt in found["attempts"]
    )
    if attempts[-1].requirements not in candidates:
        return None
    packages = tuple((name, version) for name, version in found["packages"])
    return Environment(**found | {"python": _python(home), "attempts": attempts, "packages": packages})


def _python(home: Path) -> Path:
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _megabytes(home: Path) -> float:
    return sum(path.lstat().st_size for path in home.rglob("*") if not path.is_dir()) / 2**20


# A package of R: whether it can be had here. Nothing is run with it.

MIRROR = "https://cloud.r-project.org"


def try_r_package(name: str) -> Environment:
    """Ask Debian's packages first and then CRAN, and keep nothing: what either of them answers is the result."""
    with TemporaryDirectory() as folder:
        attempts = (
            _r_attempt(
                f"Debian's r-cran-{name.lower()}",
                ["apt-get", "--simulate", "install", f"r-cran-{name.lower()}"],
            ),
            _r_attempt(f"CRAN's {name}", ["Rscript", "-e", _r_install(name, Path(folder))]),
        )
    return Environment(name=f"{name} (R)", python=None, attempts=attempts)


def _r_install(name: str, folder: Path) -> str:
    where = f'"{folder.as_posix()}"'
    load = f"library({name}, lib.loc = {where})"
    return f'install.packages("{name}", lib = {where}, repos = "{MIRROR}"); {load}'


def _r_attempt(what: str, command: list[str]) -> Attempt:
    started = time.perf_counter()
    if shutil.which(command[0]) is None:
        message = f"there is no {command[0]} on the path"
    else:
        message = message_of(command, INSTALL_LIMIT_S) or "can be had, but nothing here runs it"
    return Attempt(requirements=(what,), message=message, seconds=time.perf_counter() - started)
