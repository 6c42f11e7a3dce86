"""A fitted model as an ONNX file: the same predictions without Python, and the guarantee in its metadata.

The graph takes encoded rows, or the columns of a schema, which it encodes as ``dperm.schema.encode`` does. Dates come
as days since 1970-01-01.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm import __version__
from dperm.certificate.statement import loss_of
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import is_turned
from dperm.losses import Loss
from dperm.models.atomic import atomic_path
from dperm.models.files import parts_of
from dperm.models.format import check_columns
from dperm.schema import Schema
from dperm.schema.dates import Date, day_of
from dperm.schema.features import Block, Categorical, Cross, Hashed, Numeric
from dperm.schema.schema import ROUNDING_SLACK, Feature

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8  # old enough for runtimes of 2022
FARTHEST = 1e8
OUTPUTS = ("label", "probabilities", "scores", "variable")
NONE = -1  # the code of a value that has no level


def onnx_package() -> Any:
    """The package ``onnx``, or an error that says how to get it."""
    with suppress(ImportError):
        import onnx

        return onnx
    raise Unsupported("export to ONNX needs the package onnx: pip install 'dperm[onnx]'.")


class Graph:
    """Nodes in their order, constants, and what goes in and out."""

    def __init__(self) -> None:
        self._onnx = onnx_package()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def read(self, name: str, dtype: Any, width: int) -> str:
        """An input of any number of rows, and ``width`` columns."""
        self._inputs.append(self._value(name, dtype, (None, width)))
        return name

    def give(self, name: str, value: str, dtype: Any, shape: tuple[int | None, ...]) -> None:
        """An output."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"dperm/constant {len(self._constants)}"
        array = np.asarray(value, dtype=dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str | float, domain: str = "", **attributes: Any) -> str:
        """The name of what an operation gives; a number among its inputs is a constant."""
        named = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"dperm/value {len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, named, [name], domain=domain, **attributes))
        return name

    def to(self, value: str, dtype: Any) -> str:
        return self.op("Cast", value, to=self._type(dtype))

    def model(self, description: str, properties: dict[str, str]) -> Any:
        """The whole, checked."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "dperm", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="dperm")
        model.doc_string = description
        helper.set_model_props(model, properties)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _value(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
        kind = self._onnx.TensorProto.STRING if dtype is str else self._type(dtype)
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)


def date_columns(graph: Graph, feature: Date, column: str) -> dict[str, str]:
    """What the parts of a date are made of, by name; NaN where it is missing."""
    marks = [day_of(mark) for mark in feature.missing if isinstance(mark, str)]
    missing = _missing(graph, column, tuple(mark for mark in marks if not math.isnan(mark)))
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
    return _rest(graph, graph.op("Add", graph.op("Floor", day), 3.0), 7.0)  # 1970-01-01 was a Thursday


def _hour(graph: Graph, day: str) -> str:
    seconds = graph.op("Mul", graph.op("Sub", day, graph.op("Floor", day)), 86_400.0)
    return graph.op("Min", _whole(graph, graph.op("Add", seconds, 1e-3), 3600.0), 23.0)


def _whole(graph: Graph, value: str, by: float) -> str:
    return graph.op("Floor", graph.op("Div", value, by))


def _rest(graph: Graph, value: str, by: float) -> str:
    return graph.op("Sub", value, graph.op("Mul", _whole(graph, value, by), by))


def encoded(graph: Graph, schema: Schema) -> str:
    """Rows as a model sees them, from one input for each feature: numbers, days, text or truth values."""
    for feature in schema.features:
        check_expressible(feature)
    columns = {feature.name: graph.read(feature.name, _input_type(feature), 1) for feature in schema.features}
    for feature in schema.features:
        if isinstance(feature, Date):
            columns |= date_columns(graph, feature, columns[feature.name])
    blocks = [_block(graph, block, columns) for block in schema.blocks]
    rows = graph.op("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
    rows = graph.op("Mul", rows, schema.scale)
    if schema.norm_share < 1:
        norms = graph.op("Div", graph.op("ReduceL2", rows, axes=[1]), 1 - ROUNDING_SLACK)
        rows = graph.op("Div", rows, graph.op("Max", norms, 1.0))
    return rows


def check_expressible(feature: Feature) -> None:
    if isinstance(feature, Hashed) or (isinstance(feature, Categorical) and feature.fold):
        raise Unsupported(
            f"feature {feature.name!r} has an encoding that ONNX cannot express; leave out raw, and encode rows with "
            "PublicEncoder."
        )
    if feature.name in OUTPUTS:
        raise Unsupported(
            f"feature {feature.name!r} has the name of an output; export the model without raw."
        )


def _input_type(feature: object) -> type:
    if isinstance(feature, Categorical):
        return {str: str, bool: np.bool_, int: np.float64}[type(feature.categories[0])]
    return np.float64


def _block(graph: Graph, block: Block, columns: Mapping[str, str]) -> str:
    if isinstance(block, Cross):
        left, right = (_code(graph, part, columns[part.name]) for part in (block.left, block.right))
        width = graph.constant(len(block.right.levels), np.int64)
        pair = graph.op("Add", graph.op("Mul", left, width), right)
        least = graph.op("Min", left, right)
        known = graph.op("Less", graph.constant(NONE, np.int64), least)
        pair = graph.op("Where", known, pair, graph.constant(NONE, np.int64))
        return _levels(graph, pair, block.n_columns)
    if isinstance(block, Categorical):
        return _levels(graph, _code(graph, block, columns[block.name]), block.n_columns)
    assert isinstance(block, Numeric)
    return _number(graph, block, columns[block.name])


def _levels(graph: Graph, code: str, count: int) -> str:
    """1 - 1/k for the row's own level and -1/k elsewhere; zeros where there is none."""
    own = graph.to(graph.op("Equal", code, graph.constant([range(count)], np.int64)), np.float64)
    known = graph.to(graph.op("Less", graph.constant(NONE, np.int64), code), np.float64)
    return graph.op("Mul", graph.op("Sub", own, 1 / count), known)


def _code(graph: Graph, feature: object, column: str) -> str:
    """The number of a value's level, or ``NONE``."""
    if isinstance(feature, Numeric):
        missing = _missing(graph, column, feature.missing)
        above = graph.to(graph.op("GreaterOrEqual", column, graph.constant([feature.bins])), np.int64)
        bins = graph.op("ReduceSum", above, graph.constant([1], np.int64), keepdims=1)
        return graph.op("Where", missing, graph.constant(NONE, np.int64), bins)
    assert isinstance(feature, Categorical)
    other = NONE if feature.missing_as is None else feature.categories.index(feature.missing_as)
    kind = type(feature.categories[0])
    if kind is str:
        codes = {str(category): place for place, category in enumerate(feature.categories)}
        codes |= {str(mark): other for mark in feature.missing}
        codes.setdefault("", other)  # ONNX has no null
        return graph.op(
            "LabelEncoder",
            column,
            domain="ai.onnx.ml",
            keys_strings=list(codes),
            values_int64s=list(codes.values()),
            default_int64=NONE,
        )
    if kind is bool:
        place = {value: code for code, value in enumerate(feature.categories)}
        first, second = (graph.constant(place[value], np.int64) for value in (True, False))
        return graph.op("Where", column, first, second)
    own = graph.to(graph.op("Equal", column, graph.constant([feature.categories])), np.int64)
    places = graph.constant([range(1, len(feature.categories) + 1)], np.int64)
    found = graph.op("ReduceSum", graph.op("Mul", own, places), graph.constant([1], np.int64), keepdims=1)
    found = graph.op("Sub", found, graph.constant(1, np.int64))
    missing = _missing(graph, column, feature.missing)
    return graph.op("Where", missing, graph.constant(other, np.int64), found)


def _missing(graph: Graph, column: str, marks: tuple[str | float, ...]) -> str:
    """Where a number is NaN or one of its marks; marks of text must come as NaN."""
    told = [graph.op("Equal", column, float(mark)) for mark in marks if not isinstance(mark, str)]
    return reduce(lambda a, b: graph.op("Or", a, b), told, graph.op("IsNaN", column))


def _number(graph: Graph, feature: Numeric, column: str) -> str:
    missing = _missing(graph, column, feature.missing)
    low, high = feature.range
    value = graph.op("Clip", graph.op("Where", missing, low, column), low, high)
    if feature.log:
        value = graph.op("Log", graph.op("Add", value, 1.0))
    reach = feature.reach
    moved = graph.op("Clip", graph.op("Sub", value, feature.origin), -reach, reach)
    moved = graph.op("Mul", moved, 0.5 / reach)
    parts = [graph.op("Where", missing, 0.0, moved)]
    if feature.indicator:
        parts.append(graph.op("Where", missing, 0.5, -0.5))
    if feature.n_splines:
        last = feature.n_splines - 1
        start, end = feature.ends
        place = graph.op("Mul", graph.op("Sub", moved, start), last / (end - start))
        place = graph.op("Clip", place, 0.0, float(last))
        far = graph.op("Abs", graph.op("Sub", place, graph.constant([range(feature.n_splines)])))
        hats = graph.op("Sub", graph.op("Max", graph.op("Sub", 1.0, far), 0.0), 1 / feature.n_splines)
        parts.append(graph.op("Where", missing, 0.0, hats))
    elif feature.bins:
        parts.append(_levels(graph, _code(graph, feature, column), len(feature.bins) + 1))
    return graph.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def export_onnx(
    model: PrivateLinearModel | Pipeline | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    raw: bool = False,
    schema: Schema | str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to an ONNX file, whole or not at all. It needs the package onnx.

    Parameters
    ----------
    model : private linear estimator, a Pipeline of a PublicEncoder and one, or the path of a saved model
    path : path
        An existing file is replaced.
    raw : bool
        Whether the graph takes the columns of the schema, one input each, of shape (rows, 1): numbers in float64 with
        NaN where one is missing, dates as days since 1970-01-01, text, or truth values. Otherwise it takes
        encoded rows, one float32 matrix ``X``.
    schema : Schema, path of a TOML file, or dictionary, optional
        For ``raw``, where the model does not bring its own.

    Guarantee
    ---------
    The file holds released numbers only: it is post-processing and costs nothing. Its metadata name the digest of the
    certificate; ``dperm verify`` is for the model file that it was made of.
    """
    estimator, declared = parts_of(model, schema)
    check_is_fitted(estimator, "certificate_")
    graph = Graph()
    if raw:
        if declared is None:
            raise InvalidInput("raw needs a schema: give schema=, or a model that was saved with one.")
        check_columns(declared, estimator.n_features_in_)
        rows = encoded(graph, declared)
    else:
        rows = graph.to(graph.read("X", np.float32, estimator.n_features_in_), np.float64)
    _outputs(graph, estimator, _margins(graph, estimator, rows))
    about = f"{type(estimator).__name__} of dperm {__version__}. {estimator.privacy_.headline}."
    made = graph.model(about, _properties(estimator))
    with atomic_path(path) as file:
        file.write_bytes(made.SerializeToString())


def _margins(graph: Graph, estimator: PrivateLinearModel, rows: str) -> str:
    """One column for each score, of rows that are mapped as in prediction."""
    row_map = estimator.row_map_
    coefficients = np.atleast_2d(estimator.coef_).T
    constant = np.atleast_1d(estimator.intercept_)[None, :]
    if not row_map.linear:
        rows = graph.op("Mul", rows, _shrinkage(graph, rows, row_map.x_norm))
        if row_map.moves:
            centre = 0.0 if row_map.centre is None else row_map.centre[None, :]
            constant = constant + (0.0 if row_map.centre is None else row_map.centre @ coefficients)
            rows = graph.op("Sub", rows, graph.constant(centre))
            scaled = rows
            if row_map.scale is not None:
                scaled = graph.op("Div", rows, graph.constant(row_map.scale[None, :]))
            rows = graph.op("Mul", rows, _shrinkage(graph, scaled, row_map.x_norm))
    return graph.op("Add", graph.op("MatMul", rows, graph.constant(coefficients)), graph.constant(constant))


def _shrinkage(graph: Graph, rows: str, x_norm: float) -> str:
    """What shortens rows to the bound."""
    norms = graph.op("ReduceL2", rows, axes=[1])
    return graph.op("Div", x_norm, graph.op("Max", norms, x_norm))


def _outputs(graph: Graph, estimator: PrivateLinearModel, margins: str) -> None:
    """Under the names that skl2onnx uses: ``label`` and ``probabilities``, or ``variable`` of a regression."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        graph.give("variable", graph.to(margins, np.float32), np.float32, (None, 1))
        return
    if len(classes) > 2:
        place = graph.op("ArgMax", margins, axis=1, keepdims=0)
    else:
        threshold = getattr(estimator, "threshold_", None)
        line = 0.0 if threshold is None else threshold.margin
        flat = graph.op("Squeeze", margins, graph.constant([1], np.int64))
        turned = is_turned(estimator)  # then the positive class lies below the line
        above = graph.op("GreaterOrEqual", flat, line) if turned else graph.op("Less", line, flat)
        place = graph.to(above, np.int64)
    labels, dtype = _labels(classes)
    graph.give("label", graph.op("Gather", graph.constant(labels, labels.dtype), place), dtype, (None,))
    loss = loss_of(estimator.privacy_.statement["problem"]).unweighted
    link = _LINKS.get(loss.name)
    if link is None:
        scores = len(np.atleast_2d(estimator.coef_))
        graph.give("scores", graph.to(margins, np.float32), np.float32, (None, scores))
        return
    odds = link(graph, loss, margins)
    if len(classes) > 2:
        chances = graph.op("Softmax", odds, axis=1)
    else:
        other = graph.op("Sigmoid", graph.op("Neg", odds))
        chances = graph.op("Concat", other, graph.op("Sigmoid", odds), axis=1)
    graph.give("probabilities", graph.to(chances, np.float32), np.float32, (None, len(classes)))


_LABEL_TYPES: dict[type, Any] = {str: object, bool: np.bool_, int: np.int64, float: np.float64}


def _labels(classes: Any) -> tuple[Any, Any]:
    """The labels as ONNX holds them, and their type there."""
    values = classes.tolist()
    kind, *others = {type(value) for value in values}
    if others or kind not in _LABEL_TYPES:
        raise Unsupported(
            "ONNX needs class labels of one kind: text, whole numbers, numbers or truth values."
        )
    dtype = _LABEL_TYPES[kind]
    return np.array(values, dtype=dtype), str if kind is str else dtype


def _soft_clipped(graph: Graph, loss: Loss, margins: str) -> str:
    clip, room, knot, rate = loss.kernel_parameters

    def log_slope(z: str) -> str:
        below = graph.op("Min", graph.op("Sub", z, knot), 0.0)
        power = graph.op("Exp", graph.op("Mul", below, rate))
        saturating = graph.op("Log", graph.op("Sub", clip, graph.op("Mul", power, room)))
        return graph.op("Where", graph.op("Less", z, knot), saturating, graph.op("Neg", _softplus(graph, z)))

    return graph.op("Sub", log_slope(graph.op("Neg", margins)), log_slope(margins))


def _hard_clipped(graph: Graph, loss: Loss, margins: str) -> str:
    (clip,) = loss.parameters

    def log_slope(z: str) -> str:
        return graph.op("Min", graph.op("Neg", _softplus(graph, z)), float(np.log(clip)))

    return graph.op("Sub", log_slope(graph.op("Neg", margins)), log_slope(margins))


def _with_margin(graph: Graph, loss: Loss, margins: str) -> str:
    (shift,) = loss.parameters
    own = _softplus(graph, graph.op("Sub", margins, shift))
    other = _softplus(graph, graph.op("Sub", graph.op("Neg", margins), shift))
    return graph.op("Sub", own, other)


def _softplus(graph: Graph, z: str) -> str:
    """log(1 + e^z) without overflow."""
    decay = graph.op("Exp", graph.op("Neg", graph.op("Abs", z)))
    return graph.op("Add", graph.op("Max", z, 0.0), graph.op("Log", graph.op("Add", decay, 1.0)))


_LINKS: dict[str, Callable[[Graph, Loss, str], str]] = {
    "logistic": lambda graph, loss, margins: margins,
    "softmax": lambda graph, loss, margins: margins,
    "soft-clipped-logistic": _soft_clipped,
    "hard-clipped-logistic": _hard_clipped,
    "margin-logistic": _with_margin,
}


def _properties(estimator: PrivateLinearModel) -> dict[str, str]:
    """What is guaranteed, and which certificate says so."""
    certificate, report = estimator.certificate_, estimator.privacy_
    held = report.guarantee
    return {
        "dperm.guarantee": report.headline,
        "dperm.epsilon": "" if held is None else repr(held["epsilon"]),
        "dperm.delta": "" if held is None else repr(held["delta"]),
        "dperm.neighbours": report.neighbours,
        "dperm.certificate": certificate["digest"],
        "dperm.model": certificate["model"]["sha256"],
        "dperm.library": __version__,
    }
