"""Under add-remove whether a row is there is hidden, so a table of no rows fits like one of one row."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from dperm import (
    Ledger,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from dperm.cli.fit import fit as fit_command
from dperm.engine import open_rows
from dperm.errors import DpermError, InvalidInput
from dperm.estimators.encoder import PublicEncoder
from dperm.losses import ClippedSquared, Logistic, Softmax
from dperm.mechanisms import Job, mechanism_names, resolve
from dperm.models import load_model, save_model
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.schema import Schema, encode, encode_target, read_table
from dperm.unit import Neighbours

HIDDEN = {"neighbours": "add-remove", "max_rows": 50}
CLASSIFIERS = [
    PrivateLogisticRegression(classes=["no", "yes"], **HIDDEN),
    PrivateLogisticRegression(classes=["a", "b", "c"], **HIDDEN),
    PrivateLinearSVC(classes=[0, 1], **HIDDEN),
]
MODELS = [*CLASSIFIERS, PrivateLinearRegression(y_range=(0, 10), **HIDDEN)]
IDS = ["logistic", "softmax", "svm", "regression"]
GRID = {"l2": [1e-3, 1e-1]}


def label(model):
    """A target that may occur."""
    return 5.0 if isinstance(model, PrivateLinearRegression) else model.classes[-1]


@pytest.mark.cover(1)
@pytest.mark.parametrize("model", MODELS, ids=IDS)
@pytest.mark.parametrize("mechanism", ["auto", "output", "dp-gd", "rsgd-ar"])
def test_no_rows_fit_as_one_row_does(model, mechanism, tmp_path):
    model = clone(model).set_params(mechanism=mechanism)
    none = clone(model).fit(np.empty((0, 3)), np.array([], dtype=type(label(model))))
    one = clone(model).fit(np.full((1, 3), 0.1), [label(model)])
    assert none.coef_.shape == one.coef_.shape
    assert np.isfinite(none.coef_).all()
    assert none.privacy_.to_dict() == one.privacy_.to_dict()
    assert none.privacy_.guarantee is not None
    save_model(none, tmp_path / "model.json")
    assert load_model(tmp_path / "model.json").coef_.tobytes() == none.coef_.tobytes()


EMPTY_TARGETS = {
    "list": [],
    "floats": np.empty(0),
    "objects": np.empty(0, dtype=object),
    "text": np.empty(0, dtype="U3"),
    "series": pd.Series([], dtype=object),
    "column": np.empty((0, 1)),
}


@pytest.mark.cover(1)
@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("y", EMPTY_TARGETS.values(), ids=EMPTY_TARGETS)
@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_no_rows_may_come_in_any_form(model, y):
    frames = [
        np.empty((0, 2), np.float32),
        pd.DataFrame({"a": [], "b": []}, dtype=object),
        np.empty((0, 2), int),
    ]
    for X in frames:
        fitted = clone(model).set_params(mechanism="output").fit(X, y)
        assert fitted.n_features_in_ == 2
    assert clone(model).fit(frames[1], y).feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.together
@pytest.mark.parametrize("table", [pd.DataFrame, pa.table, dict])
def test_no_rows_pass_the_encoder(table):
    schema = {
        "target": {"name": "y", "classes": ["no", "yes"]},
        "features": {"age": {"range": [0, 100]}, "job": {"categories": ["nurse", "clerk"]}},
    }
    empty = table({"age": np.empty(0), "job": pa.array([], pa.string())})
    pipe = make_pipeline(PublicEncoder(schema), clone(CLASSIFIERS[0])).fit(empty, [])
    assert pipe[-1].coef_.shape == (1, 11)


def test_a_file_of_a_header_alone_fits_and_the_command_line_says_that_it_needs_rows(tmp_path):
    """There the number of rows is public, so an error about it tells nothing."""
    schema = tmp_path / "people.toml"
    schema.write_text(
        '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\nrange = [0, 100]\n', encoding="utf-8"
    )
    people = tmp_path / "people.csv"
    people.write_text("age,y\n", encoding="utf-8")
    declared = Schema.from_toml(schema)
    table = read_table(people, declared)
    fitted = clone(CLASSIFIERS[0]).fit(encode(table, declared), encode_target(table, declared))
    assert fitted.coef_.shape == (1, 9)
    command = [
        "fit",
        people,
        "--schema",
        schema,
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--output",
        tmp_path / "m.json",
    ]
    with pytest.raises(InvalidInput, match=r"people\.csv: the file holds no rows"):
        fit_command.main([str(word) for word in command[1:]], standalone_mode=False)


@pytest.mark.together
@pytest.mark.parametrize("name", mechanism_names())
def test_every_mechanism_takes_no_rows(name):
    """At small capacities too: what a plan accepts is run whether a row is there or not."""
    ran = 0
    for loss in (Logistic(), ClippedSquared(), Softmax(3)):
        for capacity, columns, standardise in ((1, 1, False), (60, 3, True)):
            problem = Problem(
                loss=loss,
                l2=0.1,
                x_norm=1.0,
                n_rows=capacity,
                n_features=columns,
                intercept=0.3,
                neighbours=Neighbours.ADD_REMOVE,
            )
            try:
                mechanism = dataclasses.replace(resolve(name), standardise=standardise)
                plan = mechanism.plan(problem, Budget(1.0, 1e-6))
            except DpermError:
                continue  # before any row, so it tells nothing of them
            for rows in (0, 1):
                held = open_rows(np.full((rows, columns), 0.5), np.ones(rows), problem)
                (outcome,) = mechanism.run([Job(plan=plan)], held, Gate.system())
                assert np.isfinite(outcome.weights).all()
                ran += 1
    assert (ran > 0) == (Neighbours.ADD_REMOVE in resolve(name).relations)


@pytest.mark.parametrize(
    ("model", "refit_share"),
    [*zip(MODELS, [None] * len(MODELS), strict=True), (MODELS[0], 0.3)],
    ids=[*IDS, "and trained again"],
)
def test_a_search_takes_whatever_lands_where(model, refit_share):
    """With one row either the training or the validation part is empty; with none both are."""
    model = clone(model).set_params(mechanism="output")
    for rows, seeds in ((0, 1), (1, 4), (2, 2)):
        for seed in range(seeds):
            search = PrivateSearchCV(
                model,
                GRID,
                epsilon=8.0,
                delta=1e-6,
                validation=0.5,
                refit_share=refit_share,
                random_state=seed,
            )
            search.fit(np.full((rows, 3), 0.1), np.array([label(model)] * rows, dtype=type(label(model))))
            assert np.isfinite(search.best_estimator_.coef_).all()


def test_a_search_on_public_data_takes_no_private_rows():
    rng = np.random.default_rng(0)
    public = rng.normal(size=(60, 3)) / 3, np.where(rng.random(60) > 0.5, "yes", "no")
    search = PrivateSearchCV(CLASSIFIERS[0], GRID, epsilon=8.0, delta=1e-6, public_data=public)
    assert search.fit(np.empty((0, 3)), []).best_estimator_.coef_.shape == (1, 3)


def test_a_capacity_too_small_for_a_search_is_refused_whatever_the_rows():
    search = PrivateSearchCV(
        clone(CLASSIFIERS[0]).set_params(max_rows=1), GRID, epsilon=8.0, delta=1e-6, random_state=0
    )
    for rows in (0, 1):
        with pytest.raises(InvalidInput, match="no training row"):
            search.fit(np.full((rows, 3), 0.1), ["no"] * rows)
    with pytest.raises(InvalidInput, match="n_rows must be at least 1"):
        clone(CLASSIFIERS[0]).set_params(max_rows=0).fit(np.empty((0, 3)), [])


def test_an_empty_table_is_charged_like_any_other(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=1.0, delta=1e-6, neighbours="add-remove")
    clone(CLASSIFIERS[0]).set_params(ledger=ledger, epsilon=0.5).fit(np.empty((0, 3)), [])
    assert ledger.spent() == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=IDS[:3])
def test_labels_must_be_declared_where_the_presence_of_a_row_is_hidden(model):
    """The only row with a label would otherwise decide how many classes, and so coefficients, there are."""
    model = clone(model).set_params(classes=None)
    X, y = np.full((4, 2), 0.1), ["a", "b", "a", "b"]
    for rows in (0, 1, 4):
        with pytest.raises(InvalidInput, match="declare all that may occur with classes="):
            clone(model).fit(X[:rows], y[:rows])
        with pytest.raises(InvalidInput, match="declare all that may occur with classes="):
            PrivateSearchCV(clone(model), GRID, epsilon=8.0, delta=1e-6).fit(X[:rows], y[:rows])


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_where_the_number_of_rows_is_public_no_rows_are_an_error(model):
    public = clone(model).set_params(neighbours="replace-one", max_rows=None)
    with pytest.raises(InvalidInput, match=r"0 sample\(s\)"):
        public.fit(np.empty((0, 3)), [])
    with pytest.raises(InvalidInput, match=r"0 feature\(s\)"):
        clone(model).fit(np.empty((4, 0)), [label(model)] * 4)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_more_rows_than_promised_are_an_error(model):
    with pytest.raises(InvalidInput, match="more rows than the declared n_rows = 50"):
        clone(model).fit(np.full((51, 3), 0.1), [label(model)] * 51)
