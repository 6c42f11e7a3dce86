"""The reference of the command line shows what its examples print, and has one for every command."""

import re

import pytest

import cli_examples
from dperm.cli.app import cli

TEXT = cli_examples.PAGE.read_text(encoding="utf-8")


def test_every_command_has_an_example_and_its_help():
    shown = re.findall(r"^### dperm (\w+)$", TEXT, re.MULTILINE)
    assert sorted(shown) == sorted(cli.list_commands(None))
    for name in shown:
        section = TEXT.split(f"### dperm {name}\n")[1].split("\n### ")[0]
        assert f"```{{commands}} {name}\n" in section
        examples = list(cli_examples.examples(cli_examples.HEADING + section))
        assert any(re.search(rf"^dperm {name}\b", commands, re.MULTILINE) for commands, _, _ in examples)
        assert all(printed.strip() for _, printed, _ in examples)


def test_the_examples_print_what_is_shown():
    with cli_examples.at_the_readers():
        for commands, shown, quick in cli_examples.examples(TEXT):
            if quick:
                printed = cli_examples.printed_by(commands)
                assert cli_examples.alike(shown, printed), f"run: make tables\n{commands}{printed}"


def test_another_output_is_noticed():
    one = "a table of 3 rows\nOK: (1, 1e-08) 0.25\nledger 0123456789abcdef\n"
    assert cli_examples.alike(
        one, one.replace("0.25", "-3.5e-7").replace("0123456789abcdef", "fedcba9876543210")
    )
    assert cli_examples.alike(one, one.replace("OK", "NOT OK"))  # one line of three
    assert not cli_examples.alike(one, one.replace("OK", "NOT OK").replace("a table", "a picture"))
    assert not cli_examples.alike(one, "")
    assert not cli_examples.alike("people.shards: 300 rows\n", "something else\n")


def test_what_a_command_prints_goes_below_it(monkeypatch):
    page = f"before\n{cli_examples.HEADING}\n```sh\ndperm --version\n```\n\n```text\nold\n```\n\nafter\n"
    found = cli_examples.written(page)
    assert re.search(r"```text\ndperm, version .*\n```\n\nafter\n$", found)
    with pytest.raises(SystemExit, match="ends with 2"):
        cli_examples.written(page.replace("--version", "--no-such-option"))
