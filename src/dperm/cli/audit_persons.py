"""``dperm audit --persons``: does a guarantee for one person hold for persons with many rows?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.live import Live
from rich.table import Table

from dperm.cli.output import console, print_json, say

if TYPE_CHECKING:
    from dperm.audit.persons import PersonAttack, PersonAudit
    from dperm.audit.results import ControlResult


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
    from dperm.audit.persons import audit_persons

    seen, screen = _Seen(), console()
    live = not as_json and screen.is_terminal
    with Live(console=screen, refresh_per_second=2) if live else nullcontext() as shown:
        for result in audit_persons(mechanisms, epsilon, delta, runs=runs, seed=seed, processes=processes):
            line = seen.add(result)
            if isinstance(shown, Live):
                shown.update(seen.table())
            else:
                click.echo(line, err=True)
    if as_json:
        print_json(seen.document())
        return int(bool(seen.faults))
    if not live:
        screen.print(seen.table())
    say("\n".join(seen.summary()))
    return int(bool(seen.faults))


@dataclass
class _Seen:
    """All results so far."""

    audits: list[PersonAudit] = field(default_factory=list)
    attacks: list[PersonAttack] = field(default_factory=list)
    controls: list[ControlResult] = field(default_factory=list)

    def add(self, result: PersonAudit | PersonAttack | ControlResult) -> str:
        """Keep a result, and say it in a line."""
        from dperm.audit.persons import PersonAttack, PersonAudit

        if isinstance(result, PersonAudit):
            self.audits.append(result)
            return f"{result.mechanism}: {result.standing}, {result.replays} replays"
        if isinstance(result, PersonAttack):
            self.attacks.append(result)
            return f"{result.mechanism}: attacked"
        self.controls.append(result)
        return f"broken on purpose, {result.control}: {'caught' if result.caught else 'MISSED'}"

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
