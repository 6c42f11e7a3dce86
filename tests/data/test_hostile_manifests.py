"""Manifests that no conversion writes, with the right digest."""

import json

import numpy as np
import pytest
from shard_cases import SCHEMA, people

from dperm.data import open_shards, write_shards
from dperm.data.folder import Manifest
from dperm.errors import InvalidInput


@pytest.fixture
def folder(tmp_path):
    rows = people(3000).append_column("who", [np.arange(3000)])
    write_shards(rows, {**SCHEMA, "person": "who"}, tmp_path / "shards", rows_per_shard=1024)
    return tmp_path / "shards"


def sealed(told):
    """With the digest that fits."""
    from dperm.strict_json import digest

    return {**told, "digest": digest({key: value for key, value in told.items() if key != "digest"})}


def first_files(told):
    return told["shards"][0]["files"]


CHANGES = {
    "an unknown key": lambda told: told.update(more=1),
    "an unknown key of a shard": lambda told: told["shards"][0].update(more=1),
    "an unknown key of a file": lambda told: next(iter(first_files(told).values())).update(more=1),
    "a truth value for rows": lambda told: told["shards"][0].update(rows=True),
    "a truth value for the version": lambda told: told.update(version=True),
    "files of another shard": lambda told: told["shards"][1].update(files=first_files(told)),
    "a shard twice": lambda told: told["shards"].append(told["shards"][0]),
    "the folder above": lambda told: first_files(told).update({"..": {"bytes": 4096, "sha256": "0" * 64}}),
    "no file of the rows": lambda told: first_files(told).pop("shard-00000.codes.npy"),
    "no sum": lambda told: next(iter(first_files(told).values())).update(sha256=""),
    "a negative size": lambda told: next(iter(first_files(told).values())).update(bytes=-1),
    "persons that are not told of": lambda told: told["rows_as"]["schema"].pop("person"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_nobody_writes_is_refused(folder, change):
    path = folder / "manifest.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps(sealed(told)))
    Manifest.read(folder)
    CHANGES[change](told)
    path.write_text(json.dumps(sealed(told)))
    with pytest.raises(InvalidInput, match="manifest"):
        Manifest.read(folder)


def test_a_key_that_stands_twice_is_refused(folder):
    path = folder / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"version": 1', '"version": 1, "version": 1', 1))
    with pytest.raises(InvalidInput, match="twice"):
        Manifest.read(folder)


def test_more_rows_than_labels_are_found_when_the_rows_are_read(folder):
    path = folder / "manifest.json"
    told = json.loads(path.read_text())
    told["shards"][-1]["rows"] += 5
    path.write_text(json.dumps(sealed(told)))
    with pytest.raises(InvalidInput, match="as many labels or persons as rows"):
        open_shards(folder).load(2)
    with pytest.raises(InvalidInput, match="as many labels or persons as rows"):
        open_shards(folder).persons(2)
