"""Steps that learn from rows are found, others are not, and a private fit after them says so."""

import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn import decomposition, feature_selection, impute, preprocessing
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union

import dperm
from dperm import PrivateLinearRegression, PrivateLogisticRegression, check_pipeline
from dperm.errors import InvalidInput, PrivacyWarning
from dperm.estimators.pipeline_check import Finding

SCHEMA = {"target": {"name": "t", "classes": ["a", "b"]}, "features": {"x": {"range": [0, 1]}}}
ROW_BY_ROW = "Features were computed row by row, with nothing learned from other rows."
CHOSEN_BLIND = "x_norm, l2 and every other setting were chosen without looking at the data."


class Foreign(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


class Stateless(Foreign):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class Oversampler(Foreign):
    def fit_resample(self, X, y):
        return X, y


class OwnImputer(impute.SimpleImputer):
    """A subclass may do anything in fit, so the settings that make its parent harmless prove nothing."""


class BrokenTags(Foreign):
    def __sklearn_tags__(self):
        raise RuntimeError("no tags")


CONSTANT = {"strategy": "constant", "keep_empty_features": True}

LEARNS = [
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.QuantileTransformer(),
    preprocessing.PowerTransformer(),
    preprocessing.KBinsDiscretizer(),
    preprocessing.SplineTransformer(),
    preprocessing.TargetEncoder(),
    preprocessing.OneHotEncoder(),
    preprocessing.OrdinalEncoder(),
    preprocessing.OneHotEncoder(categories=[["a", "b"]], min_frequency=3),
    preprocessing.OneHotEncoder(categories=[["a", "b"]], max_categories=3),
    preprocessing.OrdinalEncoder(categories=[["a", "b"]], min_frequency=3),
    impute.SimpleImputer(),
    impute.SimpleImputer(strategy="constant"),  # drops the columns that are empty
    impute.SimpleImputer(**CONSTANT, add_indicator=True),
    impute.KNNImputer(),
    impute.MissingIndicator(),
    feature_selection.SelectKBest(),
    feature_selection.VarianceThreshold(),
    feature_selection.SelectFromModel(PrivateLogisticRegression()),
    feature_selection.RFE(LogisticRegression()),
    decomposition.PCA(),
    decomposition.TruncatedSVD(),
    TfidfVectorizer(),
    TfidfVectorizer(vocabulary=["a", "b"]),  # idf is learned still
    CountVectorizer(),
    RBFSampler(gamma="scale"),
    LogisticRegression(),
    OneVsRestClassifier(PrivateLogisticRegression()),
    CalibratedClassifierCV(PrivateLogisticRegression()),
    BaggingClassifier(PrivateLogisticRegression()),
    Foreign(),
    Oversampler(),
    BrokenTags(),
    OwnImputer(**CONSTANT),
]

HARMLESS = [
    "passthrough",
    "drop",
    None,
    preprocessing.FunctionTransformer(np.abs),
    preprocessing.Normalizer(),
    preprocessing.Binarizer(),
    preprocessing.PolynomialFeatures(),
    preprocessing.SplineTransformer(knots=np.array([[0.0], [1.0]])),
    preprocessing.OneHotEncoder(categories=[["a", "b"]]),
    preprocessing.OrdinalEncoder(categories=[["a", "b"]]),
    impute.SimpleImputer(**CONSTANT),
    impute.MissingIndicator(features="all"),
    TfidfVectorizer(vocabulary=["a", "b"], use_idf=False),
    CountVectorizer(vocabulary=["a", "b"]),
    HashingVectorizer(),
    RBFSampler(gamma=0.5),
    FrozenEstimator(preprocessing.StandardScaler()),
    Stateless(),
    dperm.PublicEncoder(SCHEMA),
    PrivateLogisticRegression(),
]


def kinds(steps):
    return [type(step).__name__ if not isinstance(step, str | None) else str(step) for step in steps]


@pytest.mark.parametrize("step", LEARNS, ids=kinds(LEARNS))
def test_a_step_that_learns_is_found(step):
    pipe = Pipeline([("first", step), ("last", PrivateLogisticRegression())])
    (found,) = check_pipeline(pipe)
    assert isinstance(found, Finding)
    assert (found.step, found.kind) == ("first", type(step).__name__)
    assert found.learns
    assert found.instead
    text = str(found)
    assert text.startswith(f"first ({found.kind}) learns ")
    assert ". Use instead: " in text
    assert text.endswith(".")


@pytest.mark.parametrize("step", HARMLESS, ids=kinds(HARMLESS))
def test_a_step_that_learns_nothing_is_not_found(step):
    assert check_pipeline(Pipeline([("first", step), ("last", PrivateLogisticRegression())])) == []


def test_steps_are_found_at_any_depth_and_named_by_their_path():
    numbers = Pipeline([("fill", impute.SimpleImputer()), ("scale", preprocessing.StandardScaler())])
    columns = ColumnTransformer(
        [("numbers", numbers, [0]), ("words", preprocessing.OneHotEncoder(), [1]), ("rest", "drop", [2])],
        remainder=preprocessing.MinMaxScaler(),
    )
    both = FeatureUnion([("columns", columns), ("pca", decomposition.PCA())])
    pipe = Pipeline([("features", both), ("model", PrivateLogisticRegression())])
    expected = {
        "features.columns.numbers.fill": "SimpleImputer",
        "features.columns.numbers.scale": "StandardScaler",
        "features.columns.words": "OneHotEncoder",
        "features.columns.remainder": "MinMaxScaler",
        "features.pca": "PCA",
    }
    assert {found.step: found.kind for found in check_pipeline(pipe)} == expected
    made = make_pipeline(
        make_union(make_column_transformer((preprocessing.StandardScaler(), [0]))),
        PrivateLogisticRegression(),
    )
    (found,) = check_pipeline(made)
    assert found.step == "featureunion.columntransformer.standardscaler"


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_is_found_and_names_the_private_one(search):
    inner = make_pipeline(preprocessing.StandardScaler(), PrivateLogisticRegression())
    scaler, choice = check_pipeline(search(inner, {"privatelogisticregression__l2": [0.1, 0.01]}))
    assert scaler.step == "estimator.standardscaler"
    assert choice.step == ""
    assert "PrivateSearchCV" in str(choice)
    assert str(choice).startswith(f"{search.__name__} learns which settings")


def test_a_target_transformer_is_found():
    scaled = TransformedTargetRegressor(PrivateLinearRegression(), transformer=preprocessing.StandardScaler())
    assert [found.step for found in check_pipeline(scaled)] == ["transformer"]
    assert (
        check_pipeline(
            TransformedTargetRegressor(PrivateLinearRegression(), func=np.log, inverse_func=np.exp)
        )
        == []
    )


@pytest.mark.parametrize("wrong", [None, 3, "pipe", np.zeros((2, 2)), PrivateLogisticRegression])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(InvalidInput, match="scikit-learn estimator"):
        check_pipeline(wrong)


def test_a_finding_cannot_be_changed():
    (found,) = check_pipeline(preprocessing.StandardScaler())
    with pytest.raises(FrozenInstanceError):
        found.step = "elsewhere"


# What a fit says of the pipeline around it.


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(300, 3))
    return X, (X[:, 0] > 0).astype(int)


def model(**settings):
    return PrivateLogisticRegression(mechanism="output", classes=[0, 1], epsilon=5.0, **settings)


def assumed(fitted):
    return tuple(map(str, fitted.privacy_.assumptions))


def test_a_fit_in_a_clean_pipeline_keeps_its_assumptions(rows):
    for pipe in (make_pipeline(model()), make_pipeline("passthrough", preprocessing.Normalizer(), model())):
        pipe.fit(*rows)
        assert {ROW_BY_ROW, CHOSEN_BLIND} <= set(assumed(pipe[-1]))
        assert assumed(pipe[-1]) == assumed(model().fit(*rows))


def test_a_fit_after_a_learned_step_warns_and_does_not_claim_it(rows):
    pipe = make_pipeline(preprocessing.StandardScaler(), model())
    with pytest.warns(PrivacyWarning, match=r"standardscaler \(StandardScaler\) learns the mean") as caught:
        pipe.fit(*rows)
    assert [warning.filename for warning in caught] == [__file__]  # points at the user's line
    report = pipe[-1].privacy_
    assert ROW_BY_ROW not in assumed(pipe[-1])
    (said,) = [line for line in assumed(pipe[-1]) if "StandardScaler" in line]
    assert "guarantee covers this last step only" in said
    assert said in str(report)
    assert CHOSEN_BLIND in assumed(pipe[-1])
    assert issubclass(PrivacyWarning, UserWarning)


def test_a_warning_turned_into_an_error_stops_before_anything_is_released(rows):
    pipe = make_pipeline(preprocessing.StandardScaler(), model())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning):
            pipe.fit(*rows)
    assert not hasattr(pipe[-1], "coef_")


def test_nested_pipelines_and_copies_are_seen(rows):
    inner = Pipeline([("fill", impute.KNNImputer()), ("model", model())])
    outer = Pipeline([("scale", preprocessing.MinMaxScaler()), ("inner", inner)])
    with pytest.warns(PrivacyWarning):
        clone(outer).fit(*rows)
    with pytest.warns(PrivacyWarning):
        outer.fit(*rows)
    (said,) = [line for line in assumed(outer[-1][-1]) if line.startswith("NOT MET")]
    assert "fill (KNNImputer)" in said
    assert "scale (MinMaxScaler)" in said
    with pytest.warns(PrivacyWarning, match="MinMaxScaler"):
        cross_val_score(outer, *rows, cv=2)


def test_only_the_steps_before_the_model_count(rows):
    inner = Pipeline([("chosen", feature_selection.SelectFromModel(model())), ("last", model())])
    with pytest.warns(PrivacyWarning) as caught:
        inner.fit(*rows)
    # The model inside the selector stands before every learned step; the last one stands behind the selector.
    said = [str(warning.message).split(". ")[1] for warning in caught]
    assert [line.partition(" learns")[0] for line in said] == ["SelectFromModel", "chosen (SelectFromModel)"]
    assert ROW_BY_ROW in assumed(inner[0].estimator_)
    assert ROW_BY_ROW not in assumed(inner[-1])


def test_what_cannot_be_seen_is_written_down_as_assumed(rows):
    scaler = preprocessing.StandardScaler().fit(np.array([[0.0] * 3, [1.0] * 3]))
    pipe = Pipeline(
        [
            ("log", preprocessing.FunctionTransformer(np.abs)),
            ("scale", FrozenEstimator(scaler)),
            ("last", model()),
        ]
    ).fit(*rows)
    assert ROW_BY_ROW in assumed(pipe[-1])
    assert "The function of step log works row by row." in assumed(pipe[-1])
    assert "The frozen step scale was fitted on public rows." in assumed(pipe[-1])


def test_the_winner_of_a_search_does_not_claim_that_its_settings_were_chosen_blindly(rows):
    search = GridSearchCV(model(), {"l2": [0.1, 0.01]}, cv=2)
    with pytest.warns(PrivacyWarning, match="PrivateSearchCV") as caught:
        search.fit(*rows)
    assert len(caught) == 1  # for the model that is kept, not for every fold
    assert CHOSEN_BLIND not in assumed(search.best_estimator_)
    assert any("NOT MET" in line and "GridSearchCV" in line for line in assumed(search.best_estimator_))


def test_a_learned_target_is_seen(rows):
    X, y = rows
    regression = TransformedTargetRegressor(
        PrivateLinearRegression(mechanism="output", y_range=(-1, 1)),
        transformer=preprocessing.StandardScaler(),
    )
    with pytest.warns(PrivacyWarning, match="transformer \\(StandardScaler\\)"):
        regression.fit(X, y.astype(float))
    assert ROW_BY_ROW not in assumed(regression.regressor_)
