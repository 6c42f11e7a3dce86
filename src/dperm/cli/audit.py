"""``dperm audit``: try to break the claims of the mechanisms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.live import Live
from rich.table import Table

from dperm.cli.options import json_option
from dperm.cli.output import console, print_json
from dperm.errors import InvalidInput

if TYPE_CHECKING:
    from dperm.audit.results import AuditResult, ControlResult

FIGURE, RESULTS = "audit.png", "audit.json"


@click.command(short_help="Attack the mechanisms and see whether their claims stand.")
@click.argument("mechanisms", metavar="[MECHANISM]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every mechanism, and all that is broken on purpose.")
@click.option(
    "--self-test", "testing", is_flag=True, help="Break the library in known ways; the audit must notice."
)
@click.option("--mutations", metavar="DIR", help="Where --self-test finds the ways.  [default: the source's]")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to try.")
@click.option("--delta", type=float, help="The claim to try.  [default: 0.01, or 0 for a pure claim]")
@click.option("--runs", type=int, default=150_000, show_default=True, help="Runs on each of two tables.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the noise of the attacks.")
@click.option(
    "--processes", type=click.IntRange(1), default=2, show_default=True, help="To work side by side."
)
@click.option("--out", "folder", metavar="DIR", help=f"Write {RESULTS} and {FIGURE} to this folder.")
@json_option
def audit(
    mechanisms: tuple[str, ...],
    everything: bool,
    testing: bool,
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

    Mechanisms that are broken on purpose are tried too and must be caught. Exits with 1 if a claim is broken, if so
    few runs were made that nothing could be proved of it, or if a broken mechanism is missed. With --self-test the
    library itself is broken, one function at a time, and every mechanism that is touched is audited.

    \b
    Examples:
      dperm audit rsgd-ar
      dperm audit --all --out audited
      dperm audit --self-test
    """
    if testing or mutations is not None:
        from dperm.cli.self_test import run_self_test

        return run_self_test(mutations, mechanisms, runs, seed, processes, as_json)
    from dperm.audit.controls import CONTROLS
    from dperm.audit.examination import audit_all, noise_differs_between_processes

    if not mechanisms and not everything:
        raise InvalidInput("name a mechanism to audit, or use --all; dperm mechanisms lists them.")
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    controls = [control.name for control in CONTROLS if everything or control.caught_by == "audit"]
    found = audit_all(
        mechanisms or None,
        epsilon,
        delta,
        runs=runs,
        seed=seed,
        controls=controls,
        processes=processes,
    )
    seen = _Seen()
    screen = console()
    live = not as_json and screen.is_terminal
    with Live(console=screen, refresh_per_second=2) if live else nullcontext() as shown:
        for result in found:
            seen.add(result)
            if isinstance(shown, Live):
                shown.update(seen.table())
            else:
                click.echo(_line(result), err=True)
    seen.processes_differ = noise_differs_between_processes()
    document = seen.document()
    if folder is not None:
        from dperm.audit.figure import draw_audit

        Path(folder, RESULTS).write_text(json.dumps(document, indent=1) + "\n")
        draw_audit(seen.audits, seen.controls, Path(folder, FIGURE))
    if as_json:
        print_json(document)
        return int(not seen.sound)
    if not live:
        table = seen.table()
        wide = screen.options.update(width=1000, max_width=1000)
        screen.width = max(screen.width, screen.measure(table, options=wide).maximum)  # never cut
        screen.print(table)
    for line in seen.summary():
        screen.print(line)
    return int(not seen.sound)


def _line(result: AuditResult | ControlResult) -> str:
    """Progress, for a pipe or a log."""
    from dperm.audit.results import AuditResult

    if isinstance(result, AuditResult):
        return (
            f"{result.mechanism}: {result.verdict}, {result.ratio:.0%} of the claim, "
            f"{result.replays.replays} replays"
        )
    return f"broken on purpose, {result.control}: {'caught' if result.caught else 'MISSED'}"


@dataclass
class _Seen:
    """All results so far."""

    audits: list[AuditResult] = field(default_factory=list)
    controls: list[ControlResult] = field(default_factory=list)
    processes_differ: bool = True

    def add(self, result: AuditResult | ControlResult) -> None:
        from dperm.audit.results import AuditResult

        if isinstance(result, AuditResult):
            self.audits.append(result)
        else:
            self.controls.append(result)

    @property
    def untried(self) -> list[AuditResult]:
        """Claims of which more runs would have proved a part."""
        return [each for each in self.audits if each.verdict == "inconclusive" and not each.out_of_reach]

    @property
    def sound(self) -> bool:
        broken = [audit for audit in self.audits if audit.faults]
        missed = [control for control in self.controls if not control.caught]
        return not (broken or missed or self.untried) and self.processes_differ

    def table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("mechanism", "attack that proved most"):
            table.add_column(heading, no_wrap=True)
        for heading in ("claim ε", "δ", "proved ε", "ratio", "null", "verdict", "CPU s"):
            table.add_column(heading, justify="right", no_wrap=True)
        for result in self.audits:
            best = result.best
            assert best is not None  # the audit of a command makes all its attacks
            table.add_row(
                result.mechanism,
                best.attack if best.ratio > 0 else "none proved anything",
                f"{best.claimed:g}",
                f"{best.delta:g}",
                f"{best.bounds.epsilon:.3f}",
                f"{best.ratio:.0%}",
                f"{result.null:g}",
                result.verdict,
                f"{result.seconds:.0f}",
                style="" if not result.faults else "bold red",
            )
        return table

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
