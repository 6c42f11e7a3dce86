"""Rows beyond memory: written once to a folder of shards, which ``fit`` reads in place of a table.

Shards hold every row: they are as sensitive as the source they were made from.
"""

from dperm.data.converted import ConvertedShards, open_shards
from dperm.data.folder import FolderShards
from dperm.data.writing import write_shards

__all__ = ["ConvertedShards", "FolderShards", "open_shards", "write_shards"]
