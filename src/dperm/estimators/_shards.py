"""Rows that lie in shards, on the road of ``fit``, ``predict`` and ``score``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dperm.data import converted as _adapters  # noqa: F401  # folders and datasets are known from now on
from dperm.engine import ShardSource, labels_in, source_of
from dperm.engine.device.tensors import on_host
from dperm.errors import InvalidInput
from dperm.estimators._rows import unquoted

IN_SHARDS = "labels that lie in the shards, beside their rows"
"""Stands for y."""


@contextmanager
def in_shards(X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
    """X and y as they came; or the shards that they are, and ``IN_SHARDS`` where these hold the labels.

    ``groups`` may be the name of the column with the ids of persons, which is then no feature. Labels on a device are
    brought to the host. What was made for these shards alone is given back in the end.
    """
    with unquoted():
        source = source_of(X, y, groups if isinstance(groups, str) else None)
    if source is None:
        yield X, on_host(y)
        return
    try:
        yield source, IN_SHARDS if source.has_labels else y
    finally:
        if source is not X:
            source.close()


def are_in_shards(y: Any) -> bool:
    return y is IN_SHARDS


def check_told(X: Any, paying: bool) -> None:
    """Refuse shards that must be read to be counted where a charge comes before a row is read."""
    if paying and isinstance(X, ShardSource) and not X.sizes_are_known:
        raise InvalidInput(
            "With a ledger the number of rows must be known before a row is read: make shards first, with "
            "dperm.engine.dask_shards or dperm.engine.spark_shards, and fit on those."
        )


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


def scored(score: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> float:
    """What scikit-learn's ``score`` says of these rows, with the labels that lie in shards."""
    with in_shards(X, y) as (rows, labels), unquoted():
        known = labels_in(rows) if are_in_shards(labels) else labels
        return float(score(rows, known, sample_weight))
