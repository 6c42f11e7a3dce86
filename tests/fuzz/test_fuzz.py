"""A short run of the fuzzer over all targets, and proof that it finds what is planted."""

import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from fuzz_harness import (
    SECRET_DATE,
    SECRET_NUMBER,
    SECRET_TEXT,
    SECRETS,
    Target,
    attempt,
    input_of,
    smaller,
)
from fuzz_targets import TARGETS
from planted import Crashing, Sound
from sklearn.utils import check_array

from dperm.errors import BudgetExceeded, InvalidInput
from mutations import mutated_bytes, mutated_document

pytestmark = pytest.mark.system_noise(failing=0)  # in processes of their own

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("rows", "settings")  # a fit each: fewer of them


def fuzz(*arguments):
    """Exit status, the lines of the table by target, and all that was printed."""
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / "fuzz.py", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = re.findall(
        r"^(\S.*?) +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +[\d.]+ ms", ran.stdout, re.MULTILINE
    )
    table = {name: [int(count.replace(",", "")) for count in counts] for name, *counts in lines}
    return ran.returncode, table, ran.stdout + ran.stderr


def only(names):
    return [word for name in names for word in ("--only", name)]


def check_run(names, inputs):
    status, table, text = fuzz("--inputs", str(inputs), "--processes", "1", *only(names))
    assert table["all"][0] == inputs, text
    assert set(table) == {"all", *names}
    for name, (count, refused, accepted, crashes) in table.items():
        assert count == refused + accepted + crashes
        assert refused > 0, f"{name}: what is broken must be refused sometimes"
    assert (
        sum(accepted > 0 for _, _, accepted, _ in table.values()) > len(table) - 2
    )  # and the whole accepted
    assert (status, table["all"][3]) == (0, 0), text


def test_two_thousand_inputs_crash_nothing():
    check_run([kind.name for kind in TARGETS if kind.name not in SLOW], 2000)


def test_rows_and_settings_crash_nothing():
    check_run(SLOW, 150)


# The controls.


@pytest.fixture(scope="module")
def found():
    return fuzz("--targets", str(Path(__file__).with_name("planted.py")), "--inputs", "160", "--seed", "1")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("crashing", "KeyError at fuzz/planted.py"),
        ("hanging", "Hang at fuzz/planted.py"),
        ("waiting", "Hang at fuzz/planted.py"),
        ("telling", "Leak at fuzz/planted.py"),
        ("hiding", "Leak at fuzz/planted.py"),
        ("dying", "Death at exit status -9"),
        ("eating", "MemoryError at fuzz/planted.py"),
    ],
)
def test_a_planted_bug_is_found(found, name, error):
    status, table, text = found
    assert status == 1
    assert table[name][3] >= 1
    assert f"{name}: {error}" in text


def test_a_death_does_not_stop_the_run(found):
    _, table, _ = found
    assert table["all"][0] == 160
    inputs, refused, accepted, crashes = table["sound"]
    assert inputs == refused + accepted
    assert min(refused, accepted) > 0
    assert crashes == 0


class Given(Target):
    """Runs a function that a test gives."""

    name, share = "given", 1

    def __init__(self, work, scikit_learn=False):
        self.work, self.scikit_learn = work, scikit_learn

    def make(self, rng):
        return rng.random()

    def run(self, value):
        self.work(value)


def raising(error):
    def work(value):
        raise error

    return Given(work)


def test_refusals_are_no_crashes():
    for error in (InvalidInput("no."), BudgetExceeded("no.")):
        outcome = attempt(raising(error), None)
        assert outcome.refused
        assert outcome.crash is None
    outcome = attempt(Given(lambda value: None), None)
    assert not outcome.refused
    assert outcome.crash is None


def test_other_errors_are_crashes():
    for error in (ValueError("x"), TypeError("x"), RecursionError(), SystemExit(1), MemoryError()):
        assert attempt(raising(error), None).crash.error == type(error).__name__


def test_scikit_learn_may_refuse_where_that_is_said_and_nowhere_else():
    def work(value):
        check_array([[np.nan]])

    assert attempt(Given(work, scikit_learn=True), None).refused
    assert attempt(Given(work), None).crash.error == "ValueError"
    own = Given(lambda value: [][1], scikit_learn=True)
    assert attempt(own, None).crash.error == "IndexError"


def test_a_record_is_found_wherever_an_error_holds_it():
    def chained(value):
        try:
            raise ValueError(f"at {SECRET_NUMBER}")
        except ValueError as error:
            raise InvalidInput("clean.") from error

    def forgotten(value):
        try:
            raise ValueError(SECRET_TEXT)
        except ValueError:
            raise InvalidInput("clean.")  # noqa: B904

    def warned(value):
        warnings.warn(SECRET_TEXT, stacklevel=1)

    def silenced(value):
        try:
            raise ValueError(SECRET_TEXT)
        except ValueError:
            raise InvalidInput("clean.") from None

    def kept(value):
        raise InvalidInput("clean.", {"cell": SECRET_DATE})

    def noted(value):
        error = InvalidInput("clean.")
        error.add_note(f"the cell was {SECRET_NUMBER:.1f}")
        raise error

    def grouped(value):
        try:
            raise ExceptionGroup("clean", [ValueError("clean"), ValueError(np.array([987654321.125]))])
        except ExceptionGroup as error:
            raise InvalidInput("clean.") from error

    def forgetting(value):
        try:
            raise ValueError(SECRET_TEXT)
        except ValueError:
            pass
        raise InvalidInput("clean.")

    for work in (chained, forgotten, warned, silenced, kept, noted, grouped):
        assert attempt(Given(work), None).crash.error == "Leak", work.__name__
    for secret in SECRETS:
        assert attempt(raising(InvalidInput(f"this was found: {secret}")), None).crash.error == "Leak"
    assert attempt(Given(forgetting), None).refused


def test_a_failing_input_is_made_small(tmp_path):
    def work(value):
        if b"!" in value and b"?" in value:
            raise KeyError

    target = Given(work)
    value = bytes(range(256))
    assert smaller(target, value, attempt(target, value).crash) == b"!?"
    target = Given(lambda value: {}["x"] if value.get("bad") else None)
    value = {"a": 1, "bad": True, "c": 3}
    assert smaller(target, value, attempt(target, value).crash) == {"bad": True}


def test_a_number_and_a_seed_give_the_input_again(tmp_path):
    targets = [Sound(tmp_path), Crashing(tmp_path)]
    first = [input_of(targets, 3, number) for number in range(50)]
    assert first == [input_of(targets, 3, number) for number in range(50)]
    assert first != [input_of(targets, 4, number) for number in range(50)]
    assert len({id(target) for target, _ in first}) == 2


def test_mutations_change_a_copy():
    document = {"a": [1, {"b": "text"}], "c": None}
    rng = random.Random(0)
    changed = [mutated_document(rng, document) for _ in range(300)]
    assert document == {"a": [1, {"b": "text"}], "c": None}
    assert sum(repr(other) != repr(document) for other in changed) > 250
    texts = {mutated_bytes(rng, b"a = 1\nb = 2\n", [b"other"]) for _ in range(300)}
    assert len(texts) > 150
