"""Files that an older version wrote load and verify; they cannot pass for what they are not."""

import json
from pathlib import Path

import numpy as np
import pytest

from dperm import PublicEncoder, load_model, save_model, verify
from dperm.certificate.statement import file_digest, model_digest
from dperm.errors import InvalidInput
from dperm.models import read_document, read_model
from dperm.row_map import RowMap
from dperm.strict_json import digest

FILES = Path(__file__).parent / "files"
PLAIN = [
    "classifier-3.json",
    "regression-3.json",
    "classifier-4.json",
    "classifier-5.json",
    "regression-5.json",
]
STANDARDISED = ["standardised-5.json"]
CENTRED = ["centred-3.json", "centred-4.json"]
NAMES = [*PLAIN, *CENTRED]
ROWS = np.random.default_rng(0).normal(size=(40, 3)) / 6
ROWS_THEN = [[8.0, -1.0, 2.0], [0.1, 0.2, 0.3], [-3.0, 4.0, 0.5]]
MARGINS_THEN = [2.9614907956432135, -0.23756959491728535, -2.665739977599924]


@pytest.mark.parametrize("name", PLAIN)
def test_an_older_file_loads_and_verifies(name):
    document = read_document(FILES / name)
    version = int(name[-6])
    assert (document["version"], document["certificate"]["version"]) == (version, version - 1)
    assert verify(FILES / name).ok
    model = load_model(FILES / name)
    assert model.row_map_ == RowMap(x_norm=model.x_norm, intercept=0.3 * model.x_norm)
    assert "standardisation" not in str(model.privacy_)


@pytest.mark.parametrize("name", [*PLAIN, *STANDARDISED])
def test_an_older_file_is_judged_by_the_rounding_of_its_time(name):
    """A sensitivity as it would be stated today is not what such a plan stated."""
    assert verify(FILES / name).ok
    document = read_document(FILES / name)
    for release in document["certificate"]["releases"]:
        release["sensitivity"] *= 1.001
    assert not verify(resealed(document)).accepted


@pytest.mark.parametrize("name", CENTRED)
def test_rows_that_were_centred_are_neither_right_nor_wrong_by_this_version(name):
    verdict = verify(FILES / name)
    assert not verdict.ok
    (failure,) = verdict.failures
    assert failure.startswith("version: rows were centred")
    assert "with the version that wrote it" in failure
    assert verdict.guarantee is None
    model = load_model(FILES / name)
    assert model.mechanism.standardise == "linear"  # what fitting it again would do
    assert "mean of the rows, noise scale" in str(model.privacy_)
    assert not model.row_map_.linear


def test_a_centred_model_still_predicts_through_its_own_map():
    document, model = read_document(FILES / "centred-4.json"), load_model(FILES / "centred-4.json")
    assert model.row_map_.centre.tolist() == document["row_map"]["centre"]
    assert set(model.row_map_.scale) == {0.6}
    rows = np.array(ROWS_THEN)
    np.testing.assert_array_equal(model.decision_function(rows), MARGINS_THEN)


@pytest.mark.cover(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("centring", [{"share": 0.15}, {"share": 0.15, "radius": 0.6, "mu": "1"}, 3])
def test_a_centring_of_another_form_is_refused(name, centring, tmp_path):
    document = read_document(FILES / name)
    document["certificate"]["centring"] = centring
    assert not verify(resealed(document)).accepted
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput):
        load_model(path)


@pytest.mark.parametrize("name", CENTRED)
def test_a_centring_cannot_be_hidden_by_leaving_it_out(name):
    """Nobody pays for the mean then: its release is in no price."""
    document = read_document(FILES / name)
    document["certificate"]["centring"] = None
    verdict = verify(resealed(document))
    assert not verdict.accepted
    for part in (
        document["certificate"]["mechanism"]["asked"],
        document["certificate"]["mechanism"]["chosen"],
    ):
        part["settings"]["center"] = False
    document["certificate"]["mechanism"]["used"]["center"] = False
    document["parameters"]["mechanism"]["settings"]["center"] = False
    if "row_map" in document:
        document["row_map"].update(centre=None, scale=None)
    assert not verify(resealed(document)).accepted


@pytest.mark.parametrize("name", [*PLAIN, "centred-3.json"])
def test_its_short_rows_are_predicted_as_they_were(name):
    document, model = read_document(FILES / name), load_model(FILES / name)
    margins = model.predict(ROWS) if name.startswith("regression") else model.decision_function(ROWS)
    expected = ROWS @ np.array(document["coefficients"]).T + np.array(document["intercept"])
    np.testing.assert_allclose(margins, expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_saved_again_as_what_it_is(name, tmp_path):
    model, schema = read_model(FILES / name)
    save_model(model, tmp_path / "m.json", schema=schema)
    assert json.loads((tmp_path / "m.json").read_text()) == json.loads((FILES / name).read_text())


def test_it_cannot_be_saved_in_a_form_that_its_certificate_does_not_bind(tmp_path):
    from sklearn.pipeline import make_pipeline

    model, schema = read_model(FILES / "classifier-3.json")
    with pytest.raises(InvalidInput, match="older file"):
        save_model(make_pipeline(PublicEncoder(schema), model), tmp_path / "m.json")


def resealed(document):
    certificate = {key: value for key, value in document["certificate"].items() if key != "digest"}
    certificate["model"] = {
        **certificate["model"],
        "sha256": model_digest(document, certificate["version"]),
    }
    document["certificate"] = {**certificate, "digest": digest(certificate)}
    document["digest"] = file_digest(document)
    return document


def test_versions_of_file_and_certificate_go_together(tmp_path):
    path = tmp_path / "m.json"
    document = read_document(FILES / "classifier-3.json")
    document["certificate"]["version"] = 3
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="version 3 holds a certificate of version 2"):
        load_model(path)
    assert not verify(document).accepted  # and there is no map that a newer certificate would be about
    document = read_document(FILES / "classifier-3.json")
    document |= {"version": 5, "row_map": None, "pipeline": None}
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="version 5 holds a certificate of version 4"):
        load_model(path)


def test_the_tool_of_these_tests_makes_files_that_pass():
    assert verify(resealed(read_document(FILES / "classifier-3.json"))).ok


def test_a_file_whose_classes_are_not_sorted_is_refused(tmp_path):
    document = read_document(FILES / "classifier-3.json")
    document["classes"] = document["classes"][::-1]
    path = tmp_path / "unsorted.json"
    path.write_text(json.dumps(resealed(document)))
    assert not verify(path).ok
    with pytest.raises(InvalidInput, match="sorted"):
        load_model(path)
