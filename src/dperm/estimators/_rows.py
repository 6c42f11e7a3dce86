"""Shapes of rows before they are read, and scikit-learn's checks of them without the values that messages quote."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from dperm.codes import CodedTable
from dperm.engine import SparseRows, Table, engine_for
from dperm.engine.sparse.rows import as_csr
from dperm.errors import DpermError, InvalidInput, InvalidType

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


class unquoted:
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
        told = _told(error)
        try:
            raise told
        finally:  # Python has linked the error that is being replaced
            told.__context__ = None


def _told(error: Exception) -> DpermError:
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


def checked(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """``validate_data``, with errors that quote no record."""
    with unquoted():
        return validate_data(estimator, *arrays, **options)


def checked_rows(estimator: Any, X: Any, y: Any, **form: Any) -> tuple[Any, Any]:
    """Rows and targets of a fit. Rows of a kind that another engine opens are left to that engine.

    What tells its shape alone before it is read (``read``) is read here.
    """
    names = None
    if hasattr(X, "read") and hasattr(X, "shape"):
        names, X = getattr(X, "feature_names", None), X.read()
    if engine_for(X) is Table:
        rows, targets = checked(estimator, X, y, dtype=_FLOATS, **form)
        estimator._names_of_encoder = names is not None
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return rows, targets
    form.pop("ensure_min_samples", None)
    targets = checked(estimator, y=y, **form)
    if engine_for(X) is SparseRows:
        checked(estimator, X, skip_check_array=True)  # names and number of the columns
        estimator._names_of_encoder = False
        with unquoted():
            return as_csr(X), targets
    note_features(estimator, X, engine_for(X).shape_of(X)[1])
    return X, targets


def checked_features(estimator: Any, X: Any) -> Any:
    """Rows of an array or frame to predict for. An array need not have the names that an encoder gave its columns."""
    if getattr(estimator, "_names_of_encoder", False) and not hasattr(X, "columns"):
        with unquoted():
            return check_array(X, dtype=_FLOATS, input_name="X", estimator=estimator)
    return checked(estimator, X, dtype=_FLOATS, reset=False)


def named_like(estimator: Any, X: Any) -> None:
    """Refuse to predict for a sparse frame whose columns have other names than those of the fit."""
    if engine_for(X) is SparseRows:
        checked(estimator, X, skip_check_array=True, reset=False)


def check_features(estimator: Any, n_features: int) -> None:
    """Refuse to predict for rows with another number of features than those of the fit."""
    if n_features != estimator.n_features_in_:
        raise InvalidInput(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def note_features(estimator: Any, rows: Any, n_features: int) -> None:
    """What scikit-learn keeps of the features of a fit, where an engine of its own opens the rows."""
    estimator.n_features_in_ = n_features
    names = getattr(rows, "feature_names", None)
    estimator._names_of_encoder = isinstance(rows, CodedTable)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_names(estimator: Any, rows: Any) -> None:
    """Refuse columns of other names than those of the fit, or in another order. Names are public."""
    names, known = getattr(rows, "feature_names", None), getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise InvalidInput("X has other columns than those of the fit, or has them in another order.")


def shape_of(X: Any, paying: bool) -> tuple[int, ...]:
    """The shape of a table, without a look at its values; nothing but lengths of lists and tuples is read.

    Without a ledger, an array-like that does not tell its shape is converted to find out.
    """
    if hasattr(X, "shape"):
        return tuple(X.shape)
    if isinstance(X, list | tuple):
        return (len(X), *(shape_of(X[0], paying) if len(X) and _has_shape(X[0]) else ()))
    if paying:
        raise InvalidInput(
            "With a ledger X must tell its shape before it is read: give an array, a table or a list of rows; got a "
            f"{type(X).__name__}."
        )
    return np.asarray(X).shape


def check_targets(y: Any, shape: tuple[int, ...], paying: bool) -> None:
    """Refuse, before anything is spent, targets that tell another number than there are rows in this shape.

    The name of a column, and labels that lie in shards, tell nothing.
    """
    if y is None or isinstance(y, str) or not shape:
        return
    known = hasattr(y, "shape") or isinstance(y, list | tuple) or not paying
    told = shape_of(y, paying) if known else (len(y),) if hasattr(y, "__len__") else ()
    if told and isinstance(told[0], int | np.integer) and told[0] != shape[0]:
        raise InvalidInput(
            "X and y are of inconsistent lengths: y must hold one target for each row, and it has another number of "
            "targets."
        )


def _has_shape(item: Any) -> bool:
    return hasattr(item, "shape") or isinstance(item, list | tuple)


def check_shape(rows: Any, n_rows: int | None, n_features: int) -> None:
    """Refuse rows of another shape than they told before they were read; None for a number that is private."""
    shape = shape_of(rows, True)
    if shape != (shape[0] if n_rows is None else n_rows, n_features):
        raise InvalidInput(
            "X has another shape than it told before it was read; give a table that stays as it is."
        )
