"""A scikit-learn transformer that encodes tables by a public schema and learns nothing."""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin

from dperm.codes import CodedTable
from dperm.data.converted import is_dataset, open_shards
from dperm.engine.shards.sources import ShardSource
from dperm.schema.columns import check_columns
from dperm.schema.encoding import encode, encode_rows, feature_names
from dperm.schema.schema import Schema


@dataclass(eq=False, repr=False)
class PublicEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode tables with named columns into rows of norm at most 1, by their declared schema alone.

    Parameters
    ----------
    schema : Schema, path of a TOML file, or dictionary
        The declared features. Its target is not used.
    coded : bool
        Whether ``transform`` gives a :class:`dperm.schema.CodedTable`, which private estimators train on faster and
        in a tenth of the memory, and which becomes an array where anything else asks for one. Otherwise it gives the
        array, as it does where a feature has no codes.

    Attributes
    ----------
    schema_ : Schema
        The schema as read by ``fit``.
    feature_names_in_ : array of str
        The columns that are read, in the order of the schema.
    n_features_in_ : int
        How many they are.

    Notes
    -----
    **Guarantee.** An encoded row depends on its own record and on the schema only, so it can stand in front of a
    private estimator without cost: ``fit`` looks at the names of the columns and at nothing else, and
    ``transform`` gives the same rows with or without it.

    Examples
    --------
    >>> from dperm import PublicEncoder
    >>> schema = {
    ...     "target": {"name": "retired", "classes": ["no", "yes"]},
    ...     "features": {"age": {"range": [18, 90], "spline": 3}, "sex": {"categories": ["f", "m"]}},
    ... }
    >>> encoder = PublicEncoder(schema)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age@18', 'age@54', 'age@90', 'sex=f', 'sex=m']
    >>> encoder.fit_transform({"age": [18, 72], "sex": ["f", "m"]}).toarray().round(3)
    array([[-0.42,  0.56, -0.28, -0.28,  0.42, -0.42],
           [ 0.21, -0.28,  0.14,  0.14, -0.42,  0.42]])
    """

    schema: Schema | str | os.PathLike[str] | Mapping[str, Any]
    _: KW_ONLY
    coded: bool = True

    def fit(self, X: Any, y: Any = None) -> "PublicEncoder":
        """Read the schema and check that the table has its columns.

        Parameters
        ----------
        X : PyArrow table or dataset, pandas or polars frame, or dictionary of columns
        y : ignored
        """
        schema = Schema.parse(self.schema)
        names = [feature.name for feature in schema.features]
        check_columns(dict.fromkeys(X.schema.names) if is_dataset(X) else X, names)
        self.schema_ = schema
        self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> CodedTable | NDArray[np.float64] | ShardSource:
        """Encode a table; see :func:`dperm.schema.encode` and :func:`dperm.schema.encode_codes`.

        A PyArrow dataset becomes shards that are made when a model reads them, with the labels of the schema's target
        beside them: ``Pipeline.fit(dataset)`` then needs no y.
        """
        if is_dataset(X):
            return open_shards(X, self.declared)
        asked = getattr(self, "_sklearn_output_config", {}).get("transform")  # by set_output
        codes = self.coded and (asked or get_config()["transform_output"]) == "default"
        return encode_rows(X, self.declared) if codes else encode(X, self.declared)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the encoded columns. They come from the schema; ``input_features`` is ignored."""
        return np.asarray(feature_names(self.declared), dtype=object)

    @property
    def declared(self) -> Schema:
        """The schema, read now if ``fit`` has not read it."""
        return self.schema_ if hasattr(self, "schema_") else Schema.parse(self.schema)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False  # columns are found by name, which arrays do not have
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
