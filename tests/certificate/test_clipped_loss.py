"""Descent clips the slope of the logistic loss by rule: the certificate is about that loss and no other."""

import json
from dataclasses import replace

import numpy as np
import pytest
from certified_models import document_of, sealed

from dperm import PrivateLinearClassifier, PrivateLogisticRegression, load_model, save_model
from dperm.certificate import verify
from dperm.certificate.statement import loss_of, problem_of
from dperm.certificate.verdict import FORMULA, STRUCTURE
from dperm.errors import InvalidInput
from dperm.losses import Logistic, SoftClippedLogistic, Weighted
from dperm.mechanisms import RSGDAR, mechanism_names, resolve
from dperm.planning.rules import slope_for
from dperm.privacy import Budget

BOUNDS = {  # of weights, None where the loss has none
    "rsgd-ar": None,
    "rsgd-ar, weighted": 5.0,
    "rsgd-ar, persons": 1.0,
    "rsgd-ar, persons, weighted, sum": 6.0,  # a weight of 2, three rows each
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 3)) / 3
Y = (X[:, 0] + RNG.normal(size=2000) / 4 > 0).astype(int)
FITTED = {
    "rows": ({}, {}),
    "weighted": ({"class_weight": {1: 3.0}}, {}),
    "persons": ({"max_rows_per_person": 2}, {"groups": RNG.integers(0, 900, 2000)}),
    "persons, weighted": ({"class_weight": {0: 2.0}}, {"groups": RNG.integers(0, 900, 2000)}),
}


def plain_of(loss):
    return Weighted(Logistic(), loss.bound) if isinstance(loss, Weighted) else Logistic()


def state(document, loss):
    """Tell of another loss wherever the file does, with its own constants and with every digest mended."""
    certificate = document["certificate"]
    certificate["problem"] |= {
        "loss": loss.name,
        "loss_parameters": [float(value) for value in loss.parameters],
        "lipschitz": loss.lipschitz,
        "smoothness": loss.smoothness,
    }
    if "clip" in certificate["mechanism"]["used"]:
        certificate["mechanism"]["used"]["clip"] = getattr(loss.unweighted, "clip", None)
    return sealed(document)


def ask(document, **settings):
    """Edit the settings of the mechanism in the parameters, and as asked and chosen."""
    mechanism = document["certificate"]["mechanism"]
    mechanism["asked"]["settings"] |= settings
    mechanism["chosen"]["settings"] |= settings
    document["parameters"]["mechanism"] = mechanism["asked"]
    return document


def failed(document):
    return {check.route for check in verify(document).checks if not check.passed}


@pytest.mark.together
@pytest.mark.parametrize(("case", "bound"), BOUNDS.items())
def test_the_certificate_is_about_the_clipped_loss(case, bound):
    document = document_of(case)
    verdict = verify(document)
    assert verdict.ok
    assert verdict.independent
    problem = problem_of(document["certificate"])
    asked = Logistic() if bound is None else Weighted(Logistic(), bound)
    clip = slope_for(replace(problem, loss=asked), Budget(1.0, 1e-6))
    clipped = SoftClippedLogistic(clip, 0.7)
    assert problem.loss == (clipped if bound is None else Weighted(clipped, bound))
    assert document["certificate"]["mechanism"]["used"]["clip"] == clip
    assert document["certificate"]["problem"]["lipschitz"] == pytest.approx(clip * (bound or 1.0))
    assert document["estimator"] == "PrivateLogisticRegression"  # which asks for the plain one


@pytest.mark.together
@pytest.mark.parametrize("case", BOUNDS)
def test_the_plain_loss_is_not_the_one_that_was_trained_with(case):
    document = document_of(case)
    forged = state(document, plain_of(loss_of(document["certificate"]["problem"])))
    assert failed(forged) == {STRUCTURE}
    assert "the loss is not that of the estimator" in verify(forged).failures[0]
    # said to have been asked for without a clip, it fits the estimator, and the sensitivities give it away
    assert failed(sealed(ask(forged, clip=None))) == {FORMULA}


@pytest.mark.together
@pytest.mark.parametrize("case", BOUNDS)
@pytest.mark.parametrize("factor", [0.5, 1 - 1e-6, 1.3])
def test_another_clip_is_refused(case, factor):
    def edited():
        document = document_of(case)
        loss = loss_of(document["certificate"]["problem"])
        clipped = SoftClippedLogistic(factor * loss.unweighted.clip, 0.7)
        return clipped.clip, state(
            document, Weighted(clipped, loss.bound) if isinstance(loss, Weighted) else clipped
        )

    clip, document = edited()
    assert failed(document) == {STRUCTURE}
    assert "the loss is not that of the estimator" in verify(document).failures[0]
    clip, document = edited()
    assert failed(sealed(ask(document, clip=clip))) == {FORMULA}
    document = document_of(case)  # only as asked, and the loss left alone
    assert failed(sealed(ask(document, clip=clip))) == {STRUCTURE}
    document = document_of(case)  # only as used
    document["certificate"]["mechanism"]["used"]["clip"] = clip
    assert not verify(sealed(document)).accepted


@pytest.mark.together
@pytest.mark.parametrize("case", BOUNDS)
def test_another_knee_is_refused(case):
    document = document_of(case)
    loss = loss_of(document["certificate"]["problem"])
    clipped = SoftClippedLogistic(loss.unweighted.clip, 0.5)
    forged = state(document, Weighted(clipped, loss.bound) if isinstance(loss, Weighted) else clipped)
    assert failed(forged) == {STRUCTURE}


def test_a_file_without_a_clip_may_not_claim_one():
    """The clip of the rule would make a row count for a third: the stated noise would be more than enough."""
    document = document_of("rsgd-ar, plain")
    assert verify(document).ok
    forged = state(document, SoftClippedLogistic(0.35, 0.7))
    assert failed(forged) == {STRUCTURE}
    for clip in ("auto", 0.35):
        assert failed(sealed(ask(forged, clip=clip))) == {FORMULA}


def test_a_clip_that_no_mechanism_takes_is_refused():
    for clip in (0.0, -0.4, 1.5, "none", True, [0.35]):
        assert not verify(sealed(ask(document_of("rsgd-ar"), clip=clip))).accepted


@pytest.mark.together
@pytest.mark.parametrize("case", FITTED)
def test_a_loaded_model_predicts_as_the_fitted_one(case, tmp_path):
    parameters, of_fit = FITTED[case]
    model = PrivateLogisticRegression(mechanism="rsgd-ar", classes=[0, 1], **parameters).fit(X, Y, **of_fit)
    save_model(model, tmp_path / "m.json")
    assert verify(json.loads((tmp_path / "m.json").read_text())).ok
    loaded = load_model(tmp_path / "m.json")
    assert loaded.certificate_ == model.certificate_
    assert loaded.predict_proba(30 * X).tobytes() == model.predict_proba(30 * X).tobytes()
    # probabilities are those of the clipped loss: what the plain one makes of the margins is something else
    margins = model.decision_function(X)
    assert not np.allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-margins)), atol=1e-3)


@pytest.mark.together
@pytest.mark.parametrize("mechanism", ["auto", "rsgd-ar"])
@pytest.mark.parametrize("case", FITTED)
def test_the_plain_loss_as_an_object_is_clipped_as_by_its_name(mechanism, case, tmp_path):
    parameters, of_fit = FITTED[case]
    for loss in (Logistic(), "logistic"):
        model = PrivateLinearClassifier(loss=loss, mechanism=mechanism, classes=[0, 1], **parameters)
        path = tmp_path / "m.json"
        path.unlink(missing_ok=True)
        save_model(model.fit(X, Y, **of_fit), path)
        document = json.loads(path.read_text())
        verdict = verify(document)
        assert verdict.ok
        assert verdict.independent
        assert loss_of(document["certificate"]["problem"]).unweighted.name == "soft-clipped-logistic"
        loaded = load_model(path)
        assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
        assert loaded.decision_function(30 * X).tobytes() == model.decision_function(30 * X).tobytes()
        assert loaded.get_params()["loss"] == loss
        forged = state(document, plain_of(loss_of(document["certificate"]["problem"])))
        assert "the loss is not that of the estimator" in verify(forged).failures[0]


@pytest.mark.together
@pytest.mark.parametrize("mechanism", ["auto", "rsgd-ar"])
def test_a_clipped_loss_of_the_user_s_is_kept(mechanism, tmp_path):
    own = SoftClippedLogistic(0.6, 0.5)
    save_model(
        PrivateLinearClassifier(loss=own, mechanism=mechanism, classes=[0, 1]).fit(X, Y), tmp_path / "m.json"
    )
    document = json.loads((tmp_path / "m.json").read_text())
    assert verify(document).ok
    assert loss_of(document["certificate"]["problem"]) == own
    assert failed(state(document, SoftClippedLogistic(0.35, 0.7))) == {STRUCTURE}


def test_a_model_with_another_loss_than_it_was_trained_with_does_not_load(tmp_path):
    """Digests keep it from loading. With all of them mended it does, since statements are examined by ``verify``."""
    path = tmp_path / "m.json"
    whole = document_of("rsgd-ar")
    before = whole["digest"], whole["certificate"]["digest"]
    forged = state(whole, Logistic())
    mended = forged["digest"], forged["certificate"]["digest"]
    assert not set(before) & set(mended)
    for digests in (before, (before[0], mended[1]), (mended[0], before[1])):
        forged["digest"], forged["certificate"]["digest"] = digests
        path.write_text(json.dumps(forged))
        with pytest.raises(InvalidInput, match="not a usable model file: .* digest"):
            load_model(path)
    forged["digest"], forged["certificate"]["digest"] = mended
    path.write_text(json.dumps(forged))
    assert load_model(path).privacy_.loss == Logistic.name
    assert failed(forged) == {STRUCTURE}


def test_an_l2_far_above_the_rule_keeps_the_loss(tmp_path):
    """The file says so, and does not get the clip back by an edit of either number."""
    model = PrivateLogisticRegression(mechanism=RSGDAR(), classes=[0, 1], l2=0.5).fit(X, Y)
    save_model(model, tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    assert verify(document).ok
    assert loss_of(document["certificate"]["problem"]) == Logistic()
    document["parameters"]["l2"] = document["certificate"]["problem"]["l2"] = 1e-4
    assert failed(sealed(document)) == {STRUCTURE}
    assert failed(state(document, SoftClippedLogistic(0.35, 0.7))) <= {STRUCTURE, FORMULA}
    assert not verify(document).accepted


@pytest.mark.together
@pytest.mark.parametrize("name", mechanism_names())
def test_every_mechanism_s_loss_is_a_rule_that_repeats_itself(name):
    """A verifier plans for the stated loss, so a rule must give a loss that it chose once more."""
    mechanism, budget = resolve(name), Budget(1.0, 1e-6)
    asked = problem_of(document_of("rsgd-ar, plain")["certificate"])
    for loss in (Logistic(), Weighted(Logistic(), 4.0), SoftClippedLogistic(0.9, 0.2)):
        for l2 in (asked.l2, 1e-6, 1.0):
            problem = replace(asked, loss=loss, l2=l2)
            trained = mechanism.trained_loss(problem, budget)
            assert mechanism.trained_loss(replace(problem, loss=trained), budget) == trained
