"""A replay that catches nothing shows nothing: every mechanism that is broken on purpose must be caught."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dperm.engine import Rows
from dperm.mechanisms import Job, Mechanism, Outcome, OutputGD, Plan, mechanism_names
from dperm.privacy import Gate
from dperm_audit.controls import CONTROLS, Control
from dperm_audit.neighbours import pairs
from dperm_audit.replay import CHECKS, ReplayReport, replay

Vector = NDArray[np.float64]
FOR_REPLAY = [control for control in CONTROLS if control.caught_by == "replay"]
FOR_AUDIT = [control for control in CONTROLS if control.caught_by == "audit"]


def reports(control: Control, mechanism: Mechanism, every: int = 1) -> list[ReplayReport]:
    """Of every pair, or of every third, say. What hardly depends on the pair is replayed with the first alone."""
    chosen = pairs(control.problem)[::every] if control.pair is None else [control.pair]
    plan = mechanism.plan(control.problem, control.budget)
    return [
        replay(mechanism, control.problem, control.budget, pair, seed, plan, all_of_it=seed == 0)
        for seed, pair in enumerate(chosen)
    ]


def checks(found: list[ReplayReport]) -> set[str]:
    return {finding.check for report in found for finding in report.findings}


@pytest.mark.parametrize("control", FOR_REPLAY, ids=lambda control: control.name)
def test_a_fault_is_found_by_its_check_and_what_it_was_broken_from_passes(control: Control) -> None:
    """Controls run as mechanisms do, several jobs at once too, so that it is the fault that is found."""
    found = checks(reports(control, control.mechanism))
    assert control.check in found
    assert "refused" not in found
    if control.check in ("distance", "price"):  # it shows nowhere else
        assert found <= {control.check, "plan"}
    assert [str(report) for report in reports(control, control.healthy, every=3) if not report.passed] == []


TRACES = {
    "noise too small by the root of two": {"price"},
    "noise from a seed of one byte": {"outcome"},
    "all classes share their noise": {"outcome", "plan"},
    "noisy minimum with the wrong sign": {"plan"},
}


@pytest.mark.parametrize("control", FOR_AUDIT, ids=lambda control: control.name)
def test_faults_of_the_noise_keep_the_distance_and_leave_a_trace(control: Control) -> None:
    """They are for a statistical audit: values before the noise are as close as declared."""
    found = checks(reports(control, control.mechanism))
    assert not found & {"distance", "refused"}
    assert TRACES[control.name] <= found
    assert [str(report) for report in reports(control, control.healthy, every=3) if not report.passed] == []


class _TwiceReleased(OutputGD):
    """Releases the weights twice."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Vector]:
        super()._run(jobs, rows, gate)
        return super()._run(jobs, rows, gate)


class _SaysOnce(_TwiceReleased):
    """Releases the weights twice and says so once."""

    def run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Outcome]:
        return [replace(outcome, records=outcome.records[1:]) for outcome in super().run(jobs, rows, gate)]


class _DrawsByRows(OutputGD):
    """Draws more of an order if a certain label is there."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Vector]:
        gate.permutation(int(rows._y.sum()) % 7 + 1)
        return super()._run(jobs, rows, gate)


class _BesideTheGate(OutputGD):
    """Draws from the source of the gate."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Vector]:
        gate.source.words(1)
        return super()._run(jobs, rows, gate)


class _Forgetful(OutputGD):
    """Trains from a start of its own, so that no seed gives the same run again."""

    def _train(self, plans: Sequence[Plan], rows: Rows, gate: Gate) -> Vector:
        return super()._train(plans, rows, gate) + int.from_bytes(os.urandom(8), "little") / 1e30


class _HiddenFirst(OutputGD):
    """Adds hidden noise for which nothing was planned."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Vector]:
        noises = [job.plan.noise for job in jobs]
        gate.hide(np.zeros((noises[0].dimension, len(noises))), noises)
        return super()._run(jobs, rows, gate)


class _OneLane(OutputGD):
    """Writes what all jobs release down for the first."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[Vector]:
        models = [job.model for job in jobs]
        points = self._train([job.plan for job in jobs], rows.select(models), gate)
        first = gate.part([0])
        return [first.release_one(points[:, k], job.plan.noise, "any") for k, job in enumerate(jobs)]


@pytest.mark.together
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (_TwiceReleased, {"plan", "price"}),
        (_SaysOnce, {"records", "plan", "price"}),
        (_DrawsByRows, {"entropy"}),
        (_BesideTheGate, {"entropy"}),
        (_Forgetful, {"entropy"}),
        (_HiddenFirst, {"plan"}),
        (_OneLane, {"plan", "price"}),
        (OutputGD, set()),
    ],
)
def test_the_other_checks_fail_where_they_must(kind: type[OutputGD], expected: set[str]) -> None:
    control = next(c for c in CONTROLS if c.healthy.name == "output-gd")
    report = replay(
        kind(iterations=3, standardise=False), control.problem, control.budget, pairs(control.problem)[0]
    )
    assert {finding.check for finding in report.findings} == expected


def test_every_kind_of_check_has_a_control() -> None:
    assert {control.check for control in FOR_REPLAY} >= {"distance", "noise", "outcome", "events", "price"}
    assert {control.check for control in FOR_REPLAY} <= set(CHECKS)
    assert {control.caught_by for control in CONTROLS} == {"replay", "audit"}


def test_controls_are_named_explained_and_not_registered() -> None:
    names = [control.name for control in CONTROLS]
    assert len(set(names)) == len(names)
    for control in CONTROLS:
        assert control.mechanism.name.startswith("broken: ")
        assert control.mechanism.name not in mechanism_names()
        assert control.healthy.name in mechanism_names()
        assert len(control.what_is_wrong.split()) > 5
        assert isinstance(control.mechanism, type(control.healthy)) or control.healthy.name == "rsgd"


def test_the_distance_says_by_how_much_too_little_was_declared() -> None:
    control = next(c for c in CONTROLS if c.name == "intercept outside the norm")
    share = max(report.largest_share for report in reports(control, control.mechanism))
    assert share == pytest.approx(control.problem.row_norm / control.problem.x_norm, rel=1e-5)
