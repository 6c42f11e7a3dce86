"""Dates in ONNX: from days since 1970-01-01 to places in the year, the week and the day."""

from __future__ import annotations

import math
from functools import reduce

from dperm.models.onnx_graph import Graph
from dperm.schema.dates import Date, day_of

MONDAY = 3  # 1970-01-01 was a Thursday
FARTHEST = 1e8


def date_columns(graph: Graph, feature: Date, column: str) -> dict[str, str]:
    """What the parts of a date are made of, by name; NaN where it is missing."""
    marks = [day_of(mark) for mark in feature.missing if isinstance(mark, str)]
    told = [graph.op("Equal", column, mark) for mark in marks if not math.isnan(mark)]
    missing = reduce(lambda a, b: graph.op("Or", a, b), told, graph.op("IsNaN", column))
    known = graph.op("Clip", graph.op("Where", missing, 0.0, column), -FARTHEST, FARTHEST)
    found = {feature.name: graph.op("Where", missing, math.nan, column)}
    for cycle in feature.cycles:
        place = {"month": _month, "weekday": _weekday, "hour": _hour}[cycle](graph, known)
        found[f"{feature.name} {cycle}"] = graph.op("Where", missing, math.nan, place)
    return found


def _month(graph: Graph, day: str) -> str:
    """Months counted from March within 400 years of 146,097 days, where leap days come last; then from January."""
    since = graph.op("Add", graph.op("Floor", day), 719468.0)  # since the first of March of the year 0
    rest = _rest(graph, since, 146097.0)
    leaps = graph.op("Sub", rest, _whole(graph, rest, 1460.0))
    leaps = graph.op("Add", leaps, _whole(graph, rest, 36524.0))
    year = _whole(graph, graph.op("Sub", leaps, _whole(graph, rest, 146096.0)), 365.0)
    before = graph.op("Add", graph.op("Mul", year, 365.0), _whole(graph, year, 4.0))
    before = graph.op("Sub", before, _whole(graph, year, 100.0))
    within = graph.op("Sub", rest, before)
    march = _whole(graph, graph.op("Add", graph.op("Mul", within, 5.0), 2.0), 153.0)
    return _rest(graph, graph.op("Add", march, 2.0), 12.0)


def _weekday(graph: Graph, day: str) -> str:
    return _rest(graph, graph.op("Add", graph.op("Floor", day), float(MONDAY)), 7.0)


def _hour(graph: Graph, day: str) -> str:
    seconds = graph.op("Mul", graph.op("Sub", day, graph.op("Floor", day)), 86_400.0)
    return graph.op("Min", _whole(graph, graph.op("Add", seconds, 1e-3), 3600.0), 23.0)


def _whole(graph: Graph, value: str, by: float) -> str:
    return graph.op("Floor", graph.op("Div", value, by))


def _rest(graph: Graph, value: str, by: float) -> str:
    return graph.op("Sub", value, graph.op("Mul", _whole(graph, value, by), by))
