"""Public schemas, bounded encoding and named data sets. Nothing here is learned from records."""

from dperm.codes import CodedTable
from dperm.datasets.checking import check_schema
from dperm.datasets.codes import can_code, code_layout, encode_codes, encode_rows
from dperm.datasets.dataset import Dataset
from dperm.datasets.effects import Effect, effects
from dperm.datasets.encoding import encode, encode_target, feature_names, target_numbers
from dperm.datasets.files import look_at, read_table
from dperm.datasets.findings import SchemaCheck
from dperm.datasets.person_column import person_ids
from dperm.datasets.registry import (
    dataset_names,
    dataset_rows,
    dataset_schema,
    load_adult,
    load_bank,
    load_cps,
    load_dataset,
    load_ipums_br,
    load_kddcup99,
    load_mnist,
)
from dperm.datasets.schema import Schema
from dperm.datasets.streams import stream_table

__all__ = [
    "CodedTable",
    "Dataset",
    "Effect",
    "Schema",
    "SchemaCheck",
    "can_code",
    "check_schema",
    "code_layout",
    "dataset_names",
    "dataset_rows",
    "dataset_schema",
    "effects",
    "encode",
    "encode_codes",
    "encode_rows",
    "encode_target",
    "feature_names",
    "load_adult",
    "load_bank",
    "load_cps",
    "load_dataset",
    "load_ipums_br",
    "load_kddcup99",
    "load_mnist",
    "look_at",
    "person_ids",
    "read_table",
    "stream_table",
    "target_numbers",
]
