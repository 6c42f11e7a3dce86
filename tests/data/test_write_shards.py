"""Rows of any kind become the same shards: private, whole, and equal to what the schema makes of a table."""

import json
import os
import stat

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pytest
from shard_cases import ROWS, SCHEMA, content, names, people, write_parquet

from dperm import PrivateLogisticRegression
from dperm.data import FolderShards, open_shards, write_shards
from dperm.errors import InvalidInput
from dperm.schema import Schema, encode, encode_target
from dperm.strict_json import digest


def whole(shards):
    parts = [shards.load(k) for k in range(len(shards.sizes))]
    return np.concatenate([np.asarray(X) for X, _ in parts]), np.concatenate([y for _, y in parts])


SOURCES = {
    "parquet folder": lambda place: write_parquet(place / "parts"),
    "parquet file": lambda place: _written(place / "people.parquet"),
    "csv": lambda place: _written(place / "people.csv"),
    "dataset": lambda place: ds.dataset(write_parquet(place / "parts")),
    "table": lambda place: people(),
    "reader": lambda place: people().to_reader(max_chunksize=999),
    "batches": lambda place: iter(people().to_batches(max_chunksize=1)[:0] + people().to_batches(777)),
    "pandas": lambda place: people().to_pandas(),
    "polars": lambda place: pl.from_arrow(people()),
    "frames": lambda place: (people().slice(k, 500).to_pandas() for k in range(0, ROWS, 500)),
    "columns": lambda place: people().to_pydict(),
}


def _written(path):
    if path.suffix == ".csv":
        pa.csv.write_csv(people(), path)
    else:
        pa.parquet.write_table(people(), path, row_group_size=900)
    return path


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_becomes_the_same_rows(name, tmp_path):
    shards = write_shards(SOURCES[name](tmp_path), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    schema = Schema.from_dict(SCHEMA)
    X, y = whole(shards)
    assert shards.sizes == (1024, 1024, 1024, 1024, 904)
    np.testing.assert_allclose(X, encode(people(), schema), atol=1e-6)
    np.testing.assert_array_equal(y, encode_target(people(), schema))
    assert shards.classes == ("no", "yes")
    assert shards.schema == schema.settled()
    again = write_shards(people(), SCHEMA, tmp_path / "again", rows_per_shard=1024)
    assert again.key == shards.key


def test_files_are_private_and_the_manifest_says_all_of_them(tmp_path):
    before = os.umask(0)
    try:
        write_shards(people(), SCHEMA, tmp_path / "new" / "shards", rows_per_shard=2048)
    finally:
        os.umask(before)
    folder = tmp_path / "new" / "shards"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    told = json.loads((folder / "manifest.json").read_text())
    stated = {name for shard in told["shards"] for name in shard["files"]}
    assert stated | {"manifest.json"} == names(folder)


def test_an_empty_folder_of_the_user_is_taken_and_closed_to_others(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    write_shards(people(), SCHEMA, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("bought", lambda n: ["no"] * (n - 1) + ["zyxwv"], "declared classes"),
        ("bought", lambda n: [None] + ["no"] * (n - 1), "declared classes"),
        ("age", lambda n: ["17zyxwv"] * n, "declares numbers"),
        ("town", lambda n: list(range(n)), "declares text"),
    ],
)
def test_a_bad_row_is_told_by_column_and_rule_and_leaves_nothing(column, values, rule, tmp_path):
    good, n = people(), 2000
    bad = pa.table({**good.slice(0, n).to_pydict(), column: values(n)})
    with pytest.raises(InvalidInput, match=rule) as caught:
        write_shards(iter([good, bad]), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    assert column in str(caught.value)
    assert not (tmp_path / "shards").exists()
    error = caught.value
    while error is not None:
        assert "zyxwv" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("line", ["51,north,1,2,3,no", "zyxwv,north,1,no"])
def test_a_bad_line_of_a_csv_file_is_not_quoted(line, tmp_path):
    path = _written(tmp_path / "people.csv")
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(
        InvalidInput, match="a row does not fit|column 'age' is declared as numbers"
    ) as caught:
        write_shards(path, SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "zyxwv" not in str(caught.value)
    assert not (tmp_path / "shards").exists()


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="'town'"):
        write_shards(people().drop_columns(["town"]), SCHEMA, tmp_path / "shards")
    source = ds.dataset(people().drop_columns(["town"]))
    with pytest.raises(InvalidInput, match="'town'"):
        write_shards(source, SCHEMA, tmp_path / "shards")


def test_a_folder_with_anything_else_in_it_is_refused(tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards")
    before = content(tmp_path / "shards")
    with pytest.raises(InvalidInput, match="finished shards already"):
        write_shards(people(), SCHEMA, tmp_path / "shards")
    assert content(tmp_path / "shards") == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="other files"):
        write_shards(people(), SCHEMA, tmp_path / "other")
    assert names(tmp_path / "other") == {"notes.txt"}


def test_a_changed_shard_is_noticed(tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    path = tmp_path / "shards" / "shard-00001.codes.npy"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    FolderShards(tmp_path / "shards")  # of the same size
    with pytest.raises(InvalidInput, match=r"shard-00001\.codes\.npy was changed"):
        open_shards(tmp_path / "shards", check=True)
    path.write_bytes(data[:-1])
    with pytest.raises(InvalidInput, match="size"):
        open_shards(tmp_path / "shards")
    path.unlink()
    with pytest.raises(InvalidInput, match="missing"):
        open_shards(tmp_path / "shards")


def test_codes_that_the_schema_does_not_know_are_never_used_as_places(tmp_path):
    """A kernel would read outside its tables."""
    shards = write_shards(people(), SCHEMA, tmp_path / "shards")
    path = tmp_path / "shards" / "shard-00000.codes.npy"
    codes = np.load(path)
    codes[3, 0, 5] = 60_000
    np.save(path, codes)
    with pytest.raises(InvalidInput, match="codes"):
        PrivateLogisticRegression().fit(shards)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["shards"].pop(),
        lambda told: told["shards"][0].update(rows=7),
        lambda told: told["shards"][0]["files"].update({"../secret.npy": {"bytes": 1, "sha256": ""}}),
        lambda told: told.update(version=99),
        lambda told: told["rows_as"].update(kind="unheard of"),
        lambda told: told["rows_as"]["schema"]["features"]["age"].update(range=[0, 1]),
        lambda told: told.update(shards=3),
        lambda told: told.clear(),
    ],
)
def test_a_changed_manifest_is_refused(change, tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    path = tmp_path / "shards" / "manifest.json"
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told))
    with pytest.raises(InvalidInput, match="manifest|version|kind"):
        open_shards(tmp_path / "shards")
    path.write_text("{")
    with pytest.raises(InvalidInput, match="manifest"):
        open_shards(tmp_path / "shards")


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["shards"][0].update(rows=7),
        lambda told: told["shards"][0]["files"].clear(),
        lambda told: told["shards"][0]["files"].update({"../secret.npy": {"bytes": 1, "sha256": ""}}),
        lambda told: told["rows_as"].pop("schema"),
        lambda told: told["rows_as"].pop("layout"),
        lambda told: told["rows_as"].update(schema=[]),
        lambda told: told.update(rows_as=3),
        lambda told: told["rows_as"]["schema"]["features"].update(more={"categories": ["a", "b"]}),
    ],
)
def test_a_manifest_that_was_made_up_is_refused_with_all_its_sums_right(change, tmp_path):
    write_shards(people(), SCHEMA, tmp_path / "shards", rows_per_shard=1024)
    path = tmp_path / "shards" / "manifest.json"
    told = json.loads(path.read_text())
    told.pop("digest")
    change(told)
    path.write_text(json.dumps({**told, "digest": digest(told)}))
    with pytest.raises(InvalidInput):
        PrivateLogisticRegression().fit(tmp_path / "shards")


def test_a_folder_without_a_manifest_is_no_data_set(tmp_path):
    with pytest.raises(InvalidInput, match="no finished shards"):
        open_shards(tmp_path)


def test_progress_tells_rows_and_the_total_where_it_is_known(tmp_path):
    seen = []
    write_shards(
        write_parquet(tmp_path / "parts"), SCHEMA, tmp_path / "a", progress=lambda *told: seen.append(told)
    )
    assert seen[-1] == (ROWS, ROWS)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    seen.clear()
    write_shards(
        iter(people().to_batches(2000)), SCHEMA, tmp_path / "b", progress=lambda *told: seen.append(told)
    )
    assert seen[-1] == (ROWS, None)


def numbers(n=3000, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), rng.choice(["a", "b"], n)


def test_numbers_without_a_schema_are_kept_as_they_are(tmp_path):
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(label=y)
    found = [
        write_shards(X, None, tmp_path / "0", y=y, classes=["a", "b"], rows_per_shard=1024),
        write_shards([(X[:5], y[:5]), (X[5:], y[5:])], None, tmp_path / "1", classes=["a", "b"]),
        write_shards(frame, None, tmp_path / "2", y="label", classes=["a", "b"]),
        write_shards(X, None, tmp_path / "3"),
    ]
    for shards in found[:3]:
        rows, labels = whole(shards)
        np.testing.assert_array_equal(rows, X.astype(np.float32))
        np.testing.assert_array_equal(labels, y)
    assert isinstance(found[0].load(0)[0], np.memmap)
    assert found[2].feature_names == tuple("pqrs")
    assert not found[3].has_labels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.zeros(7)}, "one label"),
        ({"y": np.zeros(3000), "classes": [1, 2]}, "outside classes"),
        ({"y": np.full(3000, np.nan)}, "finite numbers"),
        ({"y": numbers()[1]}, "declare classes"),
        ({"rows_per_shard": 0}, "rows_per_shard"),
    ],
)
def test_labels_and_sizes_that_do_not_fit_are_refused(arguments, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        write_shards(numbers()[0], None, tmp_path / "shards", **arguments)
    assert not (tmp_path / "shards").exists()


def test_missing_numbers_are_told_by_their_column(tmp_path):
    frame = pd.DataFrame({"p": [1.0, 2.0], "q": [3.0, np.nan], "label": [0, 1]})
    with pytest.raises(InvalidInput, match="1 of its 2 columns: 'q'"):
        write_shards(frame, None, tmp_path / "shards", y="label")
    with pytest.raises(InvalidInput, match="no column named 'z'"):
        write_shards(frame, None, tmp_path / "shards", y="z")
