"""What happens before a row is read, and what becomes of a charge when rows are refused: in fit, search and command."""

import os
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dperm import (
    Ledger,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.ledger.ledger import REDACTED
from dperm.mechanisms import resolve

rng = np.random.default_rng(2)
X = rng.normal(size=(120, 3)) / 2
Y = (X[:, 0] > 0).astype(int)
SCHEMA = (
    '[target]\nname = "retired"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\nspline = 0\n'
)


@pytest.fixture
def strict(path):
    return Ledger.create(path, epsilon=1.0, delta=1e-6, strict=True)


class Watched:
    """Rows that tell their shape, and note what the ledger holds whenever somebody looks at a value."""

    def __init__(self, values, path, seen):
        self.values, self.path, self.seen = values, path, seen
        self.shape = values.shape

    def __array__(self, dtype=None, copy=None):
        self.seen.append([entry.status for entry in Ledger(self.path).entries()])
        return np.asarray(self.values, dtype=dtype)

    def __iter__(self):
        raise AssertionError("rows were gone through one by one")

    def __getitem__(self, item):
        raise AssertionError("a row was taken out")


def classifier(ledger=None, **settings):
    return PrivateLogisticRegression(
        **{"mechanism": "output", "classes": [0, 1], "epsilon": 0.5, "ledger": ledger, **settings}
    )


def regression(ledger):
    return PrivateLinearRegression(mechanism="output", y_range=(0, 1), epsilon=0.5, ledger=ledger)


def search(ledger, estimator=None, **settings):
    estimator = classifier() if estimator is None else estimator
    return PrivateSearchCV(estimator, {"l2": [0.1, 1.0]}, epsilon=0.5, delta=1e-6, ledger=ledger, **settings)


def refitting(ledger):
    return search(ledger, refit_share=0.3)


def with_public_rows(ledger):
    return search(ledger, public_data=(X[:60], Y[:60]), cv=2)


FITS = [classifier, regression, search, refitting, with_public_rows]


# The charge comes first.


@pytest.mark.parametrize("kind", FITS)
def test_the_charge_is_on_disk_when_a_value_is_first_looked_at(path, ledger, kind):
    seen_rows, seen_targets = [], []
    kind(ledger).fit(Watched(X, path, seen_rows), Watched(Y, path, seen_targets))
    assert seen_rows[0] == seen_targets[0] == ["open"]
    assert [entry.status for entry in ledger.entries()] == ["spent"]


@pytest.mark.parametrize("kind", FITS)
def test_without_a_ledger_the_watch_sees_a_table_that_nobody_paid_for(path, ledger, kind):
    """The control: rows are looked at, and the watch tells that no charge was there."""
    seen = []
    kind(None).fit(Watched(X, path, seen), Watched(Y, path, seen))
    assert seen[0] == []


def test_lists_are_measured_and_not_read(path, ledger):
    seen = []

    class Row(list):
        def __iter__(self):
            seen.append([entry.status for entry in Ledger(path).entries()])
            return super().__iter__()

    classifier(ledger).fit([Row(row) for row in X.tolist()], Y.tolist())
    assert seen[0] == ["open"]
    assert [entry.status for entry in ledger.entries()] == ["spent"]


def test_what_does_not_tell_its_shape_is_refused_before_the_charge(ledger):
    class Shapeless:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("the rows were read")

    with pytest.raises(InvalidInput, match="tell its shape"):
        classifier(ledger).fit(Shapeless(), Y)
    assert ledger.entries() == []


@pytest.mark.parametrize("shape", [(120,), (120, 0), (0, 3), (120, 3, 1)])
def test_a_wrong_shape_is_refused_before_the_charge_and_unread(path, ledger, shape):
    seen = []
    for kind in (classifier, search):
        with pytest.raises(ValueError, match="Expected|minimum|dim 3|inconsistent lengths"):
            kind(ledger).fit(Watched(np.zeros(shape), path, seen), Watched(Y, path, seen))
    assert (seen, ledger.entries()) == ([], [])


def test_rows_that_change_their_shape_are_refused(path, ledger):
    for kind in (classifier, search):
        rows, labels = Watched(X, path, []), Watched(Y, path, [])
        rows.shape, labels.shape = (100, 3), (100,)
        with pytest.raises(InvalidInput, match="another shape"):
            kind(ledger).fit(rows, labels)
    assert [entry.status for entry in ledger.entries()] == ["void", "void"]


@pytest.mark.parametrize("kind", [classifier, search, refitting, with_public_rows])
def test_targets_of_another_number_are_refused_before_the_charge(path, strict, kind):
    seen = []
    with pytest.raises(InvalidInput, match="inconsistent lengths"):
        kind(strict).fit(Watched(X, path, seen), Watched(Y[:-1], path, seen))
    assert (seen, strict.entries()) == ([], [])


def test_more_rows_than_max_rows_are_found_after_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "hidden.db", epsilon=1.0, delta=1e-6, neighbours="add-remove")
    hidden = {"neighbours": "add-remove", "max_rows": 100}
    for fit in (classifier(ledger, **hidden), search(ledger, classifier(**hidden))):
        with pytest.raises(InvalidInput):
            fit.fit(X, Y)
    assert [entry.status for entry in ledger.entries()] == ["void", "void"]


@pytest.mark.parametrize("kind", [lambda ledger: classifier(ledger, classes=None), None])
def test_labels_are_declared_and_not_looked_for(path, ledger, kind):
    fit = search(ledger, classifier(classes=None)) if kind is None else kind(ledger)
    seen = []
    with pytest.raises(InvalidInput, match="declare classes="):
        fit.fit(Watched(X, path, seen), Watched(Y, path, seen))
    assert (seen, ledger.entries()) == ([], [])


# Seeds.


@pytest.mark.cover(1)
@pytest.mark.parametrize("seed", [0, np.random.default_rng(1), np.random.RandomState(2)])
@pytest.mark.parametrize("kind", FITS)
def test_a_seeded_fit_is_refused_and_not_charged(path, ledger, kind, seed):
    seen = []
    with pytest.raises(InvalidInput, match="random_state makes the noise predictable"):
        kind(ledger).set_params(random_state=seed).fit(Watched(X, path, seen), Watched(Y, path, seen))
    assert (seen, ledger.entries()) == ([], [])


# Errors about rows.

MISSING = np.where(np.arange(360).reshape(120, 3) == 5, np.nan, X)
WRONG = [
    (MISSING, Y),
    (X, np.where(Y == 1, 7, 0)),
    (X.astype(complex), Y),
    (X.astype(str) + "x", Y),
]


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [classifier, search, refitting, with_public_rows])
@pytest.mark.parametrize(("rows", "labels"), WRONG)
def test_rows_of_a_wrong_form_cost_nothing(ledger, kind, rows, labels):
    with pytest.raises(ValueError) as caught:
        kind(ledger).fit(rows, labels)
    assert str(caught.value) != REDACTED
    assert [entry.status for entry in ledger.entries()] == ["void"]
    assert ledger.spent() == 0.0


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [classifier, search, with_public_rows])
@pytest.mark.parametrize(("rows", "labels"), WRONG)
def test_a_strict_ledger_tells_nothing_about_rows(strict, kind, rows, labels):
    with pytest.raises(InvalidInput) as caught:
        kind(strict).fit(rows, labels)
    error = caught.value
    assert (type(error), str(error), error.__cause__, error.__context__) == (
        InvalidInput,
        REDACTED,
        None,
        None,
    )
    assert [entry.status for entry in strict.entries()] == ["spent"]
    assert strict.spent() == pytest.approx(0.5, rel=1e-3)


def test_a_strict_ledger_hides_a_training_that_fails(strict, monkeypatch):
    def broken(self, jobs, table, entropy):
        raise RuntimeError("row 7 is odd")

    monkeypatch.setattr(type(resolve("output")), "run", broken)
    with pytest.raises(InvalidInput) as caught:
        classifier(strict).fit(X, Y)
    assert str(caught.value) == REDACTED
    assert "odd" not in "".join(traceback.format_exception(caught.value))
    assert [entry.status for entry in strict.entries()] == ["spent"]


# The command.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("people.toml").write_text(SCHEMA)
    write("people.csv", "age,retired\n" + "30,no\n70,yes\n" * 60)
    pq.write_table(pa.table({"age": [30.0, 70.0] * 60, "retired": ["no", "yes"] * 60}), "people.parquet")
    return tmp_path


def write(name, text):
    Path(name).write_text(text)
    return name


def fit(data, *more, output="model.json"):
    words = ["--epsilon", "0.5", "--delta", "1e-6", "--mechanism", "output", "--ledger", "budget.db"]
    return run(["fit", data, "--schema", "people.toml", *words, "--output", str(output), *more])


@pytest.mark.parametrize(
    ("data", "module", "reader"),
    [("people.csv", pyarrow.csv, "read_csv"), ("people.parquet", pq.ParquetFile, "read")],
)
@pytest.mark.usefixtures("folder")
def test_the_command_reads_no_cell_before_the_charge(path, ledger, monkeypatch, data, module, reader):
    seen, read = [], getattr(module, reader)

    def watched(*args, **options):
        seen.append([entry.status for entry in Ledger(path).entries()])
        return read(*args, **options)

    monkeypatch.setattr(module, reader, watched)
    assert fit(data) == 0
    assert seen == [["open"]]
    assert [entry.status for entry in ledger.entries()] == ["spent"]


HEADER = "age,retired\n"
BAD_ROWS = [
    HEADER + "30,no\nthirty,yes\n",
    HEADER + "30,no\n70,perhaps\n",
    HEADER + "30,no\n70,\n",
    HEADER + "30,no\n70,yes,1\n",
]


@pytest.mark.parametrize("text", BAD_ROWS)
@pytest.mark.usefixtures("folder")
def test_the_command_voids_a_charge_for_rows_of_a_wrong_form(ledger, capsys, text):
    assert fit(write("bad.csv", text)) == 1
    assert REDACTED not in capsys.readouterr().err
    assert [entry.status for entry in ledger.entries()] == ["void"]


@pytest.mark.usefixtures("folder", "strict")
def test_the_command_says_one_thing_to_operators_who_are_not_trusted(path, capsys):
    said = set()
    for text in BAD_ROWS:
        assert fit(write("bad.csv", text)) == 1
        said.add(capsys.readouterr().err)
        path.unlink()
        Ledger.create(path, epsilon=1.0, delta=1e-6, strict=True)
    assert said == {f"Training on bad: 2 rows, 1 features.\ndperm: {REDACTED}\n"}


@pytest.mark.usefixtures("folder")
def test_the_command_finds_what_is_public_before_the_charge(ledger):
    assert fit(write("empty.csv", HEADER)) == 1
    assert fit(write("names.csv", "age,pension\n30,no\n")) == 1
    assert fit("none.csv") == 1
    assert ledger.entries() == []


@pytest.mark.usefixtures("folder")
def test_rows_are_counted_as_they_are_read(ledger, capsys):
    text = 'age,note,retired\r\n30,"two\nlines, ""quoted""",no\r\n\r\n' + "70,x,yes\r\n" * 3
    assert fit(write("quoted.csv", text)) == 0
    assert "4 rows" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_file_that_grows_is_refused(ledger, monkeypatch, capsys):
    read = pyarrow.csv.read_csv

    def later(*args, **options):
        with open("people.csv", "a") as file:
            file.write("40,no\n")
        return read(*args, **options)

    monkeypatch.setattr(pyarrow.csv, "read_csv", later)
    assert fit("people.csv") == 1
    assert "120 rows were counted and 121 read" in capsys.readouterr().err
    assert [entry.status for entry in ledger.entries()] == ["void"]


# The output.


def unwritable(folder):
    yield folder / ("m" * 300 + ".json"), ()
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
        yield folder / "pipe", ("--force",)  # as any device: never replaced by a file
    if Path("/proc").is_dir():  # a folder in which nobody, not even root, can make a file
        yield Path("/proc/model.json"), ()


def test_what_cannot_be_written_is_not_paid_for(folder, ledger, capsys):
    for output, more in unwritable(folder):
        before = sorted(folder.iterdir())
        assert fit("people.csv", *more, output=output) == 1
        assert "dperm: " in capsys.readouterr().err
        assert sorted(folder.iterdir()) == before
    assert ledger.entries() == []


def test_a_file_that_appears_during_the_fit_costs_no_model(folder, ledger, monkeypatch, capsys):
    read = pyarrow.csv.read_csv

    def later(*args, **options):
        Path("model.json").write_text("mine")
        return read(*args, **options)

    monkeypatch.setattr(pyarrow.csv, "read_csv", later)
    assert fit("people.csv") == 0
    assert Path("model.json").read_text() == "mine"
    (saved,) = folder.glob("model-*.json")
    assert f"Saved to {saved.name}" in capsys.readouterr().err
    assert run(["ledger", "check", "budget.db", "--model", str(saved)]) == 0
