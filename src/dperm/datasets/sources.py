"""Find data files that cannot be shipped, and accept them only when their checksum is the published one."""

import hashlib
import os
from pathlib import Path

from dperm.errors import InvalidInput

FOLDER_VARIABLE = "DPERM_DATA"


def data_folders() -> list[Path]:
    """Where data files are looked for: the folder named by ``DPERM_DATA``, or else ``shared/data`` in or
    beside the working directory and the source checkout."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return [Path(named)]
    checkout = Path(__file__).resolve().parents[3]
    roots = [Path.cwd(), checkout] if (checkout / "pyproject.toml").is_file() else [Path.cwd()]
    return [place / "shared" / "data" for root in roots for place in (root, root.parent)]


def find(file: str) -> Path | None:
    """The data file of this name, if one of the folders has it."""
    return next((folder / file for folder in data_folders() if (folder / file).is_file()), None)


def read_checked(path: Path, sha256: str) -> bytes:
    """The content of a file whose checksum is known."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidInput(
            f"{path.name} is not the published file: its sha256 differs from the expected {sha256}. "
            "Fetch the file again."
        )
    return content
