"""Healthy mechanisms stand, broken copies of them fall, and the audit does not cry wolf.

Attacks are seeded; a false alarm has a probability of one in a million for each.
"""

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dperm.audit.attack import Seen, observe, watched_gate
from dperm.audit.audit import (
    BROKEN,
    INCONCLUSIVE,
    STANDS,
    ControlResult,
    attack_once,
    audit,
    audit_all,
    audit_control,
    audit_controls,
    check_control,
    noise_differs_between_processes,
)
from dperm.audit.controls import CONTROLS
from dperm.audit.figure import draw_audit
from dperm.audit.noise_check import check_noise, signs_agree
from dperm.audit.worst_cases import LINEAR, attacks_on, audited_names
from dperm.cli.audit import audit as command
from dperm.errors import InvalidInput
from dperm.mechanisms import DPGD, RSGDAR, Job, Objective, Outcome, OutputGD, Plan, resolve
from dperm.privacy import Budget, GaussianNoise, SeededEntropy
from dperm.problem import Problem

AUDIT = importlib.import_module("dperm.audit.audit")
SURE = 1 - 1e-6
BUDGET = Budget(1.0, 1e-2)
GATE = import_module("dperm.privacy.release")
CONTROL_NAMES = {control.name: control for control in audit_controls()}


class HalfNoiseGD(DPGD):
    def _noise(self, plan: Plan, weight_norm: float) -> GaussianNoise:
        noise = super()._noise(plan, weight_norm)
        return replace(noise, scale=noise.scale / 2)


class HalfNoiseRSGDAR(RSGDAR):
    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        plan = super()._plan(problem, budget, mu_spent)
        assert isinstance(plan.noise, GaussianNoise)
        return replace(plan, noise=replace(plan.noise, scale=plan.noise.scale / 2))


class HalfNoiseObjective(Objective):
    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        plan = super()._plan(problem, budget, mu_spent)
        half = replace(plan.detail.objective, scale=plan.detail.objective.scale / 2)
        return replace(plan, detail=replace(plan.detail, objective=half))


class BareIntercept(OutputGD):
    """Forgets the noise of the intercept."""

    def _run(self, jobs: Sequence[Job], table: object, entropy: object) -> list[Outcome]:
        with watched_gate() as passages:
            outcomes = super()._run(jobs, table, entropy)
        for outcome, passage in zip(outcomes, passages.values(), strict=True):
            outcome.weights[-1] = passage.exact[-1]
        return outcomes


@pytest.mark.parametrize("name", audited_names())
def test_every_private_mechanism_has_attacks_that_fit_it(name: str) -> None:
    attacks = attacks_on(name)
    for attack in attacks:
        assert attack.mechanism.misfit(attack.problem) is None
        assert type(attack.mechanism) is type(resolve(name))
        assert len(attack.pair.left[0]) == attack.problem.n_rows
    assert sum(attack.system for attack in attacks) == 1
    assert "clip" not in resolve(name).settings or any(attack.mechanism.clip for attack in attacks)


@pytest.mark.parametrize(("name", "least"), [("rsgd-ar", 0.4), ("dp-gd", 0.4), ("objective-pure", 0.5)])
def test_healthy_mechanisms_stand_and_are_really_tried(name: str, least: float) -> None:
    found = audit(name, runs=12_000, confidence=SURE)
    assert found.verdict == STANDS
    assert not found.faults
    assert found.null == 0.0
    assert least < found.ratio < 1.0
    assert found.attacks[0].gaussian == (name != "objective-pure")
    assert found.mechanism == name


@pytest.mark.parametrize(
    "mechanism",
    [
        HalfNoiseGD(steps=3),
        HalfNoiseRSGDAR(epochs=4, average_every=2, batch_size=4),
        HalfNoiseObjective(),
        BareIntercept(iterations=3),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_broken_copies_are_caught(mechanism: DPGD) -> None:
    problem = replace(LINEAR, intercept=0.5) if isinstance(mechanism, BareIntercept) else LINEAR
    found = audit(mechanism, problem=problem, runs=3000, confidence=SURE)
    assert found.verdict == BROKEN
    assert found.null == 0.0
    assert any("epsilon >=" in fault for fault in found.faults)


@pytest.mark.parametrize("name", CONTROL_NAMES)
def test_controls_are_caught_and_what_they_were_broken_from_is_not(name: str) -> None:
    control = CONTROL_NAMES[name]
    assert audit_control(control, runs=4000, confidence=SURE).caught
    healthy = replace(control, mechanism=control.healthy)
    assert not audit_control(healthy, runs=1500, confidence=SURE).caught


def test_a_claim_of_which_nothing_was_proved_was_not_tried() -> None:
    few = audit("dp-gd", runs=100)
    assert not few.faults
    assert few.ratio == 0.0
    assert few.verdict == INCONCLUSIVE
    ran = CliRunner().invoke(command, ["dp-gd", "--runs", "100", "--processes", "1"], standalone_mode=False)
    assert ran.return_value == 1
    assert "0 of 1 claims stand" in ran.stdout
    assert "more with --runs" in ran.stdout


def test_an_audit_may_stop_at_the_first_fault() -> None:
    found = audit(HalfNoiseGD(steps=3), problem=LINEAR, runs=3000, stop_at_first=True)
    assert found.verdict == BROKEN
    assert len(found.faults) == 1
    assert not found.attacks


def test_a_control_for_the_replay_goes_to_the_replay() -> None:
    name = next(control.name for control in CONTROLS if control.check == "outcome")
    found = check_control(name)
    assert found.caught
    assert found.caught_by == "replay"
    assert found.ratio is None


def test_the_null_test_fires_when_runs_of_one_table_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = attacks_on("output-gd")[0]

    def drifting(*arguments: object) -> Seen:
        seen = observe(*arguments)
        drift = np.where(np.arange(len(seen.published)) < len(seen.published) // 2, 3.0, -3.0)
        return Seen(seen.published + drift[:, None], seen.exact)

    def null() -> float:
        return attack_once(attack, BUDGET, 2000, np.random.SeedSequence(0), 1e-6).null

    assert null() == 0.0
    monkeypatch.setattr(AUDIT, "observe", drifting)
    assert null() > 0.0


def test_noise_checks_notice_repeats_and_shared_noise() -> None:
    problem = replace(LINEAR, n_features=2)
    fresh = check_noise(OutputGD(), problem, BUDGET, runs=60)
    assert not fresh.faults

    class Stuck(SeededEntropy):
        """The same noise every time."""

        @property
        def generator(self) -> np.random.Generator:
            return np.random.default_rng(1)

        @generator.setter
        def generator(self, value: np.random.Generator) -> None:
            pass

    stuck = check_noise(OutputGD(), problem, BUDGET, runs=60, entropy=Stuck(0))
    assert any("came twice" in fault for fault in stuck.faults)
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(300, 3))
    assert signs_agree(independent) > 1e-6
    assert signs_agree(np.column_stack([independent, -independent[:, 0]])) < 1e-9


def test_noise_that_is_not_as_declared_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = GATE.add_noise

    def smaller(values: np.ndarray, noise: GaussianNoise, entropy: SeededEntropy) -> np.ndarray:
        return values + (real(values, noise, entropy) - values) / 2

    monkeypatch.setattr(GATE, "add_noise", smaller)
    found = check_noise(OutputGD(), replace(LINEAR, n_features=2), BUDGET, runs=300)
    assert "noise is not of the declared scale" in found.faults


def test_two_processes_draw_different_noise() -> None:
    assert noise_differs_between_processes()


def test_the_gate_is_left_as_it_was() -> None:
    before = GATE.pass_gate
    with watched_gate():
        assert GATE.pass_gate is not before
    assert GATE.pass_gate is before

    def fails() -> None:
        with watched_gate():
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert GATE.pass_gate is before


def test_what_cannot_be_audited_is_refused() -> None:
    for arguments in ({"mechanism": "none"}, {"mechanism": "no-such"}, {"mechanism": DPGD()}):
        with pytest.raises(InvalidInput):
            audit(**arguments, runs=100)
    with pytest.raises(InvalidInput):
        audit("dp-gd", runs=10)
    with pytest.raises(InvalidInput):
        list(audit_all(["dp-gd", "no-such"]))


def result_of(control: str, faults: tuple[str, ...], ratio: float | None) -> ControlResult:
    return ControlResult(
        control=control, what_is_wrong="-", caught_by="audit", faults=faults, seconds=0.0, ratio=ratio
    )


def test_figure_is_drawn(tmp_path: Path) -> None:
    controls = [result_of("broken", ("x",), 7.0), result_of("unseen", (), None)]
    draw_audit([audit("output-gd", runs=300)], controls, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput):
        draw_audit([], [result_of("unseen", (), None)], tmp_path / "nothing.png")


@pytest.mark.parametrize("missed", [False, True])
def test_command_tells_by_its_exit_status(
    missed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control that is no longer broken is missed, and a missed control is a failure."""
    control = CONTROL_NAMES["noise too small by the root of two"]
    shown = replace(control, mechanism=control.healthy) if missed else control
    monkeypatch.setattr("dperm.audit.controls.CONTROLS", (shown,))
    monkeypatch.setattr(AUDIT, "CONTROLS", (shown,))
    arguments = ["output-gd", "--runs", "4000", "--processes", "1", "--out", str(tmp_path / "out"), "--json"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert ran.return_value == int(missed), ran.output
    document = json.loads(ran.stdout)
    assert document == json.loads((tmp_path / "out" / "audit.json").read_text())
    assert document["sound"] is not missed
    assert document["mechanisms"][0]["verdict"] == STANDS
    assert document["controls"][0]["caught"] is not missed
    assert (tmp_path / "out" / "audit.png").exists()


def test_command_prints_a_table_and_refuses_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dperm.audit.controls.CONTROLS", ())
    ran = CliRunner().invoke(
        command, ["output-gd", "--runs", "4000", "--processes", "1"], standalone_mode=False
    )
    assert ran.return_value == 0
    assert "output-gd" in ran.stdout
    assert "stands" in ran.stdout
    assert ran.stderr.startswith("output-gd: stands")
    assert isinstance(CliRunner().invoke(command, [], standalone_mode=False).exception, InvalidInput)
