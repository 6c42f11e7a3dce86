"""``dperm.mean_predictions``: close to the exact means, paid for before a row is read, quoting nobody."""

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import dperm
from dperm import Budget, Ledger, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.errors import BudgetExceeded, InvalidInput, PrivacyWarning, Unsupported

RNG = np.random.default_rng(0)
N = 8000
X = RNG.uniform(-0.5, 0.5, (2 * N, 3))
SCORE = X[:, 0] + 0.2 * RNG.normal(size=2 * N)
Y, FOUR, REAL = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.3, 0, 0.3]), np.clip(50 + 60 * SCORE, 0, 100)
EASY = {"epsilon": 3.0, "delta": 1e-5, "random_state": 0}
BINARY = PrivateLogisticRegression(classes=[0, 1], **EASY).fit(X[:N], Y[:N])
SVM = PrivateLinearSVC(classes=[0, 1], **EASY).fit(X[:N], Y[:N])
MANY = PrivateLogisticRegression(classes=[0, 1, 2, 3], **EASY).fit(X[:N], FOUR[:N])
REGRESSION = PrivateLinearRegression(y_range=(0, 100), **EASY).fit(X[:N], REAL[:N])
NEW = X[N:]
WARD = np.where(NEW[:, 0] > 0.1, "A", np.where(RNG.random(N) < 0.5, "B", "C"))
WARDS = ["A", "B", "C"]
BUDGET = Budget(2.0, 1e-6)
CASES = {
    "binary": (BINARY, {}, lambda: BINARY.predict_proba(NEW)[:, 1]),
    "the first of two": (BINARY, {"label": 0}, lambda: BINARY.predict_proba(NEW)[:, 0]),
    "many": (MANY, {"label": 2}, lambda: MANY.predict_proba(NEW)[:, 2]),
    "regression": (REGRESSION, {}, lambda: np.clip(REGRESSION.predict(NEW), 0, 100)),
    "narrow": (
        REGRESSION,
        {"bounds": (20, 80)},
        lambda: np.clip(REGRESSION.predict(NEW), 20, 80),
    ),
}


def averaged(model=BINARY, rows=NEW, budget=BUDGET, **options):
    return dperm.mean_predictions(model, rows, budget, **{"by": WARD, "values": WARDS, **options})


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("hidden", [{}, {"neighbours": "add-remove", "max_rows": 2 * N}])
@pytest.mark.parametrize("case", CASES)
def test_means_are_near_the_exact_ones_and_say_how_near(case, hidden):
    model, options, predicted = CASES[case]
    found, predicted = averaged(model, **options, **hidden), predicted()
    exact = {ward: predicted[ward == WARD].mean() for ward in WARDS}
    assert list(found.groups) == WARDS
    for ward, one in [*found.groups.items(), ("all", found.overall)]:
        true = exact.get(ward, predicted.mean())
        assert abs(one.mean.estimate - true) < 4 * one.here.noise
        assert one.mean.estimate == one.here.estimate
        assert one.mean.low <= one.here.low <= one.mean.estimate <= one.here.high <= one.mean.high
        count = N if ward == "all" else (ward == WARD).sum()
        assert abs(one.rows.estimate - count) <= 4 * one.rows.noise
    assert found.private
    assert found.budget == {"epsilon": 2.0, "delta": 1e-6}
    assert found.model == model.certificate_["model"]["sha256"]
    assert found.rows == (None if hidden else N)


def test_narrower_bounds_bring_less_noise():
    whole, narrow = averaged(REGRESSION), averaged(REGRESSION, bounds=(20, 80))
    assert narrow.overall.here.noise < 0.7 * whole.overall.here.noise
    assert "Predictions are cut off at 20 and 80." in narrow.notes


def test_without_groups_there_is_one_mean():
    found = dperm.mean_predictions(BINARY, NEW, BUDGET)
    assert found.groups == {}
    assert found.overall.rows.estimate == N
    assert found.overall.rows.noise == 0
    assert abs(found.overall.mean.estimate - BINARY.predict_proba(NEW)[:, 1].mean()) < 0.01


FORMS = {
    "list": list(WARD),
    "array of objects": WARD.astype(object),
    "Series": pd.Series(WARD, index=np.arange(N)[::-1], name="ward"),
    "Categorical": pd.Series(pd.Categorical(WARD)),
    "polars": pl.Series("ward", WARD),
    "Arrow": pa.array(WARD),
}


@pytest.mark.together
@pytest.mark.parametrize("form", FORMS)
def test_groups_come_in_every_form(form):
    first, again = averaged(random_state=3), averaged(by=FORMS[form], random_state=3)
    assert again.release == first.release
    assert again.by == ("ward" if form in ("Series", "polars") else "group")
    assert not first.private
    assert "NOT PRIVATE" in str(first)


@pytest.mark.parametrize("values", [[1, 2, 3], np.array([1, 2, 3])])
def test_groups_may_be_numbers_or_truth_values(values):
    codes = np.array([1, 2, 3])[np.searchsorted(WARDS, WARD)]
    first = averaged(random_state=3)
    for by in (codes, codes.astype(float), codes.astype(np.int8)):
        found = averaged(by=by, values=values, random_state=3)
        assert found.release == first.release
        assert list(found.groups) == [1, 2, 3]
    truth = averaged(by=WARD == "A", values=[False, True])
    assert abs(truth.groups[True].rows.estimate - (WARD == "A").sum()) <= 4 * truth.groups[True].rows.noise


@pytest.mark.together
@pytest.mark.parametrize("rows", [sparse.csr_array, pd.DataFrame, lambda x: x.tolist()])
def test_rows_of_every_kind_give_the_same_sums(rows):
    first, again = averaged(random_state=3), averaged(rows=rows(NEW), random_state=3)
    np.testing.assert_allclose(again.release["numbers"], first.release["numbers"], atol=1e-2)


def test_pipelines_are_opened_and_the_column_may_be_named():
    schema = {
        "target": {"name": "sick", "classes": ["no", "yes"]},
        "features": {"age": {"range": [0, 100]}, "job": {"categories": ["desk", "farm"]}},
    }
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(0, 100, 6000), "job": rng.choice(["desk", "farm"], 6000)})
    table["ward"] = rng.choice(["A", "B"], 6000)
    sick = np.where(table["age"] + 20 * rng.normal(size=6000) > 50, "yes", "no")
    model = PrivateLogisticRegression(classes=["no", "yes"], **EASY)
    pipeline = make_pipeline(dperm.PublicEncoder(schema), model).fit(table[:2000], sick[:2000])
    rest = table[2000:]
    for rows in (rest, pl.from_pandas(rest), pa.Table.from_pandas(rest, preserve_index=False)):
        found = dperm.mean_predictions(pipeline, rows, BUDGET, by="ward", values=["A", "B"], label="yes")
        assert found.by == "ward"
        assert found.label == "yes"
        assert abs(found.groups["A"].mean.estimate - 0.5) < 0.05
    with pytest.raises(InvalidInput, match="a table with one column"):
        dperm.mean_predictions(pipeline, rest, BUDGET, by="station", values=["A", "B"])


def test_the_charge_is_one_and_comes_before_a_row_is_read(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=3, delta=1e-5)
    ledger.set_cap("new", 2.0, 1e-5)
    seen = []

    class Watched:
        def __init__(self, values):
            self.values, self.shape = values, values.shape

        def read(self):
            seen.append([entry.status for entry in ledger.entries("new")])
            return self.values

    found = averaged(
        rows=Watched(NEW), by=Watched(WARD), budget=Budget(1.0, 1e-6), ledger=ledger, dataset="new"
    )
    assert seen == [["open"], ["open"]]
    (entry,) = ledger.entries()
    assert entry.dataset == "new"
    assert entry.kind == "evaluate"
    assert entry.mechanism == "means"
    assert found.model[:12] in entry.label
    assert ledger.spent("new") <= 1.0
    assert entry.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    ledger.check(found.ledger_entry)
    with pytest.raises(BudgetExceeded):
        averaged(rows=Watched(NEW), budget=Budget(2.5, 1e-6), ledger=ledger, dataset="new")
    assert len(seen) == 2


def test_a_strict_ledger_says_one_thing_whatever_was_wrong(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5, strict=True)
    said = set()
    for by in (np.full(N, "Z"), WARD[:-1], np.arange(N)):
        with pytest.raises(InvalidInput) as caught:
            averaged(by=by, budget=Budget(1.0, 1e-6), ledger=ledger)
        said.add(str(caught.value))
    assert len(said) == 1
    assert [entry.status for entry in ledger.entries()] == ["spent"] * 3


@pytest.mark.together
@pytest.mark.parametrize("value", ["zebra-4711", None, np.nan, ""])
def test_values_that_were_not_declared_are_not_quoted(value):
    by = WARD.astype(object)
    by[17] = value
    with pytest.raises(InvalidInput, match="not among the declared values") as caught:
        averaged(by=by)
    assert "zebra" not in "".join(traceback.format_exception(caught.value))
    found = averaged(by=by, other="elsewhere", random_state=0)
    assert list(found.groups) == [*WARDS, "elsewhere"]
    assert not found.groups["elsewhere"].mean.known
    assert "too noisy to say" in str(found)


def test_values_of_two_kinds_are_not_quoted():
    by = WARD.astype(object)
    by[17] = 4711
    with pytest.raises(InvalidInput, match="one kind") as caught:
        averaged(by=by)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_add_remove_hides_the_number_of_rows_and_takes_none():
    found = averaged(neighbours="add-remove", max_rows=10_000)
    assert found.rows is None
    assert found.overall.rows.noise > 0
    empty = averaged(rows=NEW[:0], by=[], neighbours="add-remove", max_rows=10_000, random_state=0)
    assert not empty.overall.mean.known
    assert not any(one.mean.known for one in empty.groups.values())


def test_rows_that_overflow_are_counted():
    rows = NEW.copy()
    rows[0], rows[1] = 1e308, -1e308
    assert averaged(rows=rows).overall.mean.known
    assert averaged(MANY, rows=rows, label=0).overall.mean.known


WRONG_ROWS = {
    "no rows": (NEW[:0], WARD[:0], "no rows"),
    "other lengths": (NEW, WARD[:-1], "one value for every row"),
    "missing numbers": (np.where(np.arange(N)[:, None] == 5, np.nan, NEW), WARD, "NaN"),
    "other features": (NEW[:, :2], WARD, "2 features"),
    "numbers for text": (NEW, np.arange(N), "holds numbers"),
    "a table of groups": (NEW, np.stack([WARD, WARD], axis=1), "one kind"),
    "a column of an array": (NEW, "ward", "a table with one column"),
}


@pytest.mark.together
@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_that_do_not_fit_are_refused(case):
    rows, by, words = WRONG_ROWS[case]
    with pytest.raises(InvalidInput, match=words):
        averaged(rows=rows, by=by)


WRONG = {
    "no budget": ({"budget": None}, "Budget"),
    "a number for a budget": ({"budget": 1.0}, "Budget"),
    "pure budget": ({"budget": Budget(1.0, 0.0)}, "delta"),
    "no values": ({"values": None}, "values must list"),
    "text for values": ({"values": "ABC"}, "values must list"),
    "empty values": ({"values": []}, "from 1 to"),
    "values twice": ({"values": ["A", "B", "A"]}, "repeat"),
    "values of two kinds": ({"values": ["A", 1]}, "one kind"),
    "values that are floats": ({"values": [0.5, 1.5]}, "one kind"),
    "huge values": ({"values": [2**60, 1]}, "2\\*\\*53"),
    "other among values": ({"other": "A"}, "other"),
    "other that is no text": ({"other": 3}, "other"),
    "values without by": ({"by": None}, "give by"),
    "label that is no class": ({"label": "maybe"}, "label"),
    "bounds outside": ({"bounds": (0.0, 1.5)}, "bounds"),
    "bounds the wrong way": ({"bounds": (0.8, 0.2)}, "bounds"),
    "one bound": ({"bounds": (0.8,)}, "bounds"),
    "no capacity": ({"neighbours": "add-remove"}, "max_rows"),
    "capacity of replace-one": ({"max_rows": 10}, "max_rows"),
    "too small a capacity": ({"neighbours": "add-remove", "max_rows": 10}, "max_rows"),
    "an unknown relation": ({"neighbours": "friends"}, "neighbours"),
    "dataset without ledger": ({"dataset": "new"}, "ledger"),
    "no ledger": ({"ledger": "l.db"}, "dperm.Ledger"),
}


@pytest.mark.together
@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_say_what_to_do(call):
    options, words = WRONG[call]
    with pytest.raises(InvalidInput, match=words):
        averaged(**options)


def test_models_that_cannot_be_averaged_are_refused():
    with pytest.raises(Unsupported, match="no probabilities"):
        averaged(SVM)
    with pytest.raises(InvalidInput, match="4 classes"):
        averaged(MANY)
    with pytest.raises(InvalidInput, match="regression has none"):
        averaged(REGRESSION, label=1)
    with pytest.raises(Unsupported, match="dict"):
        averaged({})
    with pytest.raises(NotFittedError):
        averaged(PrivateLogisticRegression(classes=[0, 1]))


def test_seeded_noise_is_not_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5)
    with pytest.raises(InvalidInput, match="random_state"):
        averaged(ledger=ledger, random_state=1)


def test_a_large_delta_is_warned_of():
    with pytest.warns(PrivacyWarning, match="delta"):
        averaged(budget=Budget(1.0, 1e-2))


def test_rows_in_shards_are_averaged_under_replace_one_alone(tmp_path):
    from dperm.data import write_shards

    source = write_shards(NEW, None, tmp_path / "shards", y=Y[N:], classes=[0, 1])
    first, again = averaged(random_state=3), averaged(rows=source, random_state=3)
    np.testing.assert_allclose(again.release["numbers"], first.release["numbers"], atol=1e-2)
    with pytest.raises(Unsupported, match="place"):
        averaged(rows=source, neighbours="add-remove", max_rows=2 * N)
