"""The map of rows is one of the released numbers: an edit of it is refused, however well the forger reckons."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from certified_models import document_of, sealed

from dperm import PrivateLogisticRegression, load_model, save_model
from dperm.certificate import verify
from dperm.certificate.released import check_row_map
from dperm.certificate.statement import model_digest
from dperm.errors import InvalidInput
from dperm.mechanisms import RSGDAR
from dperm.row_map import RowMap

STANDARDISED = ["auto", "auto, three classes", "adassp, removable, standardised", "objective, standardised"]
PLAIN = ["output", "output, no intercept", "objective, removable"]


def nudged(values):
    return [values[0] * (1 + 1e-8), *values[1:]]


EDITS = {
    "another bound": lambda row_map: row_map.update(x_norm=2 * row_map["x_norm"]),
    "another intercept": lambda row_map: row_map.update(intercept=row_map["intercept"] + 0.1),
    "a bound that is no float": lambda row_map: row_map.update(x_norm=1),
    "no bound": lambda row_map: row_map.pop("x_norm"),
    "one more key": lambda row_map: row_map.update(shift=0.0),
}
OF_STANDARDISED = {
    "another centre": lambda row_map: row_map.update(centre=nudged(row_map["centre"])),
    "no centre": lambda row_map: row_map.update(centre=None),
    "nothing moved": lambda row_map: row_map.update(centre=None, scale=None),
    "another scale": lambda row_map: row_map.update(scale=nudged(row_map["scale"])),
    "all scales larger": lambda row_map: row_map.update(scale=[2 * value for value in row_map["scale"]]),
    "a short centre": lambda row_map: row_map.update(centre=row_map["centre"][:-1]),
    "a centre of text": lambda row_map: row_map.update(centre=["0"] * 3),
    "another mean": lambda row_map: row_map["released"][0].__setitem__(0, row_map["released"][0][0] + 1e-6),
    "other moments": lambda row_map: row_map["released"][1].__setitem__(0, 9.0),
    "no moments": lambda row_map: row_map["released"].pop(),
    "nothing released": lambda row_map: row_map.update(released=[]),
    "released text": lambda row_map: row_map.update(released=["0", "0"]),
    "the other variant": lambda row_map: row_map.update(linear=not row_map["linear"]),
    "no variant": lambda row_map: row_map.pop("linear"),
    "a variant of 1": lambda row_map: row_map.update(linear=1),
}
OF_PLAIN = {
    "a centre from nowhere": lambda row_map: row_map.update(centre=[0.0] * 3),
    "a scale from nowhere": lambda row_map: row_map.update(scale=[1.0] * 3),
    "a release from nowhere": lambda row_map: row_map.update(released=[[0.0] * 3]),
    "a bound less": lambda row_map: row_map.update(linear=True),
    "a truth of 0": lambda row_map: row_map.update(linear=0),
    "an empty centre": lambda row_map: row_map.update(centre=[]),
    "an empty scale": lambda row_map: row_map.update(scale=[]),
    "a centre that is false": lambda row_map: row_map.update(centre=False),
    "no list of releases": lambda row_map: row_map.update(released=None),
}
CASES = [(case, edit) for case in STANDARDISED for edit in {**EDITS, **OF_STANDARDISED}]
CASES += [(case, edit) for case in PLAIN for edit in {**EDITS, **OF_PLAIN}]
ALL = {**EDITS, **OF_STANDARDISED, **OF_PLAIN}


@pytest.mark.parametrize(("case", "edit"), CASES)
def test_an_edited_map_is_refused(case, edit, tmp_path):
    document = document_of(case)
    ALL[edit](document["row_map"])
    verdict = verify(sealed(copy.deepcopy(document)))
    assert not verdict.accepted
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(sealed(document)))
    with pytest.raises(InvalidInput, match="not a usable model file"):
        load_model(path)


@pytest.mark.parametrize(("case", "edit"), CASES)
def test_even_with_every_digest_mended_it_must_fit_the_statement(case, edit, tmp_path):
    document = document_of(case)
    ALL[edit](document["row_map"])
    document["certificate"]["model"]["sha256"] = model_digest(document)
    (failure,) = verify(sealed(document)).failures[:1]
    assert failure.startswith("map of the rows: row_map")
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="not a usable model file"):
        load_model(path)


@pytest.mark.parametrize("case", [*STANDARDISED, *PLAIN])
def test_an_honest_map_says_whether_rows_are_moved(case):
    document = document_of(case)
    said = check_row_map(document, document["certificate"])
    assert ("by what was released" in said) is (case in STANDARDISED)
    assert RowMap.from_dict(document["row_map"]).moves is (case in STANDARDISED)


def test_a_map_changed_after_fit_cannot_be_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 2)) / 3
    model = PrivateLogisticRegression(mechanism=RSGDAR(standardise=True), classes=[0, 1]).fit(X, X[:, 0] > 0)
    honest = model.row_map_
    for other in (
        replace(honest, centre=honest.centre + 1e-12),
        replace(honest, linear=False),
        replace(honest, released=()),
        RowMap(x_norm=1.0, intercept=0.3),
    ):
        model.row_map_ = other
        with pytest.raises(InvalidInput, match="changed after fit"):
            save_model(model, tmp_path / "m.json")
    model.row_map_ = honest
    save_model(model, tmp_path / "m.json")
    copied = load_model(tmp_path / "m.json")
    assert copied.row_map_ == honest
    assert copied.decision_function(30 * X).tobytes() == model.decision_function(30 * X).tobytes()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("variant", ["linear", "bounded"])
def test_a_stranger_computes_centre_and_scale_from_the_file(variant, relation, intercept, tmp_path):
    """In a table that is nearly empty, and full of noise, too: floors and the least count act there."""
    X = np.random.default_rng(0).normal(size=(200, 3)) * [0.5, 0.1, 0.02] + 0.2
    for epsilon, capacity in ((8.0, 300), (0.05, 300), (0.05, 40_000)):
        model = PrivateLogisticRegression(
            mechanism=RSGDAR(standardise=variant, batch_size=50, epochs=1),
            classes=[0, 1],
            epsilon=epsilon,
            fit_intercept=intercept,
            neighbours=relation,
            max_rows=capacity if relation == "add-remove" else None,
        ).fit(X, X[:, 0] > 0.2)
        save_model(model, tmp_path / "m.json")
        document = json.loads((tmp_path / "m.json").read_text())
        assert verify(document).accepted
        found = check_row_map(document, document["certificate"])
        assert "by what was released" in found
        document["row_map"]["scale"][2] *= 1 + 1e-8
        with pytest.raises(InvalidInput, match="scale does not follow"):
            check_row_map(document, document["certificate"])
