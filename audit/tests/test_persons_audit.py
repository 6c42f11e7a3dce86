"""A whole person is swapped: no mechanism moves further than it declares, and what treats persons wrongly is caught."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cli_examples
from dperm.cli.app import run
from dperm.engine.base.rows import Stored
from dperm.errors import InvalidInput
from dperm.estimators.persons import GroupedRows
from dperm.losses import Linear
from dperm.losses.base import weights_alone
from dperm.mechanisms import DPGD, OutputGD, Plan, resolve
from dperm.mechanisms.objective import profile
from dperm.mechanisms.objective.profile import CoupledProfile
from dperm.unit import Neighbours, PersonLoss
from dperm_audit import persons as examination
from dperm_audit.controls import Control
from dperm_audit.neighbours import PersonRows
from dperm_audit.person_cases import (
    GROWN,
    KINDS,
    SIZES,
    DrawsRows,
    laid_out,
    other_persons,
    person_cases,
    person_controls,
    person_pairs,
    person_problem,
    refused_settings,
)
from dperm_audit.persons import (
    ATTACKED,
    CERTIFIED,
    NOT_CERTIFIED,
    PERSON_ROWS,
    REFUSED,
    PersonAttack,
    PersonAudit,
    attack_person,
    attacked_names,
    attacks_on_person,
    audit_mechanism,
    audit_persons,
    check_draws_of_persons,
    moved_as_rows,
    replay_persons,
    share_moved,
    standing_of,
)
from dperm_audit.replay import replay
from dperm_audit.replay_cases import BUDGET
from dperm_audit.self_test import forget
from dperm_audit.worst_cases import audited_names

REFUSING = {"amp", "objective-pure"}
TAKING = [name for name in audited_names() if name not in REFUSING]
LINEAR = person_problem(Linear(), Neighbours.REPLACE_ONE, KINDS[0])


def plans_of(name: str) -> list[Plan]:
    return list(person_cases(resolve(name)))


# Every mechanism.


@pytest.mark.together
@pytest.mark.parametrize("name", audited_names())
def test_a_fit_with_groups_is_certified_for_one_person_or_refused_with_a_reason(name: str) -> None:
    standing, reason = standing_of(resolve(name))
    assert standing == (REFUSED if name in REFUSING else CERTIFIED)
    assert ("persons with several rows are not covered: " in reason) == (name in REFUSING)


def test_a_setting_that_is_refused_for_persons_says_why() -> None:
    ((what, why),) = refused_settings(resolve("frank-wolfe"))
    assert what == "lazy=True"
    assert "set lazy to False" in why
    assert [what for what, _ in refused_settings(resolve("dp-gd"))] == ["split=0.3"]
    assert list(refused_settings(resolve("rsgd"))) == []


@pytest.mark.parametrize("name", TAKING)
def test_no_person_moves_a_mechanism_further_than_it_declares(name: str) -> None:
    plans = list(islice(person_cases(resolve(name)), 0, 20, 5))  # both relations and both losses of a person
    reports = [report for _, report in replay_persons(plans, one_in=23)]
    assert [str(report) for report in reports if not report.passed] == []
    assert max(map(share_moved, reports)) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKING)
def test_all_replays_of_persons_keep_what_is_declared_and_reach_it(name: str) -> None:
    found = audit_mechanism(name, one_in=1)
    assert found.faults == ()
    assert max(found.moved.values()) > 0.99
    assert found.as_rows is not None
    assert found.as_rows > 2


@pytest.mark.parametrize("name", ["output-gd", "dp-gd", "dp-sgd", "objective", "ssp"])
def test_a_person_as_rows_moves_a_model_for_rows_much_further(name: str) -> None:
    assert moved_as_rows(resolve(name)) > 10


def test_the_plans_cover_relations_persons_and_settings() -> None:
    plans = plans_of("dp-gd")
    kinds = {
        (plan.problem.neighbours, plan.problem.persons.loss, plan.problem.persons.rows_per_person)
        for plan in plans
    }
    assert {(relation, loss) for relation, loss, _ in kinds} == {
        (r, k) for r in Neighbours for k in PersonLoss
    }
    assert {most for *_, most in kinds} >= {1, 3, 50}
    assert any(plan.settings["clip"] == 0.4 for plan in plans)
    assert {plan.mechanism.standardise for plan in plans} == {False, "linear", "bounded"}
    assert any(plan.problem.loss.heaviest == 9 for plan in plans)  # three rows of weight three
    drawn = [plan.trained_by.sampling for name in ("dp-sgd", "psgd") for plan in plans_of(name)]
    assert len({type(sampling) for sampling in drawn}) == 2  # Poisson and of fixed size
    assert any(plan.secret_batches for plan in plans_of("rsgd"))


# The neighbours.


@pytest.mark.parametrize("relation", list(Neighbours))
def test_pairs_differ_in_one_person(relation: Neighbours) -> None:
    problem = replace(LINEAR, neighbours=relation)
    pairs = person_pairs(problem)
    assert {pair.n_rows for pair in pairs} == set(SIZES)
    for pair in pairs:
        assert pair.removed == (relation is Neighbours.ADD_REMOVE)
        assert isinstance(pair.left, PersonRows)
        assert isinstance(pair.right, PersonRows)
        left, right = (_persons(table) for table in (pair.left, pair.right))
        if pair.removed:
            assert len(left) == problem.n_rows
            del left[pair.row]
        else:
            assert len(left) == len(right) == problem.n_rows
            del left[pair.row], right[pair.row]
        assert all(map(np.array_equal, left, right))


def _persons(table: PersonRows) -> list[np.ndarray]:
    """The rows of every person with their targets and weights, in the order of the persons."""
    X, y = table
    whole = np.column_stack([X, y["target"], y["weight"]])
    places = [table.members.rows_of(np.array([i])) for i in range(table.n_persons)]
    return [whole[rows] for rows in places]


def test_some_persons_are_replaced_by_one_with_other_many_rows_who_moves_the_others() -> None:
    sizes = {(len(pair.left[0]), len(pair.right[0])) for pair in person_pairs(LINEAR)}
    assert sum(left != right for left, right in sizes) >= len(GROWN)


def test_ids_are_not_in_the_order_of_the_persons() -> None:
    persons = other_persons(LINEAR, "crowded")
    *_, ids, _ = laid_out(LINEAR, persons, apart=True)
    assert list(np.unique(ids)) != list(dict.fromkeys(ids))
    assert GroupedRows.of(ids).n_persons == len(persons)


# What must fail.


@pytest.mark.together
@pytest.mark.parametrize("control", person_controls(), ids=lambda control: control.name)
def test_what_treats_persons_wrongly_is_caught_and_what_it_was_broken_from_passes(control: Control) -> None:
    facts = control.problem, control.budget, control.pair
    found = replay(control.mechanism, *facts)
    assert "distance" in {finding.check for finding in found.findings}
    assert "refused" not in {finding.check for finding in found.findings}
    assert str(replay(control.healthy, *facts)).endswith("passed")


def test_rows_that_each_weigh_as_much_as_a_person_are_caught() -> None:
    pair = next(pair for pair in person_pairs(LINEAR) if pair.n_rows == 50)
    for table in (pair.left, pair.right):
        weights_alone(table[1])[:] = 1.0
    found = replay(OutputGD(iterations=3), LINEAR, BUDGET, pair)
    assert {finding.check for finding in found.findings} == {"distance"}
    assert found.largest_share > 10


def failed(
    name: str, wanted: Callable[[Plan], bool], monkeypatch: pytest.MonkeyPatch, *change: Any
) -> set[str]:
    """The checks that fail for the plans of a mechanism that are wanted, once the library is changed so."""
    plan = next(plan for plan in person_cases(resolve(name)) if wanted(plan))
    assert all(report.passed for _, report in replay_persons([plan], one_in=9))
    monkeypatch.setattr(*change)
    forget()  # prices that were computed before the change
    plan = next(plan for plan in person_cases(resolve(name)) if wanted(plan))
    found = {found.check for _, report in replay_persons([plan], one_in=9) for found in report.findings}
    forget()
    return found


def test_rows_beyond_the_bound_that_are_kept_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(grouped: GroupedRows, most: int) -> NDArray[np.bool_]:
        return np.ones(len(grouped.before), bool)

    found = failed(
        "output-gd", lambda plan: plan.problem.loss.heaviest == 3, monkeypatch, GroupedRows, "kept", kept
    )
    assert "distance" in found


@pytest.mark.parametrize("clip", [0.4, "auto"])
def test_a_clip_that_is_not_shared_out_is_caught(monkeypatch: pytest.MonkeyPatch, clip: float | str) -> None:
    def clipped(plan: Plan) -> bool:
        longest = clip != "auto" or plan.problem.loss.unweighted == Linear()  # as long as the clip is half of
        return longest and plan.mechanism.settings["clip"] == clip

    found = failed("dp-gd", clipped, monkeypatch, Stored, "__post_init__", lambda self, clip_share: None)
    assert found == {"distance"}


def test_a_perturbed_objective_that_is_priced_as_for_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def everyone(plan: Plan) -> bool:
        return True

    assert failed("objective", everyone, monkeypatch, profile, "PersonsProfile", CoupledProfile) == {"price"}


def test_an_audit_that_finds_a_fault_says_so() -> None:
    sound = PersonAudit(mechanism="a", standing=CERTIFIED, moved={1: 1.0, 50: 0.9}, as_rows=10.0)
    assert sound.faults == ()
    assert len(replace(sound, as_rows=1.0).faults) == 1
    assert len(replace(sound, moved={1: 0.2, 50: 1.0}).faults) == 1
    assert len(replace(sound, standing=NOT_CERTIFIED).faults) == 1
    assert replace(sound, failures=("moved too far",)).faults == ("moved too far",)


@pytest.mark.parametrize("name", ["dp-sgd", "psgd", "rsgd"])
def test_persons_are_drawn_as_often_as_was_priced_whatever_their_rows(name: str) -> None:
    found = check_draws_of_persons(resolve(name), runs=150)
    assert found.runs == 150
    assert found.faults == ()


def test_drawing_rows_in_place_of_persons_shows_in_who_takes_part() -> None:
    found = check_draws_of_persons(DrawsRows(), runs=100)
    assert "every person" in found.drawn
    assert any("with probability" in fault for fault in found.faults)
    sound = PersonAudit(mechanism="a", standing=CERTIFIED)
    assert len(replace(sound, draws=found).faults) == len(found.faults)


# The attack.


@pytest.fixture(scope="module")
def attacked() -> PersonAttack:
    return attack_person("output", runs=60_000)


def test_an_attack_proves_less_than_is_claimed_for_a_person_and_much_more_than_for_a_row(
    attacked: PersonAttack,
) -> None:
    assert attacked.faults == ()
    assert 0.5 < attacked.person.bounds.epsilon <= attacked.person.claimed == 1.0
    assert attacked.row.claimed == 1.0
    assert attacked.row.bounds.direct > 3
    assert attacked.person.null == attacked.row.null == 0


def test_a_guarantee_for_rows_that_is_taken_for_one_of_persons_is_refuted(attacked: PersonAttack) -> None:
    confused = replace(attacked, person=attacked.row, row=attacked.person)
    assert len(confused.faults) == 2
    assert "was proved for a person" in confused.faults[0]
    assert "the control" in confused.faults[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKED)
def test_no_attack_refutes_a_claim_for_persons(name: str) -> None:
    found = attack_person(name, seed=1)
    assert found.faults == ()
    assert found.row.bounds.epsilon > 3 * found.row.claimed


def test_both_models_are_attacked_with_the_same_rows() -> None:
    for_persons, for_rows = attacks_on_person("dp-gd")
    assert for_persons.mechanism == for_rows.mechanism == DPGD(steps=3, standardise=False)
    for one, other in zip(
        (for_persons.pair.left, for_persons.pair.right),
        (for_rows.pair.left, for_rows.pair.right),
        strict=True,
    ):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1]["target"], other[1])
    assert len(for_rows.pair.left[0]) - len(for_rows.pair.right[0]) == PERSON_ROWS


def test_one_mechanism_is_attacked_whatever_is_named() -> None:
    assert attacked_names(["rsgd"]) == ("output",)
    assert attacked_names(["objective", "ssp"]) == ("objective",)
    assert attacked_names(audited_names()) == ATTACKED


# The command.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few plans."""
    monkeypatch.setattr(
        examination, "person_cases", lambda mechanism: islice(person_cases(mechanism), 0, 20, 5)
    )


@pytest.mark.usefixtures("quick")
def test_the_command_prints_a_table_and_the_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--persons", "amp", "output-gd", "--runs", "30000", "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "50 rows" in printed
    assert "amp: refused: " in printed
    assert f"output, attack on a person of {PERSON_ROWS} rows: ε ≥ 0." in printed
    assert "output, the same on a model for rows, the control: ε ≥ " in printed
    assert "4 of 4 mechanisms that treat persons wrongly were caught." in printed


@pytest.mark.usefixtures("quick")
def test_the_command_fails_if_a_claim_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        examination,
        "attack_person",
        lambda *facts: (lambda found: replace(found, person=found.row))(attack_person(*facts)),
    )
    command = ["audit", "--persons", "amp", "--runs", "20000", "--processes", "1", "--json"]
    assert run(command) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["sound"]
    assert "was proved for a person" in found["faults"][0]
    assert found["mechanisms"][0]["standing"] == "refused"


def test_the_command_refuses_what_it_cannot_audit(capsys: pytest.CaptureFixture[str]) -> None:
    for words, wanted in (
        (["--out", "somewhere"], "an audit of its own"),
        (["--self-test"], "an audit of its own"),
        (["none"], "not private"),
        (["ouput"], "output"),
        (["rsgd:paper"], "give the name alone"),
    ):
        assert run(["audit", "--persons", *words]) != 0
        assert wanted in capsys.readouterr().err


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 100"):
        list(audit_persons(["amp"], runs=10))


# The page.

COMMAND = "dperm audit --persons"
PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
SHOWN = PAGE.split(f"```sh\n{COMMAND}\n```\n\n```text\n")[1].split("```")[0]


def test_the_page_shows_every_mechanism_as_it_stands() -> None:
    lines = {line.split()[0]: line.split() for line in SHOWN.split("How far")[0].splitlines() if line.split()}
    for name in audited_names():
        assert lines[name][1] == (REFUSED if name in REFUSING else CERTIFIED)
    for name in TAKING:
        *_, few, some, many, as_rows = map(float, lines[name][2:])
        assert max(few, some, many) <= 1.0 < as_rows
    for name in ATTACKED:
        person, row = re.findall(rf"^{name}, .*ε ≥ ([\d.]+)", SHOWN, re.MULTILINE)
        assert float(person) <= 1.0 < 3.0 < float(row)


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints() -> None:
    with cli_examples.at_the_readers():
        assert cli_examples.alike(SHOWN, cli_examples.printed_by(COMMAND))
