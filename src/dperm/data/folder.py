"""A folder of shards as rows for ``fit``."""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dperm.data.kinds import LABELS, PERSONS
from dperm.data.manifest import Manifest
from dperm.engine.shards import ShardSource
from dperm.errors import InvalidInput

MAPPED_BYTES = 512 * 2**20
"""Bytes of shards that may stay mapped between passes."""

_MAPS: dict[tuple[str, int], list[weakref.ref[mmap.mmap]]] = {}


class FolderShards(ShardSource):
    """Rows in a folder that ``write_shards`` has written. They are mapped, not read into memory.

    Sizes of the files are checked on opening, and every byte with ``check=True``.
    """

    keeps_places = True

    def __init__(self, folder: str | os.PathLike[str], *, check: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._manifest = Manifest.read(self.folder, content=check)
        kind = self._manifest.kind
        self.sizes = tuple(shard.rows for shard in self._manifest.shards)
        self.n_features, self.feature_names = kind.n_features, kind.feature_names
        self.classes = kind.classes
        self.has_labels, self.person = kind.has_labels, kind.person
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
        if len(places) and not (
            places.dtype.kind == "i" and 0 <= places.min() <= places.max() < len(self.classes)
        ):
            raise InvalidInput(
                "a shard holds labels that its manifest does not tell of; write the shards anew."
            )
        return np.asarray(np.asarray(self.classes)[places])

    def persons(self, shard: int) -> NDArray[Any]:
        found = self._array(shard, PERSONS)
        return super().persons(shard) if found is None else found

    def rest(self, shard: int) -> None:
        """Let the system have back the memory of a shard's maps, where all shards together are more than a share of it.

        What is mapped stays in the cache of the file system; the next pass takes it from there.
        """
        if self._manifest.n_bytes > MAPPED_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            for reference in _MAPS.get((self.key, shard), []):
                mapped = reference()
                if mapped is not None:
                    mapped.madvise(mmap.MADV_DONTNEED)

    def _array(self, shard: int, name: str) -> NDArray[Any] | None:
        path = self._manifest.shards[shard].path(self.folder, name)
        if path is None:
            return None
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        maps = [reference for reference in _MAPS.get((self.key, shard), []) if reference() is not None]
        _MAPS[self.key, shard] = [*maps, weakref.ref(array._mmap)]
        if name not in (LABELS, PERSONS):
            return cast("NDArray[Any]", array)
        if array.shape != (self.sizes[shard],):
            raise InvalidInput("a shard has not as many labels or persons as rows; write the shards anew.")
        return np.asarray(array) if name in (LABELS, PERSONS) else array

    def __repr__(self) -> str:
        return f"FolderShards({str(self.folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderShards, (self.folder,)
