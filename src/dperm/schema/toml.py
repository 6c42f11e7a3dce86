"""Read a TOML file that may be hostile, and write one back."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dperm.errors import InvalidInput

MAX_BYTES = 1 << 20
"""Largest file that is read."""

# Strings and comments as a TOML reader meets them, in time linear in the text even when they never end.
_OPAQUE = re.compile(
    r'''"""(?:[^"\\]++|\\.|"(?!""))*+"{0,5}|"(?:[^"\\\n]++|\\.)*+"?|'''
    r"""'''(?:[^']++|'(?!''))*+'{0,5}|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)
# tomllib needs memory quadratic in the depth of a dotted key: 200 kB of dots would take the machine.
_DEEP_KEY = re.compile(r'(?:\.[\w"-]*+){4}')
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(path: Path) -> dict[str, Any]:
    """The tables of a TOML file of at most :data:`MAX_BYTES`."""
    if not path.is_file():
        raise InvalidInput(f"{path.name}: there is no such file.")
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidInput(f"{path.name}: the file is larger than {MAX_BYTES} bytes, the limit for a schema.")
    try:
        text = raw.decode("utf-8")
        too_deep = _DEEP_KEY.search(re.sub(r"[ \t]+", "", _OPAQUE.sub('""', text))) is not None
        tables = {} if too_deep else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise InvalidInput(f"{path.name}: this is not a TOML file ({reason}).") from None
    if too_deep:
        raise InvalidInput(f"{path.name}: a key has too many dots.")
    return tables


def scalar(value: str | int | float) -> str:
    """One value as TOML writes it (text in quotes)."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def key(name: str) -> str:
    """A name as TOML writes it, in quotes where it needs them."""
    return name if _BARE_KEY.fullmatch(name) else scalar(name)


def value_text(value: Any) -> str:
    """One value, or a list of them."""
    return f"[{', '.join(map(value_text, value))}]" if isinstance(value, list) else scalar(value)


def write(table: Mapping[str, Any], header: str = "") -> str:
    """Text of nested tables, with single values before them, ending in a newline."""
    values = [
        f"{key(name)} = {value_text(value)}\n"
        for name, value in table.items()
        if not isinstance(value, Mapping)
    ]
    inner = {key(name): value for name, value in table.items() if isinstance(value, Mapping)}
    head = f"[{header}]\n" if header and (values or not table) else ""
    tables = (write(value, f"{header}.{name}" if header else name) for name, value in inner.items())
    return "".join([head, *values, "\n" if values else "", *tables])
