"""The page with a real evaluation, from the file that it was saved to."""

import dataclasses

import pytest
from release_models import ANSWERS, HOSTILE, N, data, model_file
from well_formed import parsed

from dperm import Budget, load_model
from dperm.errors import InvalidInput
from dperm.evaluation import evaluate
from dperm.release import Deployment, page, read_release, registry_entry, text


def judged(name, tmp_path, **how):
    """A file with the evaluation of a model on its own rows, which is enough here."""
    X, score = data()
    model = load_model(model_file(name))
    labels = getattr(model, "classes_", None)
    y = score if labels is None else labels[(score > 0).astype(int)]
    path = tmp_path / "evaluation.json"
    evaluate(model, X, y, **how).save(path)
    return path


@pytest.mark.parametrize("name", ["no schema", "svm", "softmax", "regression"])
def test_a_private_evaluation(name, tmp_path):
    path = judged(name, tmp_path, budget=Budget(0.5, 1e-7))
    release = read_release(model_file(name), evaluation=path)
    found = parsed(page(release))
    words = "\n".join(found.text)
    assert found.faults == []
    assert "NOT private" not in words
    assert "with ε = 0.5, δ = 10⁻⁷ for the test rows" in words
    assert f"{N} rows" in text(release)


def test_exact_figures_are_marked(tmp_path):
    path = judged("no schema", tmp_path, local=True)
    release = read_release(model_file("no schema"), evaluation=path)
    assert '<p class="alarm">These figures are NOT private' in page(release)
    assert "released besides" not in page(release)
    assert "NOT private" in text(release)


def test_another_model(tmp_path):
    path = judged("no schema", tmp_path, budget=Budget(0.5, 1e-7))
    with pytest.raises(InvalidInput, match="not of"):
        read_release(model_file("svm"), evaluation=path)


def test_hostile_classes(tmp_path):
    path = judged("no schema", tmp_path, budget=Budget(0.5, 1e-7))
    release = read_release(model_file("no schema"), evaluation=path)
    changed = dataclasses.replace(release.evaluation, classes=[HOSTILE, "b"])
    found = parsed(page(dataclasses.replace(release, evaluation=changed)))
    assert {tag for tag, _ in found.tags}.isdisjoint({"script", "img"})
    assert found.faults == []


def test_the_registry_counts_it(tmp_path):
    path = judged("no schema", tmp_path, budget=Budget(0.5, 1e-7))
    release = dataclasses.replace(
        read_release(model_file("no schema"), evaluation=path),
        deployment=Deployment.from_dict(ANSWERS),
        deployed=True,
    )
    assert "An evaluation was released besides" in registry_entry(release)
