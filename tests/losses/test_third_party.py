"""A loss from elsewhere: one class and one registration, and everything can use it but the certificate's word."""

import json

import numpy as np
import pytest
from loss_laws import check_dtype_and_shape, check_formulas, search_constants
from soft_hinge import SoftHinge

from dperm import PrivateLinearClassifier
from dperm.arithmetic import FLOAT64
from dperm.certificate import verify
from dperm.certificate.constants import unproven
from dperm.engine import Table
from dperm.losses import example_losses, loss_choices, loss_names, register_loss, registry, resolve_loss
from dperm.mechanisms.registry import catalogue, model_losses
from dperm.models import save_model
from dperm.release import Release, page
from dperm.row_map import RowMap
from dperm_audit.replay import replay_all

ENGINES = [("reference", "float64"), ("dense", "float32"), ("dense", "float64")]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """For one test only."""
    monkeypatch.setattr(registry, "_LOSSES", dict(registry._LOSSES))
    register_loss(SoftHinge)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 3.0])
def test_it_keeps_the_laws(temperature):
    loss = SoftHinge(temperature)
    search_constants(loss)
    for dtype in (np.float32, np.float64):
        check_dtype_and_shape(loss, dtype)
        check_formulas(loss, dtype)


def test_it_is_found_by_name():
    assert loss_names()[-1] == "soft-hinge"
    assert loss_choices("binary")[-2:] == ("svm", "soft-hinge")
    assert resolve_loss("soft-hinge:temperature=2") == SoftHinge(2.0)
    assert SoftHinge() in example_losses()


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [1, 5])
@pytest.mark.parametrize(("kind", "storage"), ENGINES)
def test_every_engine_trains_with_it(kind, storage, models):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((700, 4)), np.where(rng.random(700) < 0.4, -1.0, 1.0)
    table = Table(X, y, row_map=RowMap(x_norm=1.0, intercept=0.3), n_rows=700)
    engine, oracle = table.open(engine=kind, storage=storage), table.open(engine="reference", storage=storage)
    loss, W = SoftHinge(0.2), rng.standard_normal((5, models))
    rtol = 1e-12 if engine.arithmetic(models) == FLOAT64 else 1e-4
    for clip in (None, np.full(models, 0.3)):
        found, expected = (one.gradient_sum(loss, W, clip=clip) for one in (engine, oracle))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * 10)
    np.testing.assert_allclose(engine.value_sum(loss, W), oracle.value_sum(loss, W), rtol=rtol)
    np.testing.assert_allclose(engine.curvature_sum(loss, W), oracle.curvature_sum(loss, W), rtol=1e-9)
    sizes = np.full((7, models), 100)
    steps, before, paths = np.full(sizes.shape, 0.5), oracle.value_sum(loss, W), []
    for one in (engine, oracle):
        path = W.copy()
        one.descend(loss, path, one.batches(sizes), steps, np.full(models, 1e-3))
        paths.append(path)
    np.testing.assert_allclose(paths[0], paths[1], rtol=10 * rtol, atol=rtol)
    assert (oracle.value_sum(loss, paths[0]) < before).all()


def test_mechanisms_list_it_and_are_replayed_with_it():
    assert SoftHinge() in model_losses()
    entries = {entry.name: entry.losses for entry in catalogue()}
    assert "soft-hinge" in entries["rsgd-ar"]
    assert "soft-hinge" in entries["dp-gd"]
    assert "soft-hinge" not in entries["adassp"]
    reports = [
        report for report in replay_all(["output", "dp-gd"], share=3) if report.problem.loss == SoftHinge()
    ]
    assert len(reports) > 10
    assert [str(report) for report in reports if not report.passed] == []


def fitted(tmp_path):
    """The file of a model that was trained with it."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((400, 3)), rng.integers(0, 2, 400)
    model = PrivateLinearClassifier(
        loss="soft-hinge", epsilon=1.0, delta=1e-6, x_norm=1.0, classes=[0, 1], mechanism="output"
    ).fit(X, y)
    save_model(model, tmp_path / "model.json")
    return json.loads((tmp_path / "model.json").read_bytes())


def test_a_fit_works_and_verification_says_what_it_could_not_confirm(tmp_path):
    document = fitted(tmp_path)
    assert document["certificate"]["guarantee"] == {"epsilon": 1.0, "delta": 1e-6}
    verdict = verify(document)
    assert verdict.accepted, verdict.failures
    assert verdict.claim is not None
    assert verdict.guarantee is None
    assert not verdict.ok
    assert not verdict.independent
    assert verdict.price is None
    assert str(verdict).startswith("NOT OK: no independent constants for the loss 'soft-hinge'")
    assert "slope is at most 1 and its curvature at most 0.5" in str(verdict)
    assert [check.name for check in verdict.checks][-1] == "the whole plan"
    shown = page(Release(name="model.json", statement=document["certificate"], verdict=verdict))
    assert "<strong>Not confirmed</strong>" in shown
    assert "Differentially private" not in shown
    assert "Not confirmed: no independent constants for the loss" in shown


def test_a_file_about_a_loss_that_is_not_registered_is_rejected(tmp_path):
    document = fitted(tmp_path)
    registry._LOSSES.pop("soft-hinge")
    verdict = verify(document)
    assert not verdict.accepted
    assert "'soft-hinge' with these parameters is not a known loss" in verdict.failures[0]


def test_only_losses_from_elsewhere_are_unproven():
    for loss in (loss for loss in example_losses() if loss.is_model):
        problem = {"loss": loss.name, "lipschitz": loss.lipschitz, "smoothness": loss.smoothness}
        assert bool(unproven({"problem": problem})) == (loss.name == "soft-hinge")
