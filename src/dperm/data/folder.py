"""A folder of shards as rows for ``fit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.kinds import LABELS
from dperm.data.manifest import Manifest
from dperm.engine.shards import ShardSource


class FolderShards(ShardSource):
    """Rows in a folder that ``write_shards`` has written. They are mapped, not read into memory.

    Sizes of the files are checked on opening, and every byte with ``check=True``.
    """

    def __init__(self, folder: str | os.PathLike[str], *, check: bool = False) -> None:
        self._folder = Path(folder).absolute()
        self._manifest = Manifest.read(self._folder, content=check)
        kind = self._manifest.kind
        self.sizes = tuple(shard.rows for shard in self._manifest.shards)
        self.n_features, self.feature_names = kind.n_features, kind.feature_names
        self.classes = kind.classes
        self.has_labels = getattr(kind, "has_labels", True)
        self.key = self._manifest.digest

    @property
    def schema(self) -> Any:
        """The schema that the rows were made with, or None."""
        return getattr(self._manifest.kind, "schema", None)

    def load(self, shard: int) -> tuple[Any, Any]:
        told = self._manifest.shards[shard]
        found = {name: self._array(shard, name) for name in ("X", "codes", "floats")}
        arrays = {name: array for name, array in found.items() if array is not None}
        return self._manifest.kind.rows(arrays, told.rows), self.labels(shard)

    def labels(self, shard: int) -> NDArray[Any] | None:
        places = self._array(shard, LABELS)
        if places is None or self.classes is None:
            return places
        return np.asarray(np.asarray(self.classes)[places])

    def _array(self, shard: int, name: str) -> NDArray[Any] | None:
        path = self._manifest.shards[shard].path(self._folder, name)
        return None if path is None else np.load(path, mmap_mode="r", allow_pickle=False)

    def __repr__(self) -> str:
        return f"FolderShards({str(self._folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderShards, (self._folder,)


def open_shards(folder: str | os.PathLike[str], *, check: bool = False) -> FolderShards:
    """Rows of a folder of shards, for ``fit``.

    Parameters
    ----------
    folder : path
        What ``write_shards`` or ``dperm convert`` has written.
    check : bool
        Whether to read every byte and compare it with its checksum. The sizes of the files are compared in any case.
    """
    return FolderShards(folder, check=check)
