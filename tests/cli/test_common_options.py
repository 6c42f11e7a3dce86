"""Every command: the options that they share, the same defaults, and help that states them and fits a terminal."""

import click
import pytest

from dperm.cli.app import cli, run
from dperm.cli.options import loss_names, relation_names
from dperm.unit import Neighbours
from dperm_audit.command import audit


def walk(path, command):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk((*path, name), inner)


COMMANDS = {" ".join(path): command for path, command in walk((), cli)} | {"audit": audit}
FITS_OR_PRICES = ("fit", "account", "compare")
READS_MODELS = ("predict", "show", "export", "verify", "report", "ledger check")
NAMES_MECHANISMS = ("mechanisms", "audit")


def options(name):
    return {option.opts[0]: option for option in COMMANDS[name].params if isinstance(option, click.Option)}


def test_the_commands_that_fit_or_price_are_those_with_a_mechanism():
    assert {name for name in COMMANDS if "--mechanism" in options(name)} == set(FITS_OR_PRICES)


@pytest.mark.parametrize("name", FITS_OR_PRICES)
def test_commands_that_fit_or_price_share_options_and_defaults(name):
    found = options(name)
    assert found["--l2"].default == "auto"
    assert found["--neighbours"].default == "replace-one"
    assert found["--neighbours"].type.choices == tuple(relation.value for relation in Neighbours)
    assert found["--max-rows"].type.min == 1
    assert found["--import"].multiple
    assert found["--import"].is_eager
    assert "--loss" in found
    assert "--json" in found


def test_one_mechanism_by_default():
    for name in ("fit", "account"):
        assert options(name)["--mechanism"].default == "auto"
        assert options(name)["--loss"].default == "auto"


@pytest.mark.together
@pytest.mark.parametrize("name", [*READS_MODELS, *NAMES_MECHANISMS])
def test_whoever_resolves_a_name_can_import_first(name):
    assert options(name)["--import"].is_eager


SHARED = (
    "--l2",
    "--neighbours",
    "--max-rows",
    "--import",
    "--schema",
    "--target",
    "--json",
    "--force",
    "--seed",
)


@pytest.mark.together
@pytest.mark.parametrize("option", SHARED)
def test_an_option_is_the_same_wherever_it_is(option):
    found = [options(name)[option] for name in COMMANDS if option in options(name)]
    assert len(found) > 1
    assert len({(each.to_info_dict()["default"], each.multiple, each.is_flag) for each in found}) == 1


def test_losses_and_relations_come_from_one_place():
    for name in COMMANDS:
        found = options(name)
        if "--loss" in found:
            assert found["--loss"].type.choices == loss_names()
        if "--neighbours" in found:
            assert found["--neighbours"].type.choices == relation_names()


def unstated(option):
    """Whether a person who leaves the option out is not told what happens."""
    return not (option.is_flag or option.required or option.show_default)


@pytest.mark.together
@pytest.mark.parametrize("name", COMMANDS)
def test_help_states_every_default_and_fits_eighty_columns(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert [option for option in options(name).values() if unstated(option)] == []
    assert run([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    shown = " ".join(text.split()).replace("- ", "-")
    for option in options(name).values():
        assert option.opts[0] in shown
        if option.show_default:
            stated = (
                option.show_default if isinstance(option.show_default, str) else f"default: {option.default}"
            )
            assert stated in shown


def test_an_option_without_a_stated_default_is_noticed():
    assert unstated(click.Option(["--silent"], type=float))
    assert not unstated(click.Option(["--spoken"], type=float, default=1.0, show_default=True))


def test_an_argument_with_a_default_says_so_in_the_help():
    for command in COMMANDS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Argument) and isinstance(parameter.default, str):
                assert parameter.default in (command.help or "")
