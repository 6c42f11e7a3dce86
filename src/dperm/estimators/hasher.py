"""A scikit-learn transformer that hashes text, counts or wide rows to a public number of columns and learns nothing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

from dperm.engine.sparse.rows import as_csr, is_sparse
from dperm.errors import InvalidInput
from dperm.estimators.rows import check_features, checked, redact_errors
from dperm.schema.hashing import KEY, REPEATS, WordHash, bags_of_text, hashed_rows, scaled

WIDEST_DENSE = 512  # columns up to which rows come as an array
_NORM = 1 - 1e-9  # so that rounding cannot pass the bound of 1


@dataclass(eq=False, repr=False)
class PublicHasher(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bring text, counts by name or wide numeric rows to a public number of columns and a norm of at most 1.

    Private training adds noise to every coefficient, so tens of thousands of columns drown in it. A hash folds them
    into a few hundred or thousand without a vocabulary, which would be learned from the rows.

    Parameters
    ----------
    n_columns : int, default=1024
        Columns of the result.
    method : {"hash", "projection"}
        "hash": each word or column goes to one column, with a sign. "projection": to eight, with smaller signs, which
        keeps inner products with fewer accidents and costs eight times the entries.
    bound : float, default=None
        None scales every row to norm 1. A number, known without the data, divides rows by it and shortens those that
        are longer, so that the length of a row still tells something.
    longest : int, default=1
        Of text: runs of up to so many neighbouring words count as words too.
    log_counts : bool, default=False
        Of text and of counts by name: log(1 + count) for count, with the sign of the count.
    key : str
        Of the hash. It is public; another one gives other collisions.

    Notes
    -----
    **Guarantee.** A row of the result depends on its own record and on these settings only, so the transformer can
    stand in front of a private estimator without cost: ``fit`` notes the number of columns of a numeric table and
    nothing else. Where a word goes is the same on every machine: the hash is keyed BLAKE2b.

    Rows are a numeric array or sparse matrix, a list of texts, or a list of dictionaries from name to number, or to
    text: ``{"city": "Rome"}`` counts as ``{"city=Rome": 1}``. Words are runs of at least two letters or digits, in
    small letters. Up to 512 columns the result is an array, beyond that a sparse one.

    Examples
    --------
    >>> from dperm import PublicHasher
    >>> hasher = PublicHasher(n_columns=4)
    >>> hasher.fit_transform(["to be or not to be", "be", ""]).round(2)
    array([[ 0.  ,  0.82, -0.41,  0.41],
           [ 0.  ,  1.  ,  0.  ,  0.  ],
           [ 0.  ,  0.  ,  0.  ,  0.  ]])
    """

    n_columns: int = 1024
    _: KW_ONLY
    method: str = "hash"
    bound: float | None = None
    longest: int = 1
    log_counts: bool = False
    key: str = KEY

    def fit(self, X: Any, y: Any = None) -> PublicHasher:
        """Check the settings, and note the number of columns of a numeric table."""
        self._words()
        if _is_table(X):
            self.n_features_in_ = int(X.shape[1])
        return self

    def transform(self, X: Any) -> NDArray[np.float64] | sparse.csr_array:
        """Hash rows; each by itself."""
        words = self._words()
        with redact_errors():
            rows = self._hashed(X, words)
        if not np.isfinite(rows.data).all():
            raise InvalidInput("X holds NaN or infinite values, or numbers whose sums are.")
        bounded = scaled(rows, None if self.bound is None else float(self.bound), _NORM)
        return bounded.toarray() if self.n_columns <= WIDEST_DENSE else bounded

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns: ``hash0``, ``hash1`` and so on. ``input_features`` is ignored."""
        return np.asarray([f"hash{column}" for column in range(self.n_columns)], dtype=object)

    def _words(self) -> WordHash:
        if self.method not in ("hash", "projection"):
            raise InvalidInput(f"method must be 'hash' or 'projection'; got {self.method!r}.")
        bound = 1.0 if self.bound is None else self.bound
        if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or not 0 < bound < math.inf:
            raise InvalidInput(f"bound must be None or a positive number; got {self.bound!r}.")
        if isinstance(self.longest, bool) or not isinstance(self.longest, int) or not 1 <= self.longest <= 5:
            raise InvalidInput(f"longest must be a whole number from 1 to 5; got {self.longest!r}.")
        return WordHash(self.n_columns, self.key, REPEATS if self.method == "projection" else 1)

    def _hashed(self, X: Any, words: WordHash) -> sparse.csr_array:
        if _is_table(X):
            rows = as_csr(X) if is_sparse(X) else sparse.csr_array(checked(self, X, reset=False))
            if hasattr(self, "n_features_in_"):
                check_features(self, rows.shape[1])
            if not np.isfinite(rows.data).all():  # a NaN would spread to columns of zeros
                raise InvalidInput("X holds NaN or infinite values.")
            return sparse.csr_array(rows.astype(np.float64) @ words.of_columns(rows.shape[1]))
        if isinstance(X, str | bytes | Mapping):
            raise InvalidInput("X must be a list of texts or of dictionaries, one for each row.")
        items = list(X)
        if items and isinstance(items[0], list | tuple):
            return self._hashed(np.asarray(items), words)
        bags: Iterator[Mapping[str, float]]
        if items and all(isinstance(item, Mapping) for item in items):
            bags = map(_counted, items)
        else:
            bags = bags_of_text(items, self.longest)
        if self.log_counts:
            bags = map(_logarithms, bags)
        return hashed_rows(bags, words)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False  # nor are texts
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.dict = True
        return tags


def _is_table(X: Any) -> bool:
    """Whether rows are numbers in two dimensions, by type and shape alone."""
    return is_sparse(X) or (hasattr(X, "shape") and len(X.shape) == 2)


def _counted(item: Mapping[Any, Any]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for name, value in item.items():
        if not isinstance(name, str):
            raise InvalidInput("names of counts must be text.")
        if isinstance(value, str):
            counts[f"{name}={value}"] = 1.0
        elif isinstance(value, numbers.Real):
            counts[name] = float(value)
        else:
            raise InvalidInput("counts by name must be numbers or text.")
    return counts


def _logarithms(bag: Mapping[str, float]) -> dict[str, float]:
    return {word: math.copysign(math.log1p(abs(number)), number) for word, number in bag.items()}
