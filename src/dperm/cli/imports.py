"""``--import``: modules that register losses, mechanisms or engines of the user's own."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import click

from dperm.errors import DpermError, InvalidInput

_KEY = "dperm.imported"


def imported(ctx: click.Context) -> bool:
    """Whether this command line imported something, which other processes do not know of."""
    return bool(ctx.find_root().meta.get(_KEY))


def import_at_once(ctx: click.Context, _parameter: click.Parameter, modules: Sequence[str]) -> None:
    """A callback: import before any other option is looked at. Not while a shell completes a line."""
    if ctx.resilient_parsing:
        return
    import_modules(modules)
    if modules:
        ctx.find_root().meta[_KEY] = True


def import_modules(modules: Sequence[str]) -> None:
    """Import modules by name, or .py files by path, for what they register.

    It is somebody's code: whatever it raises is shown by kind and message.
    """
    for module in modules:
        reason = None
        try:
            _import_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
        except (ImportError, DpermError) as error:
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            raise InvalidInput(f"--import {module}: {reason}")


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInput("there is no such file.")
    place, name = str(path.resolve()), path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == place:
            return known
        raise InvalidInput(f"a module named {name!r} is loaded already; give the file another name.")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
