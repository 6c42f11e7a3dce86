"""Healthy mechanisms stand, broken copies of them fall, and the audit does not cry wolf.

Attacks are seeded; a false alarm has a probability of one in a million for each.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import take_audit
from dperm.engine import Rows
from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared
from dperm.mechanisms import DPGD, RSGDAR, Job, Objective, OutputGD, Plan, registry, resolve
from dperm.mechanisms.worst_case import REMOVED, WorstCase
from dperm.privacy import Budget, Gate, GaussianNoise, SeededEntropy, noise
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit import examination
from dperm_audit.attack import WEIGHTS, Seen, observe
from dperm_audit.command import audit as command
from dperm_audit.controls import CONTROLS
from dperm_audit.examination import (
    attack_once,
    audit,
    audit_all,
    audit_control,
    audit_controls,
    check_control,
    noise_differs_between_processes,
)
from dperm_audit.neighbours import pairs
from dperm_audit.noise_check import check_noise, empty_problem, signs_agree, with_enough_l2
from dperm_audit.replay import replay, replay_all
from dperm_audit.results import BROKEN, INCONCLUSIVE, STANDS, ControlResult, draw_audit
from dperm_audit.worst_cases import LINEAR, attacks_on, audited_names

SURE = 1 - 1e-6
BUDGET = Budget(1.0, 1e-2)
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
        part = plan.perturbation
        half = replace(part.objective, scale=part.objective.scale / 2)
        return replace(plan, perturbation=replace(part, objective=half))


class BareIntercept(OutputGD):
    """Forgets the noise of the intercept."""

    def _run(self, jobs: Sequence[Job], rows: Rows, gate: Gate) -> list[np.ndarray]:
        exact = self._train([job.plan for job in jobs[:1]], rows.select([0]), gate)
        released = super()._run(jobs, rows, gate)
        return [np.append(weights[:-1], exact[-1]) for weights in released]


@pytest.fixture(autouse=True)
def processes_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that start dperm have a test of their own; here all noise comes from the stream of the test."""
    monkeypatch.setattr("dperm_audit.examination.noise_differs_between_processes", lambda: True)


@pytest.fixture(autouse=True)
def few_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of registered mechanisms have a test of their own (test_replay.py)."""
    monkeypatch.setattr(examination, "replay_all", lambda names: islice(replay_all(names, share=12), 5))


@pytest.mark.together("few_replays", "processes_differ")
@pytest.mark.parametrize("name", audited_names())
def test_every_private_mechanism_has_attacks_that_fit_it(name: str) -> None:
    attacks = attacks_on(name)
    for attack in attacks:
        assert attack.mechanism.misfit(attack.problem) is None
        assert type(attack.mechanism) is type(resolve(name))
        assert len(attack.pair.left[0]) == attack.problem.n_rows
    assert sum(attack.system for attack in attacks) == 1
    clips = {attack.mechanism.settings.get("clip") for attack in attacks}
    assert "clip" not in resolve(name).settings or any(isinstance(clip, float) for clip in clips)


# Registration is enough, and a mechanism declares by itself where to attack it.


@dataclass(frozen=True)
class Toy(OutputGD):
    iterations: int = 3

    name: ClassVar[str] = "toy"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.ADD_REMOVE,)
    labels: ClassVar[tuple[str, ...]] = ("real",)
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(),)


class LeakyToy(Toy):
    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        plan = super()._plan(problem, budget, mu_spent)
        assert isinstance(plan.noise, GaussianNoise)
        return replace(plan, noise=replace(plan.noise, scale=plan.noise.scale / 2))


class DeclaringToy(Toy):
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"iterations": 2}, share=0.5, jobs=100, delta=0.05, out_of_reach="it is a toy"),
        WorstCase(name="seen in the weights", facts={**REMOVED, "l2": 0.5}, weights_alone=True, share=3.0),
    )


def register(monkeypatch: pytest.MonkeyPatch, kind: type[Toy]) -> None:
    monkeypatch.setitem(registry._MECHANISMS, "toy", kind)


def test_a_registered_mechanism_is_audited_and_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Toy)
    found = audit("toy", runs=6000, confidence=SURE)
    assert found.verdict == STANDS, found.faults
    assert found.replays.replays > 3
    assert 0.3 < found.ratio < 1.0
    assert "toy" in audited_names()


def test_a_broken_registered_mechanism_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, LeakyToy)
    found = audit("toy", runs=3000, confidence=SURE)
    assert found.verdict == BROKEN
    assert any("epsilon >=" in fault for fault in found.faults)
    assert any("price" in fault for fault in found.faults)


def test_attacks_follow_what_a_mechanism_covers_and_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Toy)
    for attack in attacks_on("toy"):
        assert attack.problem.neighbours is Neighbours.ADD_REMOVE
        assert attack.problem.loss == ClippedSquared()
        assert attack.jobs == 5000
    register(monkeypatch, DeclaringToy)
    first, *others = attacks_on("toy")
    assert (first.share, first.jobs, first.delta, first.mechanism.iterations) == (0.5, 100, 0.05, 2)
    (declared,) = [attack for attack in others if attack.name == "seen in the weights"]
    assert (declared.sees, declared.problem.l2, declared.mechanism.iterations) == (WEIGHTS, 0.5, 2)
    assert declared.share == pytest.approx(3.0 * 0.5 * 0.1)
    assert audit("toy", runs=100).out_of_reach == "it is a toy"


@pytest.mark.some(2)
@pytest.mark.parametrize(("name", "least"), [("dp-gd", 0.4), ("rsgd-ar", 0.4), ("objective-pure", 0.5)])
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
    monkeypatch.setattr(examination, "observe", drifting)
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
    real = noise.add_noises

    def smaller(columns: np.ndarray, noises: list[GaussianNoise], entropy: SeededEntropy) -> np.ndarray:
        return columns + (real(columns, noises, entropy) - columns) / 2

    monkeypatch.setattr(noise, "add_noises", smaller)
    found = check_noise(OutputGD(), replace(LINEAR, n_features=2), BUDGET, runs=300)
    assert "noise is not of the declared scale" in found.faults


@pytest.mark.system_noise(failing=1e-100)
def test_two_processes_draw_different_noise() -> None:
    assert noise_differs_between_processes()


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


def test_a_bar_that_is_far_too_long_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[int] = []
    monkeypatch.setattr("dperm_audit.results._break", lambda axes, place: broken.append(place))
    draw_audit([], [result_of("a", ("x",), 700.0), result_of("b", ("x",), 1.4)], tmp_path / "audit.png")
    assert broken == [0]


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
    monkeypatch.setattr("dperm_audit.controls.CONTROLS", (shown,))
    monkeypatch.setattr(examination, "CONTROLS", (shown,))
    arguments = ["output-gd", "--runs", "4000", "--processes", "1", "--out", str(tmp_path / "out"), "--json"]
    ran = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert ran.return_value == int(missed), ran.output
    document = json.loads(ran.stdout)
    assert document == json.loads((tmp_path / "out" / "audit.json").read_text())
    assert document["sound"] is not missed
    assert document["mechanisms"][0]["verdict"] == STANDS
    assert document["controls"][0]["caught"] is not missed
    assert (tmp_path / "out" / "audit.png").exists()
    taken = take_audit.take(tmp_path / "out" / "audit.json", "output-gd")
    (best,) = taken.table("claims").rows
    assert best[:2] == ["output-gd", "profile"]
    assert str(best[5]) == f"{100 * document['mechanisms'][0]['ratio']:.1f} %"
    assert str(taken.table("whole").at("controls caught", "value")) == str(int(not missed))
    others = [row[0] for row in taken.table("other-attacks").rows]
    assert len(others) == len(document["mechanisms"][0]["attacks"]) - 1


def test_command_prints_a_table_and_refuses_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dperm_audit.controls.CONTROLS", ())
    ran = CliRunner().invoke(
        command, ["output-gd", "--runs", "4000", "--processes", "1"], standalone_mode=False
    )
    assert ran.return_value == 0
    assert "output-gd" in ran.stdout
    assert "stands" in ran.stdout
    assert ran.stderr.startswith("output-gd: stands")
    assert isinstance(CliRunner().invoke(command, [], standalone_mode=False).exception, InvalidInput)


def test_noise_is_checked_on_standardised_rows_too(monkeypatch):
    """A mechanism whose plan refused the tiny table was not checked on standardised rows, and nobody was told."""
    seen = []
    monkeypatch.setattr(
        examination,
        "check_noise",
        lambda mechanism, problem, budget, runs: seen.append(
            mechanism.plan(with_enough_l2(mechanism, problem, budget), budget).standardisation
        ),
    )
    for name in set(audited_names()) - {"objective-pure"}:  # whose theorem leaves nothing for moments
        attack = attacks_on(name)[0]
        seen.clear()
        list(
            examination._noise_checks(
                attack.mechanism, empty_problem(attack.mechanism, attack.problem), BUDGET
            )
        )
        assert len(seen) == 2, name
        assert seen[1] is not None, name


def test_a_mechanism_with_a_gate_of_its_own_has_no_map_to_compare():
    class OwnGate(DPGD):
        def run(self, jobs, rows, gate):
            return super().run(jobs, rows, Gate(gate.source))

    problem = replace(attacks_on("dp-gd")[0].problem, intercept=0.5)
    report = replay(OwnGate(steps=2, standardise="linear"), problem, BUDGET, pairs(problem)[0])
    assert {"plan", "map"} <= {finding.check for finding in report.findings}
