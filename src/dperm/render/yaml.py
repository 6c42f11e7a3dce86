"""A small writer of YAML: tables, lists of texts, texts and numbers, nothing else."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[^\W\d_][\w()/.-]*(?: [\w()/.-]+)*")
_NOT_TEXT = re.compile(r"true|false|yes|no|on|off|null|y|n|nan|inf", re.IGNORECASE)
_INDENT = "  "


def written_yaml(value: Mapping[str, Any]) -> str:
    """Text that a reader of YAML 1.1 or 1.2 reads back to the same values.

    Texts must hold no control characters but line breaks and tabs; several lines become a block, which keeps them.
    """
    return "".join(_table(value, 0))


def _table(table: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in table.items():
        start = f"{_INDENT * depth}{key}:"
        if isinstance(value, Mapping):
            lines += [f"{start}\n", *_table(value, depth + 1)]
        elif isinstance(value, list | tuple):
            lines += [f"{start}\n", *(f"{_INDENT * (depth + 1)}- {_scalar(item)}\n" for item in value)]
        else:
            lines.append(f"{start} {_block(value, depth) or _scalar(value)}\n")
    return lines


def _block(value: object, depth: int) -> str:
    """A text of several lines, unless its blanks need quotation marks."""
    if not isinstance(value, str) or "\n" not in value:
        return ""
    lines = value.split("\n")
    if any(line != line.strip() or "\t" in line for line in lines) or not (lines[0] and lines[-1]):
        return ""
    inner = _INDENT * (depth + 1)
    return "|-\n" + "\n".join(f"{inner}{line}" if line else "" for line in lines)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value)
        return value if plain else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    raise TypeError(f"a {type(value).__name__} is none of the values that are written here")
