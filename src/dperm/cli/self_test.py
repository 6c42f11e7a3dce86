"""``dperm audit --self-test``: does the audit notice what is broken on purpose?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table

from dperm.cli.output import console, print_json

if TYPE_CHECKING:
    from dperm.audit.self_test import Trial

NOTHING = "nothing is wrong"


def run_self_test(
    folder: str | None, mechanisms: Sequence[str], runs: int, seed: int, processes: int, as_json: bool
) -> int:
    """Run it, show each result as it comes and a table at the end; 1 if the audit missed something."""
    from dperm.audit.self_test import load_mutations, self_test

    order = [None, *(mutation.name for mutation in load_mutations(folder))]
    trials = []
    for trial in self_test(folder, mechanisms=mechanisms or None, runs=runs, seed=seed, processes=processes):
        trials.append(trial)
        click.echo(_line(trial), err=True)
    trials.sort(key=lambda trial: order.index(trial.mutation))  # mechanisms as they came
    failed = [trial for trial in trials if not trial.passed]
    if as_json:
        print_json(
            {"sound": not failed, "trials": [{**asdict(trial), "passed": trial.passed} for trial in trials]}
        )
        return int(bool(failed))
    screen = console()
    table = _table(trials)
    wide = screen.options.update(width=1000, max_width=1000)
    screen.width = max(screen.width, screen.measure(table, options=wide).maximum)  # never cut
    screen.print(table)
    mistakes = [trial for trial in trials if trial.mutation is not None]
    caught = sum(trial.passed for trial in mistakes)
    sound = sum(trial.passed for trial in trials) - caught
    screen.print(f"{caught} of {len(mistakes)} audits of a broken library noticed it.")
    screen.print(
        f"No fault was found in {sound} of {len(trials) - len(mistakes)} mechanisms when nothing is wrong."
    )
    return int(bool(failed))


def _line(trial: Trial) -> str:
    """Progress, for a terminal, a pipe or a log."""
    why = f", {trial.faults[0]}" if trial.faults else ""
    return f"{trial.mutation or NOTHING}: {trial.mechanism}: {_word(trial)} after {trial.seconds:.0f} s{why}"


def _word(trial: Trial) -> str:
    if trial.mutation is None:
        return trial.verdict
    return "caught" if trial.passed else "MISSED"


def _table(trials: Sequence[Trial]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("what is wrong", "mechanism", "result"):
        table.add_column(heading, no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("by", no_wrap=True)
    previous: object = trials
    for trial in trials:
        named = "" if trial.mutation == previous else trial.mutation or NOTHING
        previous = trial.mutation
        table.add_row(
            named,
            trial.mechanism,
            _word(trial),
            f"{trial.seconds:.0f}",
            _short(trial.faults[0]) if trial.faults else "",
            style="" if trial.passed else "bold red",
        )
    return table


def _short(fault: str, longest: int = 100) -> str:
    line = " ".join(fault.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
