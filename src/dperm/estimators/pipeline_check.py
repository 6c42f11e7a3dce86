"""Which steps of a pipeline learn from the rows before the private model sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.utils import get_tags

from dperm.errors import InvalidInput

SCHEMA = "PublicEncoder with a schema that declares it"
PUBLIC_FIT = "FrozenEstimator around one that was fitted on public rows"
ALONE = "the private estimator by itself"


@dataclass(frozen=True)
class Finding:
    """One step that learns from the rows outside the guarantee.

    Attributes
    ----------
    step : str
        Where it stands: names of steps, joined by dots. Empty for the object itself.
    kind : str
        Its class.
    learns : str
        What it learns from the rows.
    instead : str
        What to use instead.
    """

    step: str
    kind: str
    learns: str
    instead: str

    @property
    def where(self) -> str:
        return f"{self.step} ({self.kind})" if self.step else self.kind

    def __str__(self) -> str:
        return f"{self.where} learns {self.learns}. Use instead: {self.instead}."


def check_pipeline(pipe: Any) -> list[Finding]:
    """The steps that learn from the rows outside the guarantee of a private estimator; none is good.

    Looks inside pipelines, column transformers, feature unions, target transformers, fixed thresholds and searches,
    fitted or not. Of an ensemble and other estimators that fit several models it names the whole. It reads parameters
    only and touches no data.

    Parameters
    ----------
    pipe : scikit-learn estimator
        A ``Pipeline`` or anything else with ``fit``.

    Returns
    -------
    list of Finding
        Print one to read it. Steps that this module does not know count as learning, unless they declare
        ``requires_fit=False`` in their scikit-learn tags.

    Assumes
    -------
    The function of a ``FunctionTransformer`` works row by row, and a ``FrozenEstimator`` was fitted on public rows:
    neither can be seen from outside. Work done on the rows before they reach the pipeline is not seen at all.
    """
    if isinstance(pipe, type) or not hasattr(pipe, "fit"):
        raise InvalidInput(f"check_pipeline needs a scikit-learn estimator, not {type(pipe).__name__}.")
    return list(findings(pipe))


def findings(step: Any, path: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Findings of a step and all that it holds."""
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    parts = list(parts_of(step))
    for name, part in parts:
        yield from findings(part, (*path, name))
    learned = _learns(step, has_parts=bool(parts))
    if learned is not None:
        yield Finding(".".join(path), type(step).__name__, *learned)


def parts_of(step: Any) -> Iterator[tuple[str, Any]]:
    """The named estimators that a container hands rows to."""
    names = sklearn_names(step)
    if "Pipeline" in names:
        yield from step.steps
    elif "FeatureUnion" in names:
        yield from step.transformer_list
    elif "ColumnTransformer" in names:
        yield from ((name, part) for name, part, _ in step.transformers)
        yield "remainder", step.remainder
    elif "TransformedTargetRegressor" in names:
        yield "transformer", step.transformer
        yield "regressor", step.regressor
    elif {"BaseSearchCV", "FixedThresholdClassifier"} & set(names) or (
        is_ours(step) and hasattr(step, "estimator")
    ):
        yield "estimator", step.estimator


def role_around(owner: Any) -> Finding | None:
    """What an estimator learns besides the private one that it fits inside; None if nothing.

    One that this module does not know counts as learning.
    """
    if is_ours(owner):
        return None
    names = sklearn_names(owner)
    for name in names:
        if name in _RULES:
            return Finding("", type(owner).__name__, *_RULES[name])
    if any(name in _FITS_ONCE for name in names):
        return None
    unknown = "perhaps several models, or settings: dperm does not know this class"
    return Finding("", type(owner).__name__, unknown, ALONE)


def sklearn_names(step: Any) -> list[str]:
    """Names of the step's class and its bases, as far as they are scikit-learn's own."""
    return [base.__name__ for base in type(step).__mro__ if _of_sklearn(base)]


def is_ours(step: Any) -> bool:
    return type(step).__module__.partition(".")[0] == "dperm"


def taken_on_trust(step: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Steps that are fine under a condition that cannot be seen from outside: (where, class)."""
    for name, part in parts_of(step):
        yield from taken_on_trust(part, (*path, name))
    names = sklearn_names(step)
    if ("FunctionTransformer" in names and step.func is not None) or "FrozenEstimator" in names:
        yield ".".join(path), names[0]


def _of_sklearn(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "sklearn"


def _learns(step: Any, has_parts: bool) -> tuple[str, str] | None:
    """What a step itself learns from rows and what to use instead, or None."""
    if is_ours(step):
        return None
    if hasattr(step, "fit_resample"):
        return "which rows to repeat, drop or invent, so one person may count many times", (
            "the rows as they are, with a declared class_weight or a threshold on decision_function"
        )
    for name in sklearn_names(step):
        if name in _RULES:
            if name not in _LEARNS_IF or _LEARNS_IF[name](step):
                return _RULES[name]
            if _of_sklearn(type(step)):
                return None
    if has_parts or (type(step).__name__ in _HARMLESS and _of_sklearn(type(step))):
        return None
    try:
        if not get_tags(step).requires_fit:
            return None
    except Exception:  # tags of a foreign class may fail in any way, and then nothing is known of it
        pass
    if hasattr(step, "predict") and not hasattr(step, "transform"):
        return "a model without noise", "one of dperm's private estimators"
    return "perhaps something from the rows: dperm does not know this class", PUBLIC_FIT


def _unless(**settings: object) -> Callable[[Any], bool]:
    """True unless the step has all of these settings."""
    return lambda step: any(getattr(step, name, None) != value for name, value in settings.items())


def _infers_categories(step: Any) -> bool:
    grouped = getattr(step, "min_frequency", None) is not None or step.max_categories is not None
    return isinstance(step.categories, str) or grouped


_ENCODER = (
    "the categories that occur, or how often they do",
    f"{SCHEMA}, or categories= with every category that may occur and no min_frequency",
)
_PUBLIC_COLUMNS = "columns chosen from public knowledge"
_QUANTILES = ("the quantiles of every column", SCHEMA)
_DIRECTIONS = ("the directions in which the rows vary", PUBLIC_FIT)
_CONSTANT = "SimpleImputer with strategy='constant'"
_WORDS = "every word that may occur in vocabulary=, or HashingVectorizer"
_ONE_MODEL = "one model with the whole budget"
_SEVERAL = ("several models on the same rows, each of which spends the whole budget", _ONE_MODEL)
_AGAIN_AND_AGAIN = (
    "which columns to keep, from fits again and again, each of which spends the whole budget",
    _PUBLIC_COLUMNS,
)
_PER_TARGET = (
    "one model per target, each of which spends the whole budget",
    "one model for each target with its share of the budget, all charged to one ledger",
)
_PER_CLASS = (
    "one model per class, each of which spends the whole budget",
    "PrivateLogisticRegression, which fits all classes in one budget",
)

# What a class of scikit-learn learns, and what to use instead.
_RULES: dict[str, tuple[str, str]] = {
    "StandardScaler": ("the mean and the spread of every column", SCHEMA),
    "MinMaxScaler": ("the smallest and largest value of every column", SCHEMA),
    "MaxAbsScaler": ("the largest value of every column", SCHEMA),
    "RobustScaler": _QUANTILES,
    "QuantileTransformer": _QUANTILES,
    "PowerTransformer": ("the shape of every column", SCHEMA),
    "KBinsDiscretizer": ("the edges of the bins", "declared edges, as categories of a schema"),
    "SplineTransformer": ("the places of the knots", "knots= as an array of declared places"),
    "OneHotEncoder": _ENCODER,
    "OrdinalEncoder": _ENCODER,
    "TargetEncoder": ("the mean target of every category", SCHEMA),
    "SimpleImputer": (
        "values to fill in, or which columns have gaps or nothing but gaps",
        "strategy='constant' with keep_empty_features=True and add_indicator=False, or a schema's missing values",
    ),
    "MissingIndicator": ("which columns have gaps", "features='all'"),
    "KNNImputer": ("the rows themselves", _CONSTANT),
    "IterativeImputer": ("a model of every column", _CONSTANT),
    "SelectorMixin": ("which columns to keep", _PUBLIC_COLUMNS),
    "PCA": _DIRECTIONS,
    "IncrementalPCA": _DIRECTIONS,
    "KernelPCA": _DIRECTIONS,
    "SparsePCA": _DIRECTIONS,
    "TruncatedSVD": _DIRECTIONS,
    "FactorAnalysis": _DIRECTIONS,
    "FastICA": _DIRECTIONS,
    "NMF": _DIRECTIONS,
    "TfidfVectorizer": (
        "the words that occur and how many rows hold them",
        f"{_WORDS}, with use_idf=False",
    ),
    "TfidfTransformer": ("how many rows hold each word", "use_idf=False"),
    "CountVectorizer": ("the words that occur", _WORDS),
    "DictVectorizer": ("the names that occur", "FeatureHasher"),
    "RBFSampler": ("the spread of the rows", "gamma= as a number"),
    "BaseRandomProjection": ("how many rows there are", "n_components= as a number"),
    "BaseSearchCV": (
        "which settings score best on the rows, at a cost that no report counts",
        "PrivateSearchCV, which pays for the choice",
    ),
    "TunedThresholdClassifierCV": (
        "a threshold without noise, from a model for every fold",
        "a threshold fixed in advance, or tune_threshold, which pays for it",
    ),
    "CalibratedClassifierCV": (
        "a calibration of the scores without noise, and a model for every fold",
        "predict_proba of PrivateLogisticRegression",
    ),
    "RFE": _AGAIN_AND_AGAIN,
    "SequentialFeatureSelector": _AGAIN_AND_AGAIN,
    "SelectFromModel": (
        "which columns to keep, from a model that spends a budget of its own",
        _PUBLIC_COLUMNS,
    ),
    "BaseBagging": (
        "several models, each of which spends the whole budget, on rows drawn so that one may count many times",
        _ONE_MODEL,
    ),
    "SelfTrainingClassifier": (
        "labels from one model after another, each of which spends the whole budget",
        _ONE_MODEL,
    ),
    "RANSACRegressor": (
        "which rows to leave out, from one model after another, each of which spends the whole budget",
        "PrivateLinearRegression with a smaller residual_bound",
    ),
    "_MultiOutputEstimator": _PER_TARGET,
    "_BaseChain": _PER_TARGET,
    "_BaseVoting": _SEVERAL,
    "_BaseStacking": _SEVERAL,
    "BaseWeightBoosting": _SEVERAL,
    "OneVsRestClassifier": _PER_CLASS,
    "OneVsOneClassifier": _PER_CLASS,
    "OutputCodeClassifier": _PER_CLASS,
}

# By which settings some of them learn; the others do in any case.
_LEARNS_IF: dict[str, Callable[[Any], bool]] = {
    "SplineTransformer": lambda step: isinstance(step.knots, str),
    "OneHotEncoder": _infers_categories,
    "OrdinalEncoder": _infers_categories,
    "SimpleImputer": _unless(strategy="constant", keep_empty_features=True, add_indicator=False),
    "MissingIndicator": _unless(features="all"),
    "TfidfVectorizer": lambda step: step.vocabulary is None or step.use_idf,
    "TfidfTransformer": lambda step: step.use_idf,
    "CountVectorizer": lambda step: step.vocabulary is None,
    "RBFSampler": lambda step: isinstance(step.gamma, str),
    "BaseRandomProjection": lambda step: isinstance(step.n_components, str),
}

# Classes whose fit notes the number of columns or draws random numbers, and looks at no value.
_HARMLESS = {"FrozenEstimator", "PolynomialCountSketch", "PolynomialFeatures", "SkewedChi2Sampler"}

# Classes that hand the rows to what they hold once, and whose own parts are looked at one by one.
_FITS_ONCE = {
    "Pipeline",
    "FeatureUnion",
    "ColumnTransformer",
    "TransformedTargetRegressor",
    "FixedThresholdClassifier",
}
