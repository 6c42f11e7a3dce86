"""Contenders from the command line: a mechanism, settings of it, or a grid of them."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dperm.errors import InvalidInput
from dperm.experiments.spec import Contender, Entrant, contenders_of
from dperm.mechanisms import resolve

SYNTAX = "'NAME SETTING=VALUE,VALUE ...'"


def parse_entrants(
    mechanisms: Sequence[str], searches: Sequence[str], oracles: Sequence[str]
) -> list[Contender]:
    """The contenders in the order of the options, baselines last."""
    from dperm.experiments.tuning import tuned

    found: list[Entrant] = [_with_settings(text) for text in mechanisms]
    for tuning, texts in (("search", searches), ("oracle", oracles)):
        found += [tuned(tuning, *_split(text)) for text in texts]
    return sorted(contenders_of(found), key=lambda contender: not contender.candidates[0].private)


def _with_settings(text: str) -> Entrant:
    name, grid = _split(text)
    if not grid:
        return name
    if any(len(values) > 1 for values in grid.values()):
        raise InvalidInput(
            f"{text!r} has several values for one setting; use --search or --oracle for a grid."
        )
    try:
        mechanism = replace(resolve(name), **{setting: value for setting, (value,) in grid.items()})
    except TypeError:
        known = ", ".join(resolve(name).settings)
        raise InvalidInput(f"{text!r} names a setting that {name!r} has not; it has {known}.") from None
    return Contender(label=text, candidates=(mechanism,))


def _split(text: str) -> tuple[str, dict[str, list[Any]]]:
    name, *settings = text.split() or [""]
    grid = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        if not (key and equals and values):
            raise InvalidInput(f"{setting!r} is not SETTING=VALUE; write {SYNTAX}.")
        grid[key] = [_value(value) for value in values.split(",")]
    return name, grid


def _value(text: str) -> Any:
    """A number, true, false or null as JSON writes it; else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def import_modules(modules: Sequence[str]) -> None:
    """Import modules by name, or .py files by path, for what they register."""
    for module in modules:
        try:
            if module.endswith(".py"):
                _import_file(Path(module))
            else:
                importlib.import_module(module)
        except ImportError as error:
            raise InvalidInput(f"--import {module}: {error}") from error


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InvalidInput(f"--import {path}: there is no such file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
