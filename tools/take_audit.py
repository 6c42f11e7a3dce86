"""Take an audit into docs/data: ``python tools/take_audit.py FOLDER OPTIONS``, then ``make tables``.

FOLDER is that of ``dperm audit OPTIONS --out FOLDER``, such as ``'--all --seed 4'``.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dperm import __version__
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.files import Results
from dperm_papers.pages.runs import Run

DATA = Path(__file__).resolve().parents[1] / "docs" / "data" / "audit.parquet"
Found = Mapping[str, Any]


def take(file: Path, options: str) -> Results:
    document = json.loads(file.read_text(encoding="utf-8"))
    audits, controls = document["mechanisms"], document["controls"]
    run = Run(
        date=datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat(),
        command=f"dperm audit {options}",
        versions={"dperm": __version__},
    )
    tables = {
        "whole": _whole(audits, controls),
        "claims": _claims(audits),
        "other-attacks": _others(audits),
        "controls": _controls(controls),
    }
    return Results(tables, run)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(headings, [[cell(text) for text in row] for row in rows])


def _whole(audits: Sequence[Found], controls: Sequence[Found]) -> Table:
    verdicts = [one["verdict"] for one in audits]
    replays = sum(one["replays"]["replays"] for one in audits)
    seconds = sum(one["seconds"] for one in [*audits, *controls])
    rows = [(f"claims, {verdict}", str(verdicts.count(verdict))) for verdict in dict.fromkeys(verdicts)]
    rows += [
        ("controls", str(len(controls))),
        ("controls caught", str(sum(one["caught"] for one in controls))),
        ("replays", f"{replays:,}"),
        ("replays failed", str(sum(len(one["replays"]["failures"]) for one in audits))),
        ("largest null test", f"{max(attack['null'] for one in audits for attack in one['attacks']):g}"),
        ("minutes of processor time", f"{seconds / 60:.0f}"),
    ]
    return _table(("what", "value"), rows)


def _proved(attack: Found) -> float:
    bounds = attack["bounds"]
    return float(max(bounds["direct"], bounds["by_profile"] or 0.0))


def _best(one: Found) -> Found:
    return max(one["attacks"], key=lambda attack: _proved(attack) / attack["claimed"])


def _claims(audits: Sequence[Found]) -> Table:
    rows = []
    for one in sorted(audits, key=lambda one: -one["ratio"]):
        best = _best(one)
        by_profile = best["bounds"]["by_profile"]
        rows.append(
            (
                one["mechanism"],
                "ε at one δ" if by_profile is None else "profile",
                f"{best['runs']:,}",
                f"{best['bounds']['direct']:.3f}",
                "–" if by_profile is None else f"{by_profile:.3f}",
                f"{100 * one['ratio']:.1f} %",
            )
        )
    return _table(
        ("mechanism", "claim", "runs per table", "direct", "by the profile", "share of the claim"), rows
    )


def _others(audits: Sequence[Found]) -> Table:
    """Every attack that proved less of a mechanism than its best one."""
    found: dict[str, list[tuple[float, int, str]]] = {}
    for one in audits:
        for attack in one["attacks"]:
            if attack is not _best(one):
                proved = (_proved(attack), attack["runs"], one["mechanism"])
                found.setdefault(attack["attack"], []).append(proved)
    rows = []
    for name, some in sorted(found.items(), key=lambda item: -max(item[1])[0]):
        runs = sorted({f"{count:,}" for _, count, _ in some}, key=lambda text: int(text.replace(",", "")))
        least_most = runs[0] if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        shown = ", ".join(f"{mechanism} {proved:.2f}" for proved, _, mechanism in sorted(some, reverse=True))
        rows.append((name, least_most, shown))
    return _table(("attack", "runs per table", "proved ε"), rows)


def _controls(controls: Sequence[Found]) -> Table:
    attacked = [one for one in controls if one["ratio"] is not None]
    return _table(
        ("control", "proved, where 1 is claimed"),
        [(one["control"], f"{one['ratio']:.2f}") for one in sorted(attacked, key=lambda one: one["ratio"])],
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python tools/take_audit.py FOLDER OPTIONS")
    print(take(Path(sys.argv[1]) / "audit.json", sys.argv[2]).write(DATA))
