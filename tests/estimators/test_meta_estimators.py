"""A private model that is fitted inside another estimator says so, and a warning comes before anything is spent."""

import warnings

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.linear_model import LogisticRegression, RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV, check_pipeline
from dperm.errors import InvalidInput, PrivacyWarning
from dperm.estimators.base import PrivateLinearModel

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(300, 3))
TWO, THREE = (X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.2, 0.2])
BOTH, NUMBERS = np.column_stack([TWO, X[:, 1] > 0]).astype(int), X[:, 0]


def model(**settings):
    return PrivateLogisticRegression(mechanism="output", epsilon=5.0, **{"classes": [0, 1], **settings})


def regression(**settings):
    return PrivateLinearRegression(mechanism="output", epsilon=5.0, y_range=(-1, 1), **settings)


PER_CLASS = "one model per class, each of which spends the whole budget"
PER_TARGET = "one model per target, each of which spends the whole budget"
SEVERAL = "several models on the same rows, each of which spends the whole budget"
DRAWN = (
    "several models, each of which spends the whole budget, on rows drawn so that one may count many times"
)
COLUMNS = "which columns to keep, from fits again and again"
METAS = [
    (OneVsRestClassifier(model(classes=None)), THREE, PER_CLASS),
    (OneVsOneClassifier(model()), THREE, PER_CLASS),
    (OutputCodeClassifier(model(classes=None), random_state=0), THREE, PER_CLASS),
    (MultiOutputClassifier(model()), BOTH, PER_TARGET),
    (ClassifierChain(model(), cv=None), BOTH, PER_TARGET),
    (MultiOutputRegressor(regression()), np.column_stack([NUMBERS, NUMBERS]), PER_TARGET),
    (RegressorChain(regression()), np.column_stack([NUMBERS, NUMBERS]), PER_TARGET),
    (BaggingClassifier(model(sample_weight_bound=3.0), n_estimators=2), TWO, DRAWN),
    (BaggingRegressor(regression(sample_weight_bound=3.0), n_estimators=2), NUMBERS, DRAWN),
    (VotingClassifier([("a", model()), ("b", LogisticRegression())]), TWO, SEVERAL),
    (VotingRegressor([("a", regression()), ("b", regression())]), NUMBERS, SEVERAL),
    (StackingClassifier([("a", model())], final_estimator=LogisticRegression(), cv=2), TWO, SEVERAL),
    (RFE(model(), n_features_to_select=1), TWO, COLUMNS),
    (RFECV(model(), cv=2), TWO, COLUMNS),
    (SequentialFeatureSelector(model(), n_features_to_select=1, cv=2), TWO, COLUMNS),
    (SelectFromModel(model()), TWO, "which columns to keep, from a model that spends a budget of its own"),
    (CalibratedClassifierCV(model(), cv=2), TWO, "a calibration of the scores without noise"),
    (TunedThresholdClassifierCV(model(), cv=2), TWO, "a threshold without noise"),
    (
        SelfTrainingClassifier(model()),
        np.where(np.arange(300) % 5 == 0, -1, TWO),
        "labels from one model after",
    ),
    (
        RANSACRegressor(regression(), max_trials=2, min_samples=50, residual_threshold=9.0),
        NUMBERS,
        "which rows to leave out",
    ),
]
NAMES = [type(meta).__name__ for meta, _, _ in METAS]


@pytest.fixture
def reports(monkeypatch):
    """Every report that is made, of models that are kept and of others."""
    made, original = [], PrivateLinearModel._report

    def keep(self, *facts):
        made.append(original(self, *facts))
        return made[-1]

    monkeypatch.setattr(PrivateLinearModel, "_report", keep)
    return made


def unmet(report):
    return list(map(str, report.not_met))


@pytest.mark.parametrize(("meta", "y", "does"), METAS, ids=NAMES)
def test_every_model_inside_says_what_is_around_it(meta, y, does, reports):
    name = type(meta).__name__
    with pytest.warns(PrivacyWarning, match=f"{name} learns {does}") as caught:
        clone(meta).fit(X, y)
    assert caught[0].filename == __file__  # points at the user's line
    assert reports
    for report in reports:
        said = [line for line in unmet(report) if f"fitted inside {name}, which learns {does}" in line]
        assert len(said) == 1
        assert said[0].endswith("; the guarantee covers this one fit only.")
        assert said[0] in str(report)


@pytest.mark.parametrize(("meta", "y", "does"), METAS, ids=NAMES)
def test_a_warning_made_an_error_stops_before_anything_is_spent(meta, y, does, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)
    places = [name for name in meta.get_params() if name.endswith("__ledger")]
    assert places
    meta = clone(meta).set_params(**dict.fromkeys(places, ledger))
    if (
        "estimator__classes" in meta.get_params()
    ):  # a ledger wants them declared; these two make labels of their own
        own = {"OneVsRestClassifier": [0, 1], "OutputCodeClassifier": [-1, 1]}
        meta.set_params(estimator__classes=own.get(type(meta).__name__, meta.estimator.classes))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        # A cross-validation makes an error of its own of those of all its fits.
        with pytest.raises((PrivacyWarning, ValueError), match=f"{type(meta).__name__} learns {does}"):
            meta.fit(X, y)
    assert ledger.entries() == []


@pytest.mark.parametrize("meta", [meta for meta, _, _ in METAS], ids=NAMES)
def test_what_a_fit_says_is_what_check_pipeline_finds(meta):
    assert type(meta).__name__ in [found.kind for found in check_pipeline(meta)]


def test_boosting_needs_weights_and_is_refused():
    with pytest.raises(ValueError, match="sample_weight"):
        AdaBoostClassifier(model()).fit(X, TWO)


def test_a_threshold_fixed_in_advance_is_fine(reports):
    fixed = FixedThresholdClassifier(model(), threshold=0.3).fit(X, TWO)  # a warning would be an error
    assert check_pipeline(fixed) == []
    assert [unmet(report) for report in reports] == [[]]


class Foreign(ClassifierMixin, BaseEstimator):
    """Someone's own estimator, which fits in a method that is not called fit."""

    def fit(self, X, y):
        return self.train(X, y)

    def train(self, X, y):
        self.models_ = [model().fit(X, y) for _ in range(2)]
        return self


class Duck:
    """Not derived from anything, but with the methods of an estimator."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        model().fit(X, y)


@pytest.mark.parametrize("work", [Foreign().fit, Foreign().train, Duck().fit])
def test_an_estimator_that_nobody_knows_counts(work, reports):
    with pytest.warns(PrivacyWarning, match="dperm does not know this class"):
        work(X, TWO)
    for report in reports:
        (line,) = unmet(report)
        assert "perhaps several models" in line


def test_an_own_subclass_of_a_private_model_is_not_around_itself():
    class Mine(PrivateLogisticRegression):
        def fit(self, X, y):
            return super().fit(X, y)

    assert unmet(Mine(mechanism="output").fit(X, TWO).privacy_) == []


def test_pipelines_inside_and_outside_are_seen_too(reports):
    meta = make_pipeline(StandardScaler(), OneVsRestClassifier(model(classes=None)))
    with pytest.warns(PrivacyWarning, match="standardscaler.*OneVsRestClassifier"):
        meta.fit(X, THREE)
    for report in reports:
        assert [("StandardScaler" in line, "OneVsRest" in line) for line in unmet(report)] == [
            (True, False),
            (False, True),
        ]
    reports.clear()
    with pytest.warns(PrivacyWarning, match="standardscaler"):
        OneVsRestClassifier(make_pipeline(StandardScaler(), model(classes=None))).fit(X, THREE)
    assert all(len(unmet(report)) == 2 for report in reports)


# Cross-validation keeps no model, so it does not warn; a model that someone keeps says where it comes from.


@pytest.mark.parametrize("evaluate", [cross_val_score, cross_validate, cross_val_predict])
def test_parts_of_a_cross_validation_do_not_warn_and_say_what_they_are(evaluate, reports):
    evaluate(model(), X, TWO, cv=2)
    assert len(reports) == 2
    for report in reports:
        (line,) = unmet(report)
        assert "one part of a cross-validation" in line
        assert "the guarantee covers this one fit only" in line


def test_folds_of_a_search_are_not_warned_of_and_the_model_that_is_kept_is(reports):
    with pytest.warns(PrivacyWarning, match="PrivateSearchCV") as caught:
        GridSearchCV(model(), {"l2": [0.1, 1.0]}, cv=2).fit(X, TWO)
    assert len(caught) == 1
    *folds, kept = [unmet(report) for report in reports]
    assert all("cross-validation" in line for (line,) in folds)
    assert "GridSearchCV chose settings" in kept[0]


# The private search warns once, before its charge.


def search(**settings):
    return PrivateSearchCV(
        model(), {"l2": [0.1, 1.0]}, epsilon=5.0, delta=1e-6, mean_candidates=3.0, **settings
    )


def test_a_private_search_inside_warns_once_and_before_its_charge(tmp_path):
    pipe = make_pipeline(StandardScaler(), search())
    with pytest.warns(PrivacyWarning, match="standardscaler") as caught:
        pipe.fit(X, TWO)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "standardscaler (StandardScaler)" in unmet(pipe[-1].privacy_)[0]
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)
    for outer in (
        make_pipeline(StandardScaler(), search(ledger=ledger)),
        BaggingClassifier(search(ledger=ledger)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            with pytest.raises(PrivacyWarning):
                outer.fit(X, TWO)
        assert ledger.entries() == []


def test_a_private_search_inside_an_ensemble_says_so():
    bagging = BaggingClassifier(search(), n_estimators=2)
    with pytest.warns(PrivacyWarning, match="BaggingClassifier") as caught:
        bagging.fit(X, TWO)
    assert len(caught) == 2  # once for each search
    for inner in bagging.estimators_:
        assert any("fitted inside BaggingClassifier" in line for line in unmet(inner.privacy_))


# Workers of joblib.


@pytest.mark.system_noise(failing=0)
def test_a_worker_process_says_that_its_caller_cannot_be_seen():
    meta = OneVsRestClassifier(model(classes=None), n_jobs=2)
    with joblib.parallel_config("loky"), warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="parallel worker, called by sklearn.multiclass._fit_binary"):
            meta.fit(X, THREE)
        warnings.simplefilter("ignore", PrivacyWarning)
        meta.fit(X, THREE)
    for inner in meta.estimators_:
        (line,) = unmet(inner.privacy_)
        assert "in a parallel worker, by sklearn.multiclass._fit_binary, whose caller cannot be seen" in line


@pytest.mark.system_noise(failing=0)
def test_a_worker_thread_warns_too():
    meta = BaggingClassifier(model(sample_weight_bound=3.0), n_estimators=2, n_jobs=2)
    with (
        joblib.parallel_config("threading"),
        pytest.warns(PrivacyWarning, match="parallel worker, called by"),
    ):
        meta.fit(X, TWO)
    for inner in meta.estimators_:
        assert ["parallel worker" in line for line in unmet(inner.privacy_)] == [True]


def fit_one(y):
    return model().fit(X, y)


@pytest.mark.system_noise(failing=0)
def test_a_function_of_ones_own_in_a_worker_counts_and_one_after_another_does_not():
    with pytest.warns(PrivacyWarning, match="fit_one"):
        models = joblib.Parallel(2, backend="threading")(joblib.delayed(fit_one)(TWO) for _ in range(2))
    assert all("fit_one" in unmet(one.privacy_)[0] for one in models)
    with pytest.warns(PrivacyWarning, match="runs in a parallel worker whose caller"):
        (one,) = joblib.Parallel(2, backend="threading")([joblib.delayed(model().fit)(X, TWO)])
    assert "in a parallel worker whose caller" in unmet(one.privacy_)[0]
    models = joblib.Parallel(1)(joblib.delayed(fit_one)(TWO) for _ in range(2))
    assert all(unmet(one.privacy_) == [] for one in models)  # as in any loop


@pytest.mark.system_noise(failing=0)
def test_parts_of_a_cross_validation_in_workers_do_not_warn():
    with joblib.parallel_config("threading"):
        found = cross_validate(model(), X, TWO, cv=2, n_jobs=2, return_estimator=True)
    for inner in found["estimator"]:
        assert ["cross-validation" in line for line in unmet(inner.privacy_)] == [True]


def test_groups_that_a_search_gives_to_its_splitter_alone_are_refused():
    """Swallowed, they would leave a guarantee for rows; routed, they reach the model."""
    ids = np.arange(len(X)) // 4
    model = PrivateLogisticRegression(classes=[0, 1], mechanism="output", random_state=0)
    settings = {"param_grid": {"l2": [1e-2, 1e-1]}, "cv": GroupKFold(2), "error_score": "raise"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInput, match="GridSearchCV gives groups to its splitter alone"):
            GridSearchCV(model, **settings).fit(X, TWO, groups=ids)
        with config_context(enable_metadata_routing=True):
            routed = GridSearchCV(model.set_fit_request(groups=True), **settings).fit(X, TWO, groups=ids)
    assert routed.best_estimator_.privacy_.statement["unit"] == "one person"
