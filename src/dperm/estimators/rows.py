"""Where rows come from: one ``RowSource`` answers what ``fit``, ``predict`` and ``evaluate`` ask of X, of any kind.

Errors about the form of rows leave in words that quote none of them (``redact_errors``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from dperm.codes import CodedTable
from dperm.data import converted as _adapters  # noqa: F401  # folders and datasets are known from now on
from dperm.engine import Rows, SparseRows, Table, engine_for, labels_in, source_of
from dperm.engine.device.tensors import on_host
from dperm.engine.registry import type_names
from dperm.engine.sparse.rows import as_csr
from dperm.errors import DpermError, InvalidInput, InvalidType, Unsupported
from dperm.estimators.persons import GroupedRows, grouped_rows
from dperm.row_map import RowMap
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateLinearModel

Vector = NDArray[np.float64]
_CELLS_AT_ONCE = 2**21

_FLOATS = [np.float64, np.float32]
_SHAPE = r"\((?:\d+(?:, ?|,?(?=\))))*\)"
_CLASS = r"[A-Za-z_][\w.]*"
# What the beginning of a message may say: constant words, counts, shapes and names of types. Only what matches is kept.
_PUBLIC = re.compile(
    "|".join(
        (
            r"Input (?:X |y )?contains (?:NaN|infinity or a value too large for dtype\('[a-z]+\d+'\))",
            r"Input should have at least 1 dimension",
            rf"Found array with \d+ (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of \d+ is required",
            r"Found array with dim \d+, while dim <= 2 is required",
            r"Found input variables with inconsistent numbers of samples: \[\d+(?:, \d+)*\]",
            rf"Expected 2D (?:array, got (?:1D|scalar) array|input, got input with shape {_SHAPE})",
            rf"Expected a 2-dimensional container but got <class '{_CLASS}'>",
            rf"Expected sequence or array-like, got <class '{_CLASS}'>",
            r"Expected array-like \(array or non-string sequence\)",
            r"Complex data not supported",
            r"Sparse data was passed(?: for [Xy])?, but dense data is required\. "
            r"Use '\.toarray\(\)' to convert to a dense numpy array",
            rf"X has \d+ features, but {_CLASS} is expecting \d+ features as input",
            rf"y should be a 1d array, got an array of shape {_SHAPE} instead",
            r"y cannot be class 'SparseSeries' or 'SparseArray'",
            r"Unknown label type: (?:continuous|unknown|multiclass-multioutput|continuous-multioutput)"
            r"(?:\. Maybe you are trying to fit a classifier, which expects discrete classes on a regression target "
            r"with continuous values)?",
            r"Mix of label input types \(string and number\)",
            r"Support for labels represented as bytes is not supported",
            r"You appear to be using a legacy multi-label data representation",
            rf"(?:This )?{_CLASS}(?: estimator)? requires y to be passed, but the target y is None",
            rf"float\(\) argument must be a string or a (?:real )?number, not '{_CLASS}'",
            r"dtype='numeric' is not compatible with arrays of bytes/strings",
            r"np\.matrix is not supported",
            r"Feature names are only supported if all input features have string names",
        )
    )
)
_RESHAPE = re.compile("Expected 2D ")
# Names of columns are public, and scikit-learn lists those that differ one to a line.
_NAMES = re.compile(
    r"The feature names should match those that were passed during fit\.\n"
    r"(?:Feature names (?:unseen at fit time|seen at fit time, yet now missing):\n(?:- .*\n)+|"
    r"Feature names must be in the same order as they were in fit\.\n)+"
)


class redact_errors:
    """Errors about the form of the rows leave the block in words that quote none of them.

    Guarantee
    ---------
    The error that leaves holds no other one: neither ``__cause__`` nor ``__context__`` leads to the message that was
    replaced. Frames of the traceback still hold the caller's own arrays, as those of every Python error do.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, DpermError | MemoryError | Warning):
            return
        public = _public_error(error)
        try:
            raise public
        finally:  # Python has linked the error that is being replaced
            public.__context__ = None


def _public_error(error: Exception) -> DpermError:
    """An error of the same kind that says no more than is public."""
    text = str(error)
    kind = InvalidType if isinstance(error, TypeError) else InvalidInput
    names = _NAMES.fullmatch(text)
    if names is not None:
        return kind(text)
    public = _PUBLIC.match(text)
    if public is not None and _RESHAPE.match(text):
        return kind(f"{public[0]}. Reshape your data: one row for each person, one column for each feature.")
    if public is not None:
        return kind(f"{public[0]}.")
    return InvalidInput(
        "X must be a table of numbers and y one target for each row; reading them failed with "
        f"{type(error).__name__}. Look for strings, nested lists or numbers too large for a float."
    )


class RowSource:
    """Rows of any kind and their targets, as they were given: an array, a frame, sparse rows, a tensor, shards, Dask.

    ``shape``, ``classes`` and ``persons`` are asked before a value is read; ``read``, ``labels`` and ``margins`` read.
    What is made for these rows alone, such as converted shards, is given back at the end of the ``with`` block.

    Parameters
    ----------
    X : rows
    y : targets, the name of a column, or None
    groups : ids of persons, or the name of the column of a frame that has them and is then no feature

    Attributes
    ----------
    X
        The rows as they came, or the shards that they are.
    y
        The targets, from a device brought to the host; None where the shards hold them.
    has_labels : bool
        Whether the shards hold the targets, beside their rows.
    """

    def __init__(self, X: Any, y: Any = None, groups: Any = None) -> None:
        with redact_errors():
            self.shards = source_of(X, y, groups if isinstance(groups, str) else None)
        self._given, self.X = X, X if self.shards is None else self.shards
        self.has_labels = self.shards is not None and self.shards.has_labels
        if self.shards is None and "__dlpack__" in type_names(type(y)):  # type: ignore[arg-type]
            y = on_host(y)
        self.y = None if self.has_labels else y

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.shards is not None and self.shards is not self._given:
            self.shards.close()

    @cached_property
    def engine(self) -> type[Rows]:
        return engine_for(self.X)

    @property
    def classes(self) -> Any:
        """All labels that may occur, where something public beside the rows says so, such as the schema of a folder."""
        return self.shards.classes if self.shards is not None and self.has_labels else None

    def shape(self, paying: bool, y: Any = None) -> tuple[int, ...]:
        """Before a value is looked at; the targets, or ``y``, must tell of as many rows."""
        if paying and self.shards is not None and not self.shards.sizes_are_known:
            raise InvalidInput(
                "With a ledger the number of rows must be known before a row is read: make shards first, with "
                "dperm.engine.dask_shards or dperm.engine.spark_shards, and fit on those."
            )
        with redact_errors():
            shape = _shape_of(self.X, paying) if self.engine is Table else self.engine.shape_of(self.X)
            _check_targets(self.y if y is None else y, shape, paying)
            return shape

    def table_shape(self, estimator: Any, paying: bool, fewest: int) -> tuple[int, int]:
        """Rows and features for a fit. What is no table is refused in scikit-learn's words."""
        shape = self.shape(paying)
        with redact_errors():
            missing = self.y is None and not self.has_labels
            dense = sparse.issparse(self.X) and self.engine is Table
            if missing or dense or len(shape) != 2 or shape[1] == 0 or shape[0] < fewest:
                table = self.X if missing or dense else np.broadcast_to(0.0, shape)
                validate_data(estimator, table, "in shards" if self.has_labels else self.y)
            return int(shape[0]), int(shape[1])

    def persons(self, groups: Any, n_rows: int, paying: bool) -> GroupedRows | None:
        """Which rows belong to which person, where ``groups`` says so or the shards know."""
        if groups is None and (self.shards is None or self.shards.person is None):
            return None
        with redact_errors():
            return grouped_rows(groups, self.X, n_rows, paying)

    def read(self, estimator: Any, **form: Any) -> tuple[Any, Any]:
        """Rows and targets of a fit; targets are None where the shards hold them. Other engines open their own rows.

        What tells its shape alone before it is read (``read``) is read here.
        """
        X, engine, names = self.X, self.engine, None
        if self.has_labels:
            _note_features(estimator, X, X.shape[1])
            return X, None
        if hasattr(X, "read") and hasattr(X, "shape"):
            names, X = getattr(X, "feature_names", None), X.read()
            engine = engine_for(X)
        if engine is Table:
            rows, targets = checked(estimator, X, self.y, dtype=_FLOATS, **form)
            estimator._names_of_encoder = names is not None
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            return rows, targets
        form.pop("ensure_min_samples", None)
        targets = checked(estimator, y=self.y, **form)
        if engine is SparseRows:
            checked(estimator, X, skip_check_array=True)  # names and number of the columns
            estimator._names_of_encoder = False
            with redact_errors():
                return as_csr(X), targets
        _note_features(estimator, X, engine.shape_of(X)[1])
        return X, targets

    def labels(self) -> Any:
        """The targets as they came, fetched from the shards that hold them."""
        return labels_in(self.X) if self.has_labels else self.y

    def margins(self, model: PrivateLinearModel, neighbours: Neighbours | None = None) -> Vector:
        """The linear function of every row, mapped as in training; with ``neighbours`` each apart from all others.

        Matrix products may round a row one way in one place of a table and another way in another. A count of rows in
        bins must not depend on that: a row on the edge of a bin would change its cell because another came or went.

        Guarantee
        ---------
        With ``neighbours`` the margin of a row depends on this row alone, wherever it stands and whatever the others
        are. Of shards and other kinds than arrays, coded rows and sparse ones it may depend on the place too, so
        add-remove is refused there.
        """
        X, kind = self.X, self.engine
        if kind is Table:
            X = self._features(model, 1 if neighbours is None else 0)
        elif kind is SparseRows:  # a frame may have other names than those of the fit
            checked(model, X, skip_check_array=True, reset=False)
        weights, constant, row_map = model.coef_.T, model.intercept_, model.row_map_
        with redact_errors():
            check_features(model, kind.shape_of(X)[1])
            _check_names(model, X)
            if neighbours is None:
                return kind.margins_of(X, row_map, weights, constant)
            if kind is SparseRows:
                X = as_csr(X).astype(np.float64, copy=False)
                if not np.isfinite(X.data).all():
                    raise InvalidInput("X holds numbers that are not finite.")
                if row_map.linear:  # row by row, one entry after the other
                    return np.asarray(X @ weights + constant)
            elif kind is not Table and not isinstance(X, CodedTable):
                self.check_place(neighbours)
                return kind.margins_of(X, row_map, weights, constant)
            return _joined(X, row_map, weights, constant)

    def check_place(self, neighbours: Neighbours) -> None:
        """Refuse rows whose margins depend on their place, where that would tell of the others."""
        apart = isinstance(self.X, CodedTable) or self.engine in (Table, SparseRows)
        if neighbours is Neighbours.ADD_REMOVE and not apart:
            what = "shards" if self.shards is not None else f"a {type(self.X).__name__}"
            raise Unsupported(
                f"neighbours='add-remove' is evaluated on arrays, frames, coded or sparse rows, not on {what}: there "
                "the rounding of a row depends on its place. Give an array, or use neighbours='replace-one'."
            )

    def _features(self, model: Any, fewest: int) -> Any:
        """An array or frame to predict for. An array need not have the names that an encoder gave its columns."""
        if getattr(model, "_names_of_encoder", False) and not hasattr(self.X, "columns"):
            with redact_errors():
                return check_array(
                    self.X, dtype=_FLOATS, input_name="X", estimator=model, ensure_min_samples=fewest
                )
        return checked(model, self.X, dtype=_FLOATS, reset=False, ensure_min_samples=fewest)


def features_alone(estimator: Any, X: Any) -> Any:
    """The columns of the fit, of a Dask or Spark frame that has others too."""
    known = getattr(estimator, "feature_names_in_", None)
    package = type(X).__module__.partition(".")[0]
    if known is None or package not in ("dask", "dask_expr", "pyspark") or not hasattr(X, "columns"):
        return X
    if not set(known) <= set(X.columns):
        raise InvalidInput("X does not have all columns of the fit.")
    if package == "pyspark":  # where a name is read as an expression
        return X.select(*("`" + name.replace("`", "``") + "`" for name in known))
    return X[list(known)]


def count_rows(X: Any, paying: bool, y: Any = None) -> int:
    """How many rows X tells of, before a value is looked at; y, if given, must tell of as many.

    ``y`` may also name the column of a frame with the targets.
    """
    with RowSource(X, y if isinstance(y, str) else None) as source:
        return int(source.shape(paying, y)[0])


def made(values: Any) -> Any:
    """Rows or targets that only told their shape so far, in their own form."""
    return values.read() if hasattr(values, "read") and hasattr(values, "shape") else values


def margins_and_targets(
    model: PrivateLinearModel, X: Any, y: Any, neighbours: Neighbours
) -> tuple[Vector, NDArray[Any]]:
    """Margins of all rows, each apart from all others, and their targets as they came; there may be none."""
    check_is_fitted(model)
    with RowSource(made(X), made(y)) as source:
        margins = source.margins(model, neighbours)
        with redact_errors():
            known = source.labels()
            if known is None:
                raise InvalidInput("y is needed: the true target of every row.")
            form = {"dtype": None, "ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
            known = column_or_1d(check_array(known, **form))
    if len(known) != len(margins):
        raise InvalidInput(f"X has {len(margins):,} rows and y {len(known):,} targets.")
    return margins, known


def margins_apart(model: PrivateLinearModel, X: Any, neighbours: Neighbours) -> Vector:
    """As ``decision_function``, or ``predict`` of a regression; the margin of a row depends on it alone, as above."""
    with RowSource(made(X)) as source:
        margins = source.margins(model, neighbours)
    return margins[:, 0] if margins.ndim == 2 and margins.shape[1] == 1 else margins


def check_counted(
    X: Any, y: Any, neighbours: Neighbours, by_person: bool, rows_are_meant: bool = False
) -> None:
    """Refuse, before anything is spent, to count rows that cannot be counted where they are.

    ``rows_are_meant`` lets single rows be counted where shards hold the ids of persons.
    """
    with RowSource(X, y if isinstance(y, str) else None) as source:
        known = source.shards is not None and source.shards.person is not None
        if source.shards is not None and (by_person or (known and not rows_are_meant)):
            raise Unsupported(
                "rows that belong to persons are not counted in shards, where the rounding of a row depends on its "
                "place. Give the rows as an array or frame; with groups, if a person is to be protected."
            )
        source.check_place(neighbours)


def checked(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """``validate_data``, with errors that quote no record."""
    with redact_errors():
        return validate_data(estimator, *arrays, **options)


def check_features(estimator: Any, n_features: int) -> None:
    """Refuse to predict for rows with another number of features than those of the fit."""
    if n_features != estimator.n_features_in_:
        raise InvalidInput(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def _note_features(estimator: Any, rows: Any, n_features: int) -> None:
    """What scikit-learn keeps of the features of a fit, where an engine of its own opens the rows."""
    estimator.n_features_in_ = n_features
    names = getattr(rows, "feature_names", None)
    estimator._names_of_encoder = isinstance(rows, CodedTable)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _check_names(estimator: Any, rows: Any) -> None:
    """Refuse columns of other names than those of the fit, or in another order. Names are public."""
    names, known = getattr(rows, "feature_names", None), getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise InvalidInput("X has other columns than those of the fit, or has them in another order.")


def check_shape(rows: Any, n_rows: int | None, n_features: int) -> None:
    """Refuse rows of another shape than they told before they were read; None for a number that is private."""
    shape = _shape_of(rows, True)
    if shape != (shape[0] if n_rows is None else n_rows, n_features):
        raise InvalidInput(
            "X has another shape than it told before it was read; give a table that stays as it is."
        )


def _shape_of(X: Any, paying: bool) -> tuple[int, ...]:
    """The shape of a table, without a look at its values; nothing but lengths of lists and tuples is read.

    Without a ledger, an array-like that does not tell its shape is converted to find out.
    """
    if hasattr(X, "shape"):
        return tuple(X.shape)
    if isinstance(X, list | tuple):
        nested = len(X) and (hasattr(X[0], "shape") or isinstance(X[0], list | tuple))
        return (len(X), *(_shape_of(X[0], paying) if nested else ()))
    if paying:
        raise InvalidInput(
            "With a ledger X must tell its shape before it is read: give an array, a table or a list of rows; got a "
            f"{type(X).__name__}."
        )
    return np.asarray(X).shape


def _check_targets(y: Any, shape: tuple[int, ...], paying: bool) -> None:
    """Refuse, before anything is spent, targets that tell another number than there are rows in this shape.

    The name of a column, and labels that lie in shards, tell nothing.
    """
    if y is None or isinstance(y, str) or not shape:
        return
    known = hasattr(y, "shape") or isinstance(y, list | tuple) or not paying
    told = _shape_of(y, paying) if known else (len(y),) if hasattr(y, "__len__") else ()
    if told and isinstance(told[0], int | np.integer) and told[0] != shape[0]:
        raise InvalidInput(
            "X and y are of inconsistent lengths: y must hold one target for each row, and it has another number of "
            "targets."
        )


def _joined(X: Any, row_map: RowMap, weights: Vector, constant: Any) -> Vector:
    flat = weights.reshape(len(weights), -1)
    parts = [_apart(block, row_map, flat) for block in _blocks(X)]
    margins = np.concatenate([np.zeros((0, flat.shape[1])), *parts])
    return np.asarray(margins.reshape(len(margins), *weights.shape[1:]) + constant)


def _blocks(X: Any) -> Iterator[Vector]:
    """Some rows at a time, as columns of float64."""
    n, width = X.shape
    step = max(64, _CELLS_AT_ONCE // max(1, width) // 64 * 64)
    for first in range(0, n, step):
        block = X[first : first + step]
        dense = block.toarray() if isinstance(block, CodedTable) or sparse.issparse(block) else block
        yield np.ascontiguousarray(np.asarray(dense, np.float64).T)


def _apart(columns: Vector, row_map: RowMap, weights: Vector) -> Vector:
    """``RowMap.margins`` without the constant, column after column: every operation is one of single rows."""
    if row_map.linear:
        return _product(columns, weights)
    columns = columns * _factor(columns, row_map.x_norm)
    if not row_map.moves:
        return _product(columns, weights)
    if row_map.centre is not None:
        columns = columns - row_map.centre[:, None]
    seen = columns if row_map.scale is None else columns / row_map.scale[:, None]
    offset = 0.0 if row_map.centre is None else row_map.centre @ weights
    return _factor(seen, row_map.x_norm)[:, None] * _product(columns, weights) + offset


def _product(columns: Vector, weights: Vector) -> Vector:
    total = np.zeros((weights.shape[1], columns.shape[1]))
    for column, weight in zip(columns, weights, strict=True):
        total += weight[:, None] * column
    return total.T


def _factor(columns: Vector, x_norm: float) -> Vector:
    norms = np.zeros(columns.shape[1])
    for column in columns:
        norms = np.hypot(norms, column)
    return np.asarray(x_norm / np.maximum(norms, x_norm))
