"""Results as JSON files: written whole or not at all, read with a limit on their size."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dperm.models.atomic import atomic_path
from dperm.strict_json import read_file

MAX_BYTES = 16 << 20
Result = TypeVar("Result")


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    content = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as file:
        file.write_text(content + "\n", encoding="utf-8")


def read_document(
    path: str | os.PathLike[str], made: Callable[[object], Result], what: str, most: int = MAX_BYTES
) -> Result:
    """What ``made`` makes of the JSON in a file of at most ``most`` bytes; ``what`` says what was expected of it."""
    return read_file(path, made, what, most)
