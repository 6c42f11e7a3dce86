"""``dperm audit evaluation``: the release of an evaluation stands, and one with half the noise is caught."""

import json

import pytest

from dperm.cli.app import run
from dperm_audit import evaluation as audit


@pytest.fixture(autouse=True)
def processes_differ(monkeypatch):
    """Here all noise comes from the stream of the test."""
    monkeypatch.setattr("dperm_audit.examination.noise_differs_between_processes", lambda: True)


def test_the_evaluation_is_audited_like_a_mechanism(capsys):
    assert run(["audit", "evaluation", "--runs", "6000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (audited,) = found["mechanisms"]
    (control,) = found["controls"]
    assert audited["mechanism"] == "evaluation"
    assert audited["verdict"] == "stands"
    assert audited["ratio"] > 0.5
    assert len(audited["attacks"]) == audited["replays"]["replays"] == 16
    assert control["caught"]
    assert sum("means" in attack["attack"] for attack in audited["attacks"]) == 6


def test_a_release_with_less_noise_is_called_broken(capsys, monkeypatch):
    honest = audit.attacked
    monkeypatch.setattr(
        audit,
        "attacked",
        lambda case, runs, seed, noise_share=1.0: honest(case, runs, seed, 0.6 * noise_share),
    )
    assert run(["audit", "evaluation", "--runs", "6000"]) == 1
    assert "BROKEN" in capsys.readouterr().out
