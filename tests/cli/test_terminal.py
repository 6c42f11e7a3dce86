"""What is printed fits the terminal it is printed on; into a pipe nothing is left out."""

import io
import re

import pytest
from rich.console import Console
from rich.table import Table

from dperm import Ledger
from dperm.cli.app import run
from dperm.cli.output import fitting

SCHEMA = '[target]\nname = "bought"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
FIT = "fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 --output model.json --ledger budget.db"
COMPARE = (
    "compare people.csv --schema people.toml --loss logistic --repeats 1 --folds 2 --mechanism majority "
    "--mechanism output"
)


@pytest.fixture
def terminal(tmp_path, monkeypatch, capsys):
    """Run a command line as on a terminal of 80 columns; its lines come without colours."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "people.csv").write_text("age,bought\n" + "30,no\n70,yes\n" * 100)
    Ledger.create("budget.db", epsilon=3.0, delta=1e-5)

    def call(line):
        assert run(line.split()) == 0
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out).splitlines()

    return call


def test_no_line_is_too_long_and_no_word_is_cut(terminal):
    lines = terminal(FIT)
    for command in ("verify model.json", "report model.json", "ledger show budget.db", COMPARE, "plot"):
        lines += terminal(command)
    lines += terminal("plan --n 5000 --features 20 --epsilon 1")
    lines += terminal("account --n 5000 --epsilon 1 --delta 1e-6 --mechanism rsgd-ar")
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    text = " ".join(" ".join(lines).split())
    for words in (
        "every other setting were chosen without looking at the data.",
        "ms/model",
        "in plain words",
    ):
        assert words in text.replace("In plain words", "in plain words")


def test_a_ledger_says_which_columns_it_left_out(terminal, monkeypatch, capsys):
    terminal(FIT)
    shown = terminal("ledger show budget.db")
    assert (
        "Not shown at this width: time, dataset, ε before, label, sha256, head; --json shows all."
        in " ".join(line.strip() for line in shown)
    )
    assert not any("PrivateLogisticRegression" in line for line in shown)
    monkeypatch.delenv("FORCE_COLOR")
    assert run(["ledger", "show", "budget.db"]) == 0
    out = capsys.readouterr().out
    assert "PrivateLogisticRegression" in out
    assert "Not shown" not in out


def table(columns):
    made = Table(box=None, pad_edge=False)
    for name in columns:
        made.add_column(name, no_wrap=True)
    return made


@pytest.mark.together
@pytest.mark.parametrize(
    ("width", "left_out"),
    [(80, []), (17, ["bbbb"]), (12, ["bbbb", "cccc"]), (3, ["bbbb", "cccc"])],
)
def test_optional_columns_are_left_out_from_the_last(width, left_out):
    names = ["aaaa", "bbbb", "cccc", "dddd"]
    screen = Console(file=io.StringIO(), force_terminal=True, width=width)
    made, missing = fitting(screen, names, ("cccc", "bbbb"), table)
    assert missing == left_out
    assert [column.header for column in made.columns] == [name for name in names if name not in left_out]
    assert screen.width == width


@pytest.mark.parametrize(("is_terminal", "wide"), [(False, False), (True, True)])
def test_a_pipe_and_a_wide_list_have_all_columns(is_terminal, wide):
    screen = Console(file=io.StringIO(), force_terminal=is_terminal, width=3)
    made, missing = fitting(screen, ["aaaa", "bbbb"], ("bbbb",), table, wide)
    assert (len(made.columns), missing) == (2, [])
    assert screen.width >= len("aaaa bbbb")
