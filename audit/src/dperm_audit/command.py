"""``dperm audit``: try to break the claims of the mechanisms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dperm.cli import completion
from dperm.cli.grammar import read_grid
from dperm.cli.imports import imported
from dperm.cli.options import import_option, json_option
from dperm.cli.output import console, fitting, print_json, say
from dperm.errors import InvalidInput

if TYPE_CHECKING:
    from dperm_audit.persons import PersonAttack, PersonAudit
    from dperm_audit.results import AuditResult, ControlResult
    from dperm_audit.self_test import Trial

Result = TypeVar("Result")

FIGURE, RESULTS = "audit.png", "audit.json"
LEFT = ("mechanism", "attack that proved most")
COLUMNS = (*LEFT, "claim ε", "δ", "proved ε", "ratio", "null", "verdict", "CPU s")
OPTIONAL = ("claim ε", "δ", "null", "CPU s", "attack that proved most")


@click.command(short_help="Attack the mechanisms and see whether their claims stand.")
@click.argument("mechanisms", metavar="[NAME]...", nargs=-1, shell_complete=completion.mechanisms)
@click.option("--all", "everything", is_flag=True, help="Every mechanism, and all that is broken on purpose.")
@click.option(
    "--self-test", "testing", is_flag=True, help="Break the library in known ways; the audit must notice."
)
@click.option(
    "--persons", "by_person", is_flag=True, help="Persons with many rows: replays, attacks and controls."
)
@click.option(
    "--mutations",
    metavar="DIR",
    show_default="the source's",
    shell_complete=completion.folders,
    help="Where --self-test finds the ways.",
)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to try.")
@click.option("--delta", type=float, show_default="0.01, or 0 for a pure claim", help="The claim to try.")
@click.option("--runs", type=int, default=150_000, show_default=True, help="Runs on each of two tables.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the noise of the attacks.")
@click.option(
    "--processes", type=click.IntRange(1), default=2, show_default=True, help="To work side by side."
)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    show_default="no files",
    shell_complete=completion.folders,
    help=f"Write {RESULTS} and {FIGURE} to this folder.",
)
@import_option
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    mechanisms: tuple[str, ...],
    everything: bool,
    testing: bool,
    by_person: bool,
    mutations: str | None,
    epsilon: float,
    delta: float | None,
    runs: int,
    seed: int,
    processes: int,
    folder: str | None,
    as_json: bool,
) -> int:
    """Replay mechanisms on neighbours, check their draws and noise, and print how much of their ε attacks can prove.

    NAME is a mechanism, or evaluation for what dperm evaluate and dperm means release.

    Mechanisms that are broken on purpose are tried too and must be caught. Exits with 1 if a claim is broken, if so
    few runs were made that nothing could be proved of it, or if a broken mechanism is missed. With --self-test the
    library itself is broken, one function at a time, and every mechanism that is touched is audited. Mechanisms are
    tried with the settings for which their claims are tightest, those of a module that is imported in one process.

    With --persons a whole person is swapped, who has up to 50 rows: NAME takes fit(groups=...) or refuses it, and
    says why. A tenth of the runs are made. Exits with 1 if what meets the noise moves further than declared, if more
    than ε is proved for a person, or if the same attack does not break a guarantee for one row.

    \b
    Examples:
      dperm audit rsgd-ar
      dperm audit evaluation
      dperm audit --all --out audited
      dperm audit --self-test
      dperm audit --persons
    """
    from dperm_audit.evaluation import NAME as EVALUATION
    from dperm_audit.evaluation import audit_evaluation

    if by_person and (testing or mutations is not None or folder is not None):
        raise click.UsageError("--persons is an audit of its own; leave out --self-test and --out.")
    for text in mechanisms:
        if text != EVALUATION:
            _check_plain(text)
    if testing or mutations is not None:
        if imported(ctx):
            raise click.UsageError("--self-test breaks this library alone; leave out --import.")

        return run_self_test(mutations, mechanisms, runs, seed, processes, as_json)
    at_once = 1 if imported(ctx) else processes
    if by_person:
        return run_persons(mechanisms, epsilon, delta, runs, seed, at_once, as_json)
    from dperm_audit.controls import CONTROLS
    from dperm_audit.examination import audit_all, noise_differs_between_processes

    if not mechanisms and not everything:
        raise InvalidInput("name a mechanism to audit, or use --all; dperm mechanisms lists them.")
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    controls = [control.name for control in CONTROLS if everything or control.caught_by == "audit"]
    trained = tuple(name for name in mechanisms if name != EVALUATION)
    found: Iterable[AuditResult | ControlResult] = ()
    if trained or not mechanisms:
        found = audit_all(
            trained or None,
            epsilon,
            delta,
            runs=runs,
            seed=seed,
            controls=controls,
            processes=at_once,
        )
    if EVALUATION in mechanisms or not mechanisms:
        found = chain(found, audit_evaluation(epsilon, delta, runs, seed))
    seen, screen = _Seen(), console()
    _watch(found, seen.add, seen.table, screen, as_json)
    seen.processes_differ = noise_differs_between_processes()
    document = seen.document()
    if folder is not None:
        from dperm_audit.results import draw_audit

        Path(folder, RESULTS).write_text(json.dumps(document, indent=1) + "\n")
        draw_audit(seen.audits, seen.controls, Path(folder, FIGURE))
    if as_json:
        print_json(document)
        return int(not seen.sound)
    for line in seen.summary():
        screen.print(line)
    return int(not seen.sound)


def _check_plain(text: str) -> None:
    """Refuse what is not the bare name of a mechanism, with a way out."""
    name, grid = read_grid(text)
    if grid or ":" in name:
        raise InvalidInput(
            f"{text!r}: the audit tries {name.partition(':')[0]!r} with settings of its own; give the name alone. In "
            "Python, dperm_audit.audit(mechanism, problem=...) tries an object with the settings that you choose."
        )


def _watch(
    found: Iterable[Result],
    add: Callable[[Result], str],
    table: Callable[[Console], Table],
    screen: Console,
    as_json: bool,
) -> None:
    """Take results as they come: into a table that grows in a terminal, or a line each, and the table at the end."""
    live = not as_json and screen.is_terminal
    with Live(console=screen, refresh_per_second=2) if live else nullcontext() as shown:
        for result in found:
            line = add(result)
            if isinstance(shown, Live):
                shown.update(table(screen))
            else:
                click.echo(line, err=True)
    if not live and not as_json:
        screen.print(table(screen))


def _control_line(result: ControlResult) -> str:
    return f"broken on purpose, {result.control}: {'caught' if result.caught else 'MISSED'}"


def _cells(result: AuditResult) -> dict[str, str]:
    """The columns of one mechanism."""
    best = result.best
    assert best is not None  # the audit of a command makes all its attacks
    return {
        "mechanism": result.mechanism,
        "attack that proved most": best.attack if best.ratio > 0 else "none proved anything",
        "claim ε": f"{best.claimed:g}",
        "δ": f"{best.delta:g}",
        "proved ε": f"{best.bounds.epsilon:.3f}",
        "ratio": f"{best.ratio:.0%}",
        "null": f"{result.null:g}",
        "verdict": result.verdict,
        "CPU s": f"{result.seconds:.0f}",
    }


@dataclass
class _Seen:
    """All results so far."""

    audits: list[AuditResult] = field(default_factory=list)
    controls: list[ControlResult] = field(default_factory=list)
    processes_differ: bool = True

    def add(self, result: AuditResult | ControlResult) -> str:
        """Keep a result, and say it in a line."""
        from dperm_audit.results import AuditResult

        if isinstance(result, AuditResult):
            self.audits.append(result)
            return (
                f"{result.mechanism}: {result.verdict}, {result.ratio:.0%} of the claim, "
                f"{result.replays.replays} replays"
            )
        self.controls.append(result)
        return _control_line(result)

    @property
    def untried(self) -> list[AuditResult]:
        """Claims of which more runs would have proved a part."""
        return [each for each in self.audits if each.verdict == "inconclusive" and not each.out_of_reach]

    @property
    def sound(self) -> bool:
        broken = [audit for audit in self.audits if audit.faults]
        missed = [control for control in self.controls if not control.caught]
        return not (broken or missed or self.untried) and self.processes_differ

    def table(self, screen: Console) -> Table:
        """One line for each mechanism, with the columns that fit."""

        def make(columns: list[str]) -> Table:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for heading in columns:
                table.add_column(heading, justify="left" if heading in LEFT else "right", no_wrap=True)
            for result in self.audits:
                cells = _cells(result)
                style = "" if not result.faults else "bold red"
                table.add_row(*(cells[heading] for heading in columns), style=style)
            return table

        return fitting(screen, COLUMNS, OPTIONAL, make)[0]

    def summary(self) -> Iterable[str]:
        for audited in self.audits:
            yield from (f"{audited.mechanism}: {fault}" for fault in audited.faults)
        caught = sum(control.caught for control in self.controls)
        yield f"{caught} of {len(self.controls)} mechanisms that are broken on purpose were caught."
        for control in self.controls:
            if not control.caught:
                yield f"MISSED by the {control.caught_by}: {control.control}. {control.what_is_wrong}"
        yield f"{sum(audited.replays.replays for audited in self.audits)} replays were made."
        yield "Two processes drew " + ("different noise." if self.processes_differ else "THE SAME NOISE.")
        for audited in self.audits:
            if audited.verdict == "inconclusive":
                why = audited.out_of_reach or "too few runs; give more with --runs"
                yield f"{audited.mechanism}: inconclusive, the attacks proved nothing of its claim: {why}."
        standing = sum(audited.verdict == "stands" for audited in self.audits)
        yield (
            f"{standing} of {len(self.audits)} claims stand. "
            "That no attack broke them is no proof; docs/proofs has those."
        )

    def document(self) -> dict[str, Any]:
        return {
            "sound": self.sound,
            "mechanisms": [
                {
                    **asdict(audited),
                    "verdict": audited.verdict,
                    "faults": audited.faults,
                    "ratio": audited.ratio,
                }
                for audited in self.audits
            ],
            "controls": [{**asdict(control), "caught": control.caught} for control in self.controls],
            "processes_differ": self.processes_differ,
        }


NOTHING = "nothing is wrong"


def run_self_test(
    folder: str | None, mechanisms: Sequence[str], runs: int, seed: int, processes: int, as_json: bool
) -> int:
    """Run it, show each result as it comes and a table at the end; 1 if the audit missed something."""
    from dperm_audit.self_test import load_mutations, self_test

    order = [None, *(mutation.name for mutation in load_mutations(folder))]
    trials = []
    for trial in self_test(folder, mechanisms=mechanisms or None, runs=runs, seed=seed, processes=processes):
        trials.append(trial)
        click.echo(_trial_line(trial), err=True)
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


def _trial_line(trial: Trial) -> str:
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


def run_persons(
    mechanisms: Sequence[str],
    epsilon: float,
    delta: float | None,
    runs: int,
    seed: int,
    processes: int,
    as_json: bool,
) -> int:
    """Show results as they come, and what they come to; 1 if a claim is broken or a control is missed."""
    from dperm_audit.persons import audit_persons

    seen = _SeenPersons()
    found = audit_persons(mechanisms, epsilon, delta, runs=runs, seed=seed, processes=processes)
    _watch(found, seen.add, lambda _: seen.table(), console(), as_json)
    if as_json:
        print_json(seen.document())
        return int(bool(seen.faults))
    say("\n".join(seen.summary()))
    return int(bool(seen.faults))


@dataclass
class _SeenPersons:
    """All results so far."""

    audits: list[PersonAudit] = field(default_factory=list)
    attacks: list[PersonAttack] = field(default_factory=list)
    controls: list[ControlResult] = field(default_factory=list)

    def add(self, result: PersonAudit | PersonAttack | ControlResult) -> str:
        """Keep a result, and say it in a line."""
        from dperm_audit.persons import PersonAttack, PersonAudit

        if isinstance(result, PersonAudit):
            self.audits.append(result)
            return f"{result.mechanism}: {result.standing}, {result.replays} replays"
        if isinstance(result, PersonAttack):
            self.attacks.append(result)
            return f"{result.mechanism}: attacked"
        self.controls.append(result)
        return _control_line(result)

    @property
    def faults(self) -> list[str]:
        found = [fault for audit in self.audits for fault in audit.faults]
        found += [fault for attack in self.attacks for fault in attack.faults]
        missed = (control for control in self.controls if not control.caught)
        return found + [
            f"MISSED by the replay: {control.control}. {control.what_is_wrong}" for control in missed
        ]

    def table(self) -> Table:
        """One line for each mechanism: how far persons of so many rows move it, as a share of what is declared."""
        sizes = sorted({size for each in self.audits for size in each.moved})
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("mechanism", "with groups"):
            table.add_column(heading, no_wrap=True)
        counted = [f"{size} row{'s' * (size > 1)}" for size in sizes]
        for heading in ("replays", *counted, "as rows"):
            table.add_column(heading, justify="right", no_wrap=True)
        for each in self.audits:
            moved = [f"{each.moved[size]:.3f}" if size in each.moved else "–" for size in sizes]
            as_rows = "–" if each.as_rows is None else f"{each.as_rows:.1f}"
            replays = f"{each.replays:,}" if each.replays else "–"
            style = "bold red" if each.faults else ""
            table.add_row(each.mechanism, each.standing, replays, *moved, as_rows, style=style)
        return table

    def summary(self) -> Iterator[str]:
        yield (
            "How far a person of so many rows moves what meets the noise, as a share of what is declared: at most 1. "
            "As rows: the same of 50 rows under a guarantee for one row, the control, which must be above 1."
        )
        for each in self.audits:
            yield from (f"{what}: refused: {why}" for what, why in each.refusals)
        for attack in self.attacks:
            person, row = attack.person, attack.row
            yield (
                f"{attack.mechanism}, attack on a person of {attack.rows} rows: "
                f"ε ≥ {person.bounds.epsilon:.3g} proved, {person.claimed:g} claimed for one person."
            )
            yield (
                f"{attack.mechanism}, the same on a model for rows, the control: "
                f"ε ≥ {row.bounds.epsilon:.3g} proved, {row.claimed:g} claimed for one row."
            )
        yield from self.faults
        yield f"{sum(each.replays for each in self.audits):,} replays were made."
        caught = sum(control.caught for control in self.controls)
        yield f"{caught} of {len(self.controls)} mechanisms that treat persons wrongly were caught."
        yield (
            "A claim for persons is BROKEN, or was not tried."
            if self.faults
            else "No replay moved further than declared, and no attack proved more than was claimed for a person."
        )

    def document(self) -> dict[str, Any]:
        return {
            "sound": not self.faults,
            "faults": self.faults,
            "mechanisms": [asdict(each) for each in self.audits],
            "attacks": [asdict(each) for each in self.attacks],
            "controls": [{**asdict(control), "caught": control.caught} for control in self.controls],
        }
