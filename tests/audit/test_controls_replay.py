"""A replay that catches nothing shows nothing: every mechanism that is broken on purpose must be caught."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dperm.audit.controls import CONTROLS, Control
from dperm.audit.neighbours import pairs
from dperm.audit.replay import ReplayReport, replay
from dperm.audit.replay_checks import CHECKS
from dperm.engine import Rows
from dperm.mechanisms import Job, Mechanism, Outcome, OutputGD, Plan, mechanism_names
from dperm.privacy import Gate

Vector = NDArray[np.float64]
FOR_REPLAY = [control for control in CONTROLS if control.caught_by == "replay"]
FOR_AUDIT = [control for control in CONTROLS if control.caught_by == "audit"]


def reports(control: Control, mechanism: Mechanism) -> list[ReplayReport]:
    chosen = pairs(control.problem) if control.pair is None else [control.pair]
    plan = mechanism.plan(control.problem, control.budget)
    return [
        replay(mechanism, control.problem, control.budget, pair, seed, plan)
        for seed, pair in enumerate(chosen)
    ]


def checks(found: list[ReplayReport]) -> set[str]:
    return {finding.check for report in found for finding in report.findings}


@pytest.mark.parametrize("control", FOR_REPLAY, ids=lambda control: control.name)
def test_the_fault_is_found_by_its_check(control: Control) -> None:
    assert control.check in checks(reports(control, control.mechanism))


@pytest.mark.parametrize(
    "control", [c for c in FOR_REPLAY if c.check in ("distance", "price")], ids=lambda control: control.name
)
def test_a_fault_in_the_distance_or_the_price_alone_shows_nowhere_else(control: Control) -> None:
    assert checks(reports(control, control.mechanism)) <= {control.check, "plan"}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_no_control_is_refused(control: Control) -> None:
    """They run as mechanisms do, several jobs at once too, so that it is the fault that is found."""
    assert "refused" not in checks(reports(control, control.mechanism))


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_what_it_was_broken_from_passes(control: Control) -> None:
    assert [str(report) for report in reports(control, control.healthy) if not report.passed] == []


@pytest.mark.parametrize("control", FOR_AUDIT, ids=lambda control: control.name)
def test_faults_of_the_noise_keep_the_distance(control: Control) -> None:
    """They are for a statistical audit: values before the noise are as close as declared."""
    assert "distance" not in checks(reports(control, control.mechanism))


def test_most_faults_of_the_noise_leave_a_trace_all_the_same() -> None:
    found = {control.name: checks(reports(control, control.mechanism)) for control in FOR_AUDIT}
    assert "price" in found["noise too small by the root of two"]
    assert "outcome" in found["noise from a seed of one byte"]
    assert {"outcome", "plan"} <= found["all classes share their noise"]
    assert "plan" in found["noisy minimum with the wrong sign"]


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
    report = replay(kind(iterations=3), control.problem, control.budget, pairs(control.problem)[0])
    assert {finding.check for finding in report.findings} == expected


def test_every_kind_of_check_has_a_control() -> None:
    assert {control.check for control in FOR_REPLAY} >= {"distance", "noise", "outcome", "passages", "price"}
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
