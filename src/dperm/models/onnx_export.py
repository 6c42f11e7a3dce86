"""A fitted model as an ONNX file: the same predictions without Python, and the guarantee in its metadata."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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
from dperm.models.building import check_columns
from dperm.models.files import parts_of
from dperm.models.onnx_columns import encoded
from dperm.models.onnx_graph import Graph
from dperm.row_map import RowMap
from dperm.schema import Schema


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
    made = graph.model(_description(estimator), _properties(estimator))
    with atomic_path(path) as file:
        file.write_bytes(made.SerializeToString())


def _margins(graph: Graph, estimator: PrivateLinearModel, rows: str) -> str:
    """One column for each score, of rows that are mapped as in prediction."""
    row_map = estimator.row_map_
    coefficients = np.atleast_2d(estimator.coef_).T
    constant = np.atleast_1d(estimator.intercept_)[None, :]
    if not row_map.linear:
        rows = _bounded(graph, rows, row_map.x_norm)
        if row_map.moves:
            centre = 0.0 if row_map.centre is None else row_map.centre[None, :]
            constant = constant + (0.0 if row_map.centre is None else row_map.centre @ coefficients)
            rows = graph.op("Sub", rows, graph.constant(centre))
            rows = graph.op("Mul", rows, _factor(graph, rows, row_map))
    return graph.op("Add", graph.op("MatMul", rows, graph.constant(coefficients)), graph.constant(constant))


def _factor(graph: Graph, moved: str, row_map: RowMap) -> str:
    """What shortens moved rows, once scaled, to the bound."""
    scaled = (
        moved if row_map.scale is None else graph.op("Div", moved, graph.constant(row_map.scale[None, :]))
    )
    return _shrinkage(graph, scaled, row_map.x_norm)


def _bounded(graph: Graph, rows: str, x_norm: float) -> str:
    return graph.op("Mul", rows, _shrinkage(graph, rows, x_norm))


def _shrinkage(graph: Graph, rows: str, x_norm: float) -> str:
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
        graph.give("scores", graph.to(margins, np.float32), np.float32, (None, margins_width(estimator)))
        return
    odds = link(graph, loss, margins)
    if len(classes) > 2:
        chances = graph.op("Softmax", odds, axis=1)
    else:
        other = graph.op("Sigmoid", graph.op("Neg", odds))
        chances = graph.op("Concat", other, graph.op("Sigmoid", odds), axis=1)
    graph.give("probabilities", graph.to(chances, np.float32), np.float32, (None, len(classes)))


def margins_width(estimator: PrivateLinearModel) -> int:
    return len(np.atleast_2d(estimator.coef_))


def _labels(classes: Any) -> tuple[Any, Any]:
    """The labels as ONNX holds them, and their type there."""
    values = classes.tolist()
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return np.array(values, dtype=object), str
    if kinds == {bool}:
        return np.array(values), np.bool_
    if kinds == {int}:
        return np.array(values, dtype=np.int64), np.int64
    if kinds == {float}:
        return np.array(values, dtype=np.float64), np.float64
    raise Unsupported("ONNX needs class labels of one kind: text, whole numbers, numbers or truth values.")


def _same(graph: Graph, loss: Loss, margins: str) -> str:
    return margins


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
    "logistic": _same,
    "softmax": _same,
    "soft-clipped-logistic": _soft_clipped,
    "hard-clipped-logistic": _hard_clipped,
    "margin-logistic": _with_margin,
}


def _description(estimator: PrivateLinearModel) -> str:
    return f"{type(estimator).__name__} of dperm {__version__}. {str(estimator.privacy_).splitlines()[0]}."


def _properties(estimator: PrivateLinearModel) -> dict[str, str]:
    """What is guaranteed, and which certificate says so."""
    certificate, report = estimator.certificate_, estimator.privacy_
    held = report.guarantee
    return {
        "dperm.guarantee": str(report).splitlines()[0],
        "dperm.epsilon": "" if held is None else repr(held["epsilon"]),
        "dperm.delta": "" if held is None else repr(held["delta"]),
        "dperm.neighbours": report.neighbours,
        "dperm.certificate": certificate["digest"],
        "dperm.model": certificate["model"]["sha256"],
        "dperm.library": __version__,
    }
