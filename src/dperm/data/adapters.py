"""What ``fit`` takes beside tables in memory: a folder of shards, a PyArrow dataset."""

from __future__ import annotations

import os
import sys
from typing import Any

from dperm.data.converted import ConvertedShards
from dperm.data.folder import FolderShards
from dperm.engine.adapters import register_adapter
from dperm.engine.shards import ShardSource
from dperm.errors import InvalidInput


@register_adapter
def folder_shards(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    """X is the path of a folder that ``write_shards`` has written; it knows the persons of its rows, or none."""
    if not isinstance(X, str | os.PathLike):
        return None
    if not os.path.isdir(X):  # what text it is, is not told: it may be a record
        raise InvalidInput(
            "X is text, which stands for a folder of shards, and there is no such folder. Give the path of a folder "
            "that dperm convert or dperm.data.write_shards wrote, or a table of numbers."
        )
    shards = FolderShards(X)
    if isinstance(y, str):
        raise InvalidInput("a folder of shards knows its labels; leave y out.")
    return shards


def is_dataset(X: Any) -> bool:
    """Whether X is a PyArrow dataset; nothing is imported to find out."""
    known = sys.modules.get("pyarrow.dataset")
    return known is not None and isinstance(X, known.Dataset)


@register_adapter
def dataset_shards(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    """X is a PyArrow dataset of numbers, y the name of the column with the labels, ``person`` of that with ids."""
    if not is_dataset(X):
        return None
    if not isinstance(y, str):
        raise InvalidInput(
            "a PyArrow dataset is fitted with y the name of its column of labels, if all other columns are numbers; "
            "with a schema, put a PublicEncoder before the model or fit open_shards(dataset, schema)."
        )
    return ConvertedShards(X, None, y, person)
