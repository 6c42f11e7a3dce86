"""Files that an older version wrote load and verify; they cannot pass for what they are not."""

import json
from pathlib import Path

import numpy as np
import pytest

from dperm import PublicEncoder, load_model, save_model, verify
from dperm.certificate.document import digest
from dperm.certificate.statement import file_digest, model_digest
from dperm.errors import InvalidInput
from dperm.models import read_document, read_model

FILES = Path(__file__).parent / "files"
NAMES = ["classifier-3.json", "regression-3.json", "centred-3.json"]
ROWS = np.random.default_rng(0).normal(size=(40, 3)) / 6


@pytest.mark.parametrize("name", NAMES)
def test_an_older_file_loads_and_verifies(name):
    document = read_document(FILES / name)
    assert (document["version"], document["certificate"]["version"]) == (3, 2)
    assert verify(FILES / name).ok
    model = load_model(FILES / name)
    assert model.row_map_.to_dict() == {
        "x_norm": model.x_norm,
        "intercept": pytest.approx(0.3 * model.x_norm),
        "centre": None,
        "scale": None,
    }


@pytest.mark.parametrize("name", NAMES)
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
    document |= {"version": 4, "row_map": None, "pipeline": None}
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="version 4 holds a certificate of version 3"):
        load_model(path)


def test_the_tool_of_these_tests_makes_files_that_pass():
    assert verify(resealed(read_document(FILES / "classifier-3.json"))).ok
