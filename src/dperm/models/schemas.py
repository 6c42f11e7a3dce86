"""The schema in a model file. It leaves nothing to a default: a number that states no hats has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dperm.datasets import Schema


def stored_schema(schema: Schema) -> dict[str, Any]:
    return replace(schema.settled(), spline=None).to_dict()


def schema_of(stored: Any) -> Schema:
    schema = Schema.from_dict(stored)
    return replace(schema, spline=0) if schema.spline is None else schema
