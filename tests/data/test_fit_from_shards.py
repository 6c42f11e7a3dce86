"""A model from a folder, a dataset or a memory map is the model that the same rows give in memory."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from shard_cases import ROWS, SCHEMA, people, write_parquet
from sklearn.pipeline import make_pipeline

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder
from dperm.cli.app import run
from dperm.data import FolderShards, converted, open_shards, write_shards
from dperm.engine import MappedRows, Table
from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.row_map import RowMap
from dperm.schema import Schema, encode_codes, encode_target

MECHANISMS = ("auto", "dp-gd", "rsgd-ar", "ssp")
FACTS = {"epsilon": 1.0, "delta": 1e-5, "random_state": 7}


def model(mechanism="auto", **more):
    return PrivateLogisticRegression(mechanism=mechanism, **{**FACTS, **more})


def agree(first, second, tolerance):
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(first.intercept_, second.intercept_, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def rows():
    schema = Schema.from_dict(SCHEMA)
    return encode_codes(people(), schema), encode_target(people(), schema)


@pytest.mark.parametrize("mechanism", ["auto", "dp-gd"])
@pytest.mark.parametrize("size", [1024, 2 * ROWS])
def test_a_folder_gives_the_model_of_the_table(mechanism, size, rows, tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=size)
    from_folder = model(mechanism).fit(str(tmp_path / "shards"))
    in_memory = model(mechanism, classes=["no", "yes"]).fit(*rows)
    agree(from_folder, in_memory, 1e-9)
    assert from_folder.classes_.tolist() == ["no", "yes"]
    assert (
        from_folder.privacy_.statement["targets"]["origin"]
        == in_memory.privacy_.statement["targets"]["origin"]
    )
    other = model(mechanism, classes=["no", "yes"], random_state=8).fit(*rows)
    assert np.abs(from_folder.coef_ - other.coef_).max() > 1e-3  # the comparison can fail
    np.testing.assert_allclose(
        from_folder.decision_function(tmp_path / "shards"), in_memory.decision_function(rows[0]), atol=1e-9
    )
    assert from_folder.score(tmp_path / "shards") == in_memory.score(*rows)


def test_secret_batches_of_a_folder_are_drawn_and_certified(tmp_path):
    shards = write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    fitted = model("rsgd-ar", random_state=None).fit(shards)
    assert fitted.privacy_.guarantee is not None
    again = [model("rsgd-ar").fit(shards).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_a_released_model_from_a_folder_is_certified(tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    fitted = model(random_state=None).fit(tmp_path / "shards")
    assert fitted.privacy_.guarantee is not None


def test_a_folder_goes_to_other_processes_by_its_name(tmp_path):
    shards = write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    sent = pickle.loads(pickle.dumps(shards))
    assert (sent.key, sent.sizes) == (shards.key, shards.sizes)
    assert len(pickle.dumps(shards)) < 1000


def test_numbers_in_a_folder_and_y_apart(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 5)) / 3, rng.integers(0, 2, 3000)
    shards = write_shards(X, None, tmp_path / "shards", rows_per_shard=1024)
    found = model("dp-gd", classes=[0, 1]).fit(shards, y)
    agree(found, model("dp-gd", classes=[0, 1]).fit(X.astype(np.float32), y), 1e-5)


def test_targets_that_are_numbers(tmp_path):
    schema = {**SCHEMA, "target": {"name": "income", "range": [0, 1e6]}}
    schema["features"] = {name: about for name, about in SCHEMA["features"].items() if name != "income"}
    write_shards(people(), schema, tmp_path / "shards", rows_per_shard=1024)
    facts = {**FACTS, "y_range": (0.0, 1e5)}
    found = PrivateLinearRegression(**facts).fit(tmp_path / "shards")
    declared = Schema.from_dict(schema)
    known = PrivateLinearRegression(**facts).fit(
        encode_codes(people(), declared), encode_target(people(), declared)
    )
    np.testing.assert_allclose(found.coef_, known.coef_, rtol=1e-7)


def test_a_dataset_in_a_pipeline_is_converted_while_it_is_fitted_and_nothing_is_left(
    tmp_path, rows, monkeypatch
):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    dataset = ds.dataset(write_parquet(tmp_path / "parts"))
    pipeline = make_pipeline(PublicEncoder(SCHEMA), model()).fit(dataset)
    agree(pipeline[-1], model(classes=["no", "yes"]).fit(*rows), 1e-9)
    del pipeline
    assert list(place.iterdir()) == []
    source = open_shards(dataset, SCHEMA)
    agree(model().fit(source), model(classes=["no", "yes"]).fit(*rows), 1e-9)
    source.close()
    assert list(place.iterdir()) == []
    with pytest.raises(InvalidInput, match="closed"):
        source.load(0)


def test_a_dataset_of_numbers_with_the_name_of_its_labels(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)).astype(np.float32) / 3, rng.integers(0, 2, 3000)
    pq.write_table(
        pa.table({**dict(zip("pqrs", X.T, strict=True)), "label": y}), tmp_path / "numbers.parquet"
    )
    dataset = ds.dataset(tmp_path / "numbers.parquet")
    found = model("dp-gd", classes=[0, 1]).fit(dataset, "label")
    agree(found, model("dp-gd", classes=[0, 1]).fit(X, y), 1e-5)
    assert found.feature_names_in_.tolist() == list("pqrs")
    with pytest.raises(InvalidInput, match="name of its column"):
        model().fit(dataset, y)
    with pytest.raises(InvalidInput, match="declares numbers"):
        model("dp-gd", classes=["no", "yes"]).fit(ds.dataset(people()), "bought")


def test_a_ledger_is_charged_before_a_dataset_is_read(tmp_path, monkeypatch):
    bad = pa.table({**people().to_pydict(), "bought": ["zyxwv"] * ROWS})
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=2, delta=1e-4)
    charged, real = [], converted.write_feed

    def watched(*arguments):
        charged.append(len(ledger.entries()))
        return real(*arguments)

    monkeypatch.setattr(converted, "write_feed", watched)
    with pytest.raises(InvalidInput, match="declared classes") as caught:
        make_pipeline(PublicEncoder(SCHEMA), model(random_state=None, ledger=ledger)).fit(ds.dataset(bad))
    assert "zyxwv" not in str(caught.value)
    assert charged == [1]


def mapped(X, folder):
    np.save(Path(folder, "X.npy"), X)
    return np.load(Path(folder, "X.npy"), mmap_mode="r")


@pytest.mark.cover(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_memory_map_gives_the_model_of_the_array(mechanism, dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(3000, 6)) / (0.01 if dtype == np.int16 else 3)).astype(dtype)
    y = (X @ rng.normal(size=6) > 0).astype(int)
    x_norm = 300.0 if dtype == np.int16 else 1.0
    found = model(mechanism, x_norm=x_norm).fit(mapped(X, tmp_path), y)
    known = model(mechanism, x_norm=x_norm).fit(X, y)
    scale = np.abs(known.coef_).max()
    assert np.abs(found.coef_ - known.coef_).max() <= 1e-4 * scale
    np.testing.assert_allclose(
        found.decision_function(mapped(X, tmp_path)), found.decision_function(X), rtol=1e-6, atol=1e-6
    )


def test_a_released_model_from_a_memory_map_is_certified(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)) / 3
    fitted = model(random_state=None).fit(mapped(X, tmp_path), (X[:, 0] > 0).astype(int))
    assert fitted.privacy_.guarantee is not None


def test_opening_a_memory_map_copies_none_of_it(tmp_path):
    X = mapped(np.random.default_rng(0).normal(size=(4000, 50)), tmp_path)
    row_map = RowMap(x_norm=1.0, intercept=0.3, centre=np.full(50, 0.1), scale=np.full(50, 2.0))
    opened = MappedRows(X, np.ones(4000), row_map=row_map, n_rows=4000).open()
    assert np.shares_memory(opened._rows.X, X)
    assert opened.sample([_Some()])._rows.X is opened._rows.X


class _Some:
    def positions(self, n_rows):
        return np.arange(0, n_rows, 7)


@pytest.mark.together
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_numbers_that_cannot_be_bounded_are_refused(value, tmp_path):
    X = np.zeros((50, 3))
    X[7, 1] = value
    with pytest.raises(InvalidInput, match=r"NaN, infinity or numbers above") as caught:
        model("dp-gd").fit(mapped(X, tmp_path), np.arange(50) % 2)
    assert "39" not in str(caught.value)


def test_a_centre_too_far_away_is_stated_and_farther_ones_are_refused(tmp_path, monkeypatch):
    X, y = mapped(np.zeros((500, 3)), tmp_path), np.ones(500)
    planned = Table(X, y, row_map=RowMap(x_norm=1.0), n_rows=500).open(precise=True).arithmetic(1)

    def opened(distance):
        row_map = RowMap(x_norm=1.0, centre=np.array([distance, 0, 0]), scale=np.ones(3))
        return MappedRows(X, y, row_map=row_map, n_rows=500).open(precise=True)

    assert opened(20.0).arithmetic(1).within(planned)  # few enough to be copied
    monkeypatch.setattr("dperm.engine.dense.mapped_rows._COPIED_AT_MOST", 0)
    assert not opened(20.0).arithmetic(1).within(planned)
    opened(20.0).gradient_sum(Logistic(), np.ones((3, 1)))
    with pytest.raises(InvalidInput, match="centre"):
        opened(1e4)


def test_only_the_block_of_a_changed_row_changes(tmp_path):
    """Bit for bit: sums over all other rows are the same in both runs."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 20)), np.where(rng.random(5000) < 0.5, -1.0, 1.0)
    other = X.copy()
    other[1234] *= -3
    row_map = RowMap(
        x_norm=1.0, intercept=0.3, centre=rng.normal(size=20) / 10, scale=rng.uniform(0.5, 2, 20)
    )
    W = rng.normal(size=(21, 1))
    runs = []
    for number, rows in enumerate((X, other)):
        (tmp_path / str(number)).mkdir()
        there = MappedRows(mapped(rows, tmp_path / str(number)), y, row_map=row_map, n_rows=5000).open()
        batches = there.batches(np.full((50, 1), 100))
        runs.append([there.gradient_sum(Logistic(), W, batch=batches.only(k)).tobytes() for k in range(50)])
    changed = [k for k in range(50) if runs[0][k] != runs[1][k]]
    assert changed == [12]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(Schema.from_dict(SCHEMA).to_toml())
    write_parquet(tmp_path / "parts")
    return tmp_path


FIT = ["--epsilon", "1", "--delta", "1e-5", "--output", "model.json", "--json"]


def test_convert_fit_and_verify_from_the_command_line(place, capsys):
    convert = ["convert", "parts", "--schema", "people.toml", "--out", "shards", "--rows-per-shard", "1024"]
    assert run([*convert, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["shards"], told["checked"]) == (ROWS, 5, False)
    assert run(["convert", "shards", "--check"]) == 0
    assert "every checksum agrees" in capsys.readouterr().out
    assert run(["fit", "shards", *FIT]) == 0
    assert run(["verify", "model.json", "--max-epsilon", "1"]) == 0
    pq.write_table(people(50), "new.parquet")
    assert run(["predict", "model.json", "new.parquet"]) == 0
    capsys.readouterr()
    assert run(["fit", "shards", "--schema", "people.toml", *FIT, "--force"]) == 2
    assert "leave out --schema" in capsys.readouterr().err
    path = place / "shards" / "shard-00002.labels.npy"
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    assert run(["convert", "shards", "--check"]) == 1
    assert "shard-00002.labels.npy" in capsys.readouterr().err
    assert run(["convert", "parts", "--schema", "people.toml"]) == 2
    assert run(["convert", "adult", "--out", "adult.shards"]) == 0


def test_large_files_and_folders_of_parquet_are_fitted_through_shards(place, capsys, monkeypatch):
    assert run(["fit", "parts", "--schema", "people.toml", *FIT]) == 0
    assert "in shards" in capsys.readouterr().err
    monkeypatch.setattr("dperm.cli.data.MANY_CELLS", 100)
    pq.write_table(people(), "people.parquet")
    more = ["--neighbours", "add-remove", "--max-rows", "9000", "--force"]
    assert run(["fit", "people.parquet", "--schema", "people.toml", *FIT, *more]) == 0
    said = capsys.readouterr().err
    assert "at most 9,000 rows" in said
    assert "in shards" in said
    assert f"{ROWS:,}" not in said


def test_other_folders_are_refused_in_words(place, capsys):
    os.mkdir("nothing")
    assert run(["convert", "nothing", "--check"]) == 1
    assert "no finished shards" in capsys.readouterr().err
    assert run(["convert", "nothing", "--schema", "people.toml", "--out", "shards"]) == 1
    assert "holds no .parquet files" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="no finished shards"):
        FolderShards("nothing")
