"""Every mutation takes effect while it is applied and leaves nothing behind; `make audit` runs the whole self-test."""

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import dperm.mechanisms.gradient.frank_wolfe
import dperm.mechanisms.output.family
import dperm.mechanisms.output.output
import dperm_audit.self_test
from dperm.errors import InvalidInput
from dperm_audit import examination
from dperm_audit.command import audit as command
from dperm_audit.replay import replay_all
from dperm_audit.results import INCONCLUSIVE
from dperm_audit.self_test import (
    CRASHED,
    EXAMPLE,
    REFUSED,
    Mutation,
    every_private,
    load_mutations,
    self_test,
    trial,
)

MUTATIONS = load_mutations()
few_replays = partial(replay_all, share=40)
RUNS = 2000
HARMLESS = """
from dperm_audit import examination
from dperm_audit.self_test import EXAMPLE, Mutation

CORNER = "dperm.mechanisms.gradient.frank_wolfe.vertex_sensitivity"
MUTATIONS = (
    Mutation(
        name="harmless",
        what_is_wrong="Nothing.",
        touches=("frank-wolfe",),
        changes={CORNER: lambda bound: lambda *facts: bound(*facts)},
        probe=lambda: 0,
    ),
    Mutation(
        name="halved",
        what_is_wrong="The score of a corner is taken to move half as far as it does.",
        touches=("frank-wolfe", "output-gd"),
        changes={CORNER: lambda bound: lambda *facts: bound(*facts) / 2},
        probe=lambda: 0,
    ),
    Mutation(
        name="negative",
        what_is_wrong="The score of a corner is taken to move by a negative number, which the library refuses.",
        touches=("frank-wolfe",),
        changes={CORNER: lambda bound: lambda *facts: -1.0},
        probe=lambda: 0,
    ),
    Mutation(
        name="raises",
        what_is_wrong="A function does not take its arguments: a mistake of the mutation, not of the library.",
        touches=("frank-wolfe",),
        changes={CORNER: lambda bound: lambda: 0.0},
        probe=lambda: 0,
    ),
)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "some.py").write_text(HARMLESS)
    return tmp_path


@pytest.mark.together
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_takes_effect_and_goes_away(mutation):
    before = mutation.probe()
    with mutation.apply():
        assert mutation.probe() != before
    assert mutation.probe() == before


@pytest.mark.together
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_touches_mechanisms_that_exist(mutation):
    assert mutation.touches
    assert set(mutation.touches) <= set(every_private())


def test_all_private_mechanisms_are_touched():
    assert {name for mutation in MUTATIONS for name in mutation.touches} == set(every_private())


def test_a_function_is_replaced_wherever_it_was_imported_and_put_back_even_after_an_error():
    def broken(*facts):
        raise AssertionError

    mutation = Mutation(
        name="any",
        what_is_wrong="It raises.",
        touches=("output",),
        changes={"dperm.planning.pricing.price_branches": lambda sound: broken},
        probe=lambda: 0,
    )
    importers = dperm.mechanisms.output.output, dperm.mechanisms.output.family
    sound = dperm.mechanisms.output.output.price_branches
    with mutation.apply():
        assert all(module.price_branches is broken for module in importers)
    with pytest.raises(ZeroDivisionError), mutation.apply():
        _ = 1 / 0
    assert all(module.price_branches is sound for module in importers)


@pytest.mark.together
@pytest.mark.parametrize(
    "path", ["dperm.problem.Problem.no_such_norm", "dperm.no_such_module.function", "dperm.problem.No.norm"]
)
def test_a_mutation_of_what_is_not_there_is_refused(path):
    mutation = Mutation(
        name="any", what_is_wrong="", touches=(), changes={path: lambda sound: sound}, probe=lambda: 0
    )
    with pytest.raises(InvalidInput, match="no function"), mutation.apply():
        pass
    assert EXAMPLE.row_norm > EXAMPLE.x_norm


def test_a_folder_that_holds_no_mutations_is_refused_with_a_way_out(tmp_path):
    with pytest.raises(InvalidInput, match="--mutations"):
        load_mutations(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="was found"):
        load_mutations(tmp_path)
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(HARMLESS)
    with pytest.raises(InvalidInput, match="named twice"):
        load_mutations(tmp_path)


def test_names_that_nobody_knows_are_refused(folder):
    with pytest.raises(InvalidInput, match="no mutation is named 'other'"):
        next(self_test(folder, mutations=["other"]))
    with pytest.raises(InvalidInput, match="no private mechanism is named 'none'"):
        next(self_test(folder, mechanisms=["none"]))


def test_a_trial_tells_apart_what_is_noticed_and_what_is_not(folder, monkeypatch):
    monkeypatch.setattr(examination, "replay_all", few_replays)
    found = {
        name: trial(folder, name, "frank-wolfe", RUNS, 0)
        for name in (None, "harmless", "halved", "negative", "raises")
    }
    assert [name for name, each in found.items() if each.passed] == [None, "halved", "negative"]
    assert (found["negative"].verdict, found["raises"].verdict) == (REFUSED, CRASHED)
    # So few runs prove nothing of its claim, but they find no fault either.
    assert found["harmless"].verdict == found[None].verdict == INCONCLUSIVE


@pytest.mark.system_noise(failing=1e-9)
def test_the_command_fails_and_says_what_was_missed(folder, monkeypatch):
    monkeypatch.setattr(dperm_audit.self_test, "_in_fresh_process", trial)
    monkeypatch.setattr(examination, "replay_all", few_replays)
    asked = [
        "frank-wolfe",
        "--self-test",
        "--mutations",
        str(folder),
        "--runs",
        str(RUNS),
        "--processes",
        "1",
    ]
    shown = CliRunner().invoke(command, asked, standalone_mode=False)
    assert (shown.exception, shown.return_value) == (None, 1)
    assert "2 of 4 audits of a broken library noticed it" in shown.stdout
    assert "No fault was found in 1 of 1 mechanisms when nothing is wrong" in shown.stdout
    assert "harmless: frank-wolfe: MISSED" in shown.stderr


@pytest.mark.system_noise(failing=1e-9)
def test_the_command_succeeds_when_all_is_caught_in_processes_of_their_own(tmp_path):
    (tmp_path / "one.py").write_text(HARMLESS + "MUTATIONS = MUTATIONS[1:2]\n")
    asked = ["frank-wolfe", "--mutations", str(tmp_path), "--runs", str(RUNS), "--json"]
    ran = CliRunner().invoke(command, asked, standalone_mode=False)
    assert (ran.exception, ran.return_value) == (None, 0)
    found = json.loads(ran.stdout)["trials"]
    assert [(each["mutation"], each["passed"]) for each in found] == [(None, True), ("halved", True)]
    assert dperm.mechanisms.gradient.frank_wolfe.vertex_sensitivity.__name__ == "vertex_sensitivity"
