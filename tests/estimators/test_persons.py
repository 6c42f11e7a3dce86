"""``fit(X, y, groups=ids)``: the unit is a person, whatever the mechanism; docs/proofs/persons.md."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from dperm import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    load_model,
    save_model,
    verify,
)
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.persons import GroupedRows
from dperm.mechanisms import mechanism_names, resolve
from dperm.mechanisms.gradient.frank_wolfe import FrankWolfe
from dperm.unit import FEWEST_KEPT, rows_kept

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

RNG = np.random.default_rng(15)
N = 600
X = RNG.uniform(-0.5, 0.5, (N, 3))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
IDS = RNG.integers(0, 150, N)
REFUSED = {
    "amp": "its fixed shares of epsilon are for a gradient that runs along a line and a Hessian of rank one",
    "objective-pure": "its charge for the Hessian is that of a matrix of rank one",
}
PRIVATE = [name for name in mechanism_names() if resolve(name).private]


def model_of(name, **settings):
    common = {
        "epsilon": 1.0,
        "delta": 0.0 if name == "objective-pure" else 1e-6,
        "mechanism": name,
        **settings,
    }
    if name == "adassp":
        return PrivateLinearRegression(y_range=(0, 1), l2=1e-3, **common)
    return PrivateLogisticRegression(classes=[0, 1], **common)


@pytest.mark.together
@pytest.mark.parametrize("name", PRIVATE)
def test_every_mechanism_is_certified_for_persons_or_says_why_not(name, tmp_path):
    if name in REFUSED:
        with pytest.raises(Unsupported, match="persons with several rows are not covered") as caught:
            model_of(name).fit(X, Y, groups=IDS)
        assert REFUSED[name] in str(caught.value)
        return
    model = model_of(name).fit(X, Y, groups=IDS)
    statement = model.privacy_.statement
    assert statement["unit"] == "one person"
    assert statement["problem"]["n_units"] == len(set(IDS))
    assert statement["persons"] == {"loss": "mean", "rows_per_person": rows_kept(len(set(IDS)))}
    save_model(model, tmp_path / "m.json")
    verdict = verify(tmp_path / "m.json", unit="person")
    assert verdict.ok, verdict.failures
    np.testing.assert_array_equal(load_model(tmp_path / "m.json").coef_, model.coef_)


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", PRIVATE)
def test_one_row_each_gives_the_same_bits_with_groups_and_without(name, relation):
    if relation == "add-remove" and name == "nsgd":
        pytest.skip("not proved for add-remove")
    settings = {"random_state": 3, "neighbours": relation}
    if relation == "add-remove":
        settings["max_rows"] = N + 20
    alone = model_of(name, **settings).fit(X, Y)
    grouped = model_of(name, max_rows_per_person=1, **settings).fit(X, Y, groups=np.arange(N)[::-1])
    np.testing.assert_array_equal(alone.coef_, grouped.coef_)
    np.testing.assert_array_equal(alone.intercept_, grouped.intercept_)


@pytest.mark.parametrize("name", ["auto", "dp-gd", "rsgd-ar", "dp-sgd"])
def test_without_a_declared_bound_one_row_each_differs_by_the_price_alone(name):
    """A person might have many rows, which nobody may look up: rounding and the minimiser are priced for that."""
    plans = [model_of(name).plan(N, 3), model_of(name).plan(N, 3, n_persons=N)]
    scales = [plan.noise.scale for plan in plans]
    assert scales[0] != scales[1]
    # dp-gd's gap follows the weights for rows alone; the plan's is that at zero
    assert 0.9 < scales[1] / scales[0] < 1.05


def test_the_mean_is_the_model_of_persons_not_of_rows():
    """One person with most of the rows says the contrary of all others: rows go with them, persons do not."""
    x = np.tile([[0.5], [-0.5]], (200, 1))
    y = np.tile([1, 0], 200)
    loud = np.tile([[0.5], [-0.5]], (400, 1))
    rows, labels = np.vstack([x, loud]), np.concatenate([y, np.tile([0, 1], 400)])
    ids = np.concatenate([np.arange(400), np.full(800, 400)])
    settings = {"mechanism": "none", "l2": 1e-3, "classes": [0, 1], "random_state": 0}
    by_row = PrivateLogisticRegression(**settings).fit(rows, labels)
    by_person = PrivateLogisticRegression(**settings).fit(rows, labels, groups=ids)
    assert by_row.coef_[0, 0] < -0.5
    assert by_person.coef_[0, 0] > 1


def test_the_mean_is_the_minimiser_with_weights_of_one_over_the_count():
    from sklearn.linear_model import LogisticRegression

    counts = np.bincount(IDS)
    ours = PrivateLogisticRegression(
        mechanism="none", l2=1e-2, classes=[0, 1], random_state=0, fit_intercept=False
    )
    ours.fit(X, Y, groups=IDS)
    theirs = LogisticRegression(C=1 / (1e-2 * len(set(IDS))), fit_intercept=False, tol=1e-10)
    theirs.fit(X, Y, sample_weight=1 / counts[IDS])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)


def test_the_sum_keeps_the_first_rows_and_costs_so_many_times_the_gap():
    plans = {
        most: model_of("dp-gd", person_loss="sum", max_rows_per_person=most).plan(N, 3, n_persons=150)
        for most in (2, 4)
    }
    assert plans[4].noise.scale == pytest.approx(2 * plans[2].noise.scale, rel=1e-6)
    keep = GroupedRows.of(IDS).kept(2)
    settings = {"mechanism": "none", "l2": 1e-2, "classes": [0, 1], "random_state": 0}
    summed = PrivateLogisticRegression(person_loss="sum", max_rows_per_person=2, **settings)
    summed.fit(X, Y, groups=IDS)
    n_persons = len(set(IDS))
    few = PrivateLogisticRegression(**{**settings, "l2": 1e-2 * n_persons / keep.sum()}).fit(X[keep], Y[keep])
    np.testing.assert_allclose(summed.coef_, few.coef_, rtol=1e-6)


def test_what_is_kept_of_a_person_does_not_depend_on_others():
    ids = np.array(["a", "b", "a", "c", "a", "b"])
    grouped = GroupedRows.of(ids)
    assert grouped.person.tolist() == [0, 1, 0, 2, 0, 1]
    assert grouped.kept(2).tolist() == [True, True, True, True, False, True]
    without = GroupedRows.of(ids[ids != "b"])
    assert without.kept(2).tolist() == grouped.kept(2)[ids != "b"].tolist()


@pytest.mark.together
@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        IDS.astype(str),
        IDS.astype(float),
        np.array([f"id {k}" for k in IDS], object),
        IDS.tolist(),
    ],
    ids=lambda ids: type(ids).__name__ + str(getattr(ids, "dtype", "")),
)
def test_ids_of_every_kind_name_the_same_persons(ids):
    fitted = model_of("output", random_state=0).fit(X, Y, groups=ids)
    np.testing.assert_array_equal(
        fitted.coef_, model_of("output", random_state=0).fit(X, Y, groups=IDS).coef_
    )


@pytest.mark.together
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, np.asfortranarray])
def test_rows_of_other_forms(form):
    for settings in ({}, {"person_loss": "sum", "max_rows_per_person": 3}):
        dense = model_of("objective", random_state=0, **settings).fit(X, Y, groups=IDS)
        other = model_of("objective", random_state=0, **settings).fit(form(X), Y, groups=IDS)
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=2e-5)


def test_frames_and_pipelines_pass_ids_on():
    pd = pytest.importorskip("pandas")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipe = make_pipeline(FunctionTransformer(), model_of("output", random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.fit(frame, Y, privatelogisticregression__groups=pd.Series(IDS))
    assert pipe[-1].privacy_.statement["unit"] == "one person"


def test_weights_go_with_persons():
    weights = RNG.uniform(0, 2, N)
    model = model_of("objective", sample_weight_bound=2.0).fit(X, Y, groups=IDS, sample_weight=weights)
    assert model.privacy_.statement["problem"]["loss_parameters"][0] == 2.0
    summed = model_of("objective", class_weight={1: 3.0}, person_loss="sum", max_rows_per_person=2)
    assert summed.fit(X, Y, groups=IDS).privacy_.statement["problem"]["loss_parameters"][0] == 6.0


def test_several_classes_by_person():
    labels = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    model = PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1, 2]).fit(X, labels, groups=IDS)
    assert model.privacy_.statement["unit"] == "one person"
    assert model.privacy_.statement["mechanism"]["chosen"]["name"] == "dp-gd"


def test_an_empty_table_fits_under_add_remove():
    model = model_of("objective", neighbours="add-remove", max_rows=50)
    assert model.fit(X[:0], Y[:0], groups=IDS[:0]).coef_.shape == (1, 3)


@pytest.mark.parametrize("name", ["dp-sgd", "rsgd-ar", "noisy-sgd", "psgd", "auto"])
def test_persons_below_the_capacity(name):
    model = model_of(name, neighbours="add-remove", max_rows=400).fit(X, Y, groups=IDS)
    assert model.privacy_.statement["problem"]["n_units"] == 400
    assert model.privacy_.guarantee is not None


SECRET = "patient 4711"


@pytest.mark.together
@pytest.mark.parametrize(
    ("settings", "groups", "words"),
    [
        ({}, IDS[:-1], "has 599 ids for 600 rows"),
        ({}, IDS[:, None], "one id for each row; its shape is"),
        ({}, [None, *IDS[1:].tolist()], "rows without the id of a person"),
        ({}, np.where(IDS == 3, np.nan, IDS), "rows without the id of a person"),
        ({}, np.array([(SECRET,), *IDS[1:].tolist()], object), "neither text nor a whole number"),
        ({"person_loss": "sum"}, IDS, "needs max_rows_per_person"),
        ({"person_loss": "median"}, IDS, "person_loss must be one of"),
        ({"max_rows_per_person": 0}, IDS, "whole number from 1"),
        ({"max_rows_per_person": 2.5}, IDS, "whole number from 1"),
        ({"max_rows_per_person": 3}, None, "give fit the ids"),
        ({"person_loss": "sum"}, None, "give fit the ids"),
        ({"neighbours": "add-remove", "max_rows": 20}, IDS, "more persons than the declared number, 20"),
    ],
)
def test_bad_input_is_refused_in_words_that_quote_nothing(settings, groups, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        model_of("output", **settings).fit(X, Y, groups=groups)
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__context__


def test_lazy_frank_wolfe_refuses():
    model = PrivateLogisticRegression(classes=[0, 1], mechanism=FrankWolfe(lazy=True))
    with pytest.raises(Unsupported, match="rounded row by row"):
        model.fit(X, Y, groups=IDS)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'group'"):
        model_of("output").fit(X, Y, group=IDS)


def test_how_many_rows_are_kept():
    assert rows_kept(100) == 2**20
    assert rows_kept(10**6) == 288
    assert rows_kept(10**9) == FEWEST_KEPT
