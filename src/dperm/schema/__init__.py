"""Public schemas, the bounded rows that they make of a table, and readers of files. Nothing is learned from records."""

from dperm.codes import CodedTable
from dperm.schema.checking import check_schema
from dperm.schema.encoding import (
    Effect,
    can_code,
    code_layout,
    effects,
    encode,
    encode_codes,
    encode_rows,
    encode_target,
    feature_names,
    person_ids,
    target_numbers,
)
from dperm.schema.findings import SchemaCheck
from dperm.schema.readers import Reader, look_at, read_table, register_reader, stream_table
from dperm.schema.schema import Schema

__all__ = [
    "CodedTable",
    "Effect",
    "Reader",
    "Schema",
    "SchemaCheck",
    "can_code",
    "check_schema",
    "code_layout",
    "effects",
    "encode",
    "encode_codes",
    "encode_rows",
    "encode_target",
    "feature_names",
    "look_at",
    "person_ids",
    "read_table",
    "register_reader",
    "stream_table",
    "target_numbers",
]
