"""Mean predictions as a part of a web page: one table, every word escaped."""

from __future__ import annotations

from html import escape

from dperm.evaluation.drawing import interval_drawing
from dperm.evaluation.intervals import UNIT
from dperm.evaluation.means.found import FoundMeans
from dperm.evaluation.means.text import heads, named, rows_in_group
from dperm.evaluation.text import interval, shown
from dperm.render.numbers import written


def section(found: FoundMeans) -> str:
    """The whole fragment."""
    parts = [
        f"<h2>{escape(found.title[0].upper() + found.title[1:])}</h2>",
        _head(found),
        _table(found),
        *(f"<p class=dim>{escape(note)}</p>" for note in found.notes),
    ]
    return f"<section>{''.join(parts)}</section>"


def _head(found: FoundMeans) -> str:
    promise = f"ε\u00a0=\u00a0{found.budget['epsilon']:g}, δ\u00a0=\u00a0{written(found.budget['delta'])}"
    hidden = escape(found.neighbours)
    told = f"Differentially private for these {found.unit}s: {promise}, {hidden} neighbours."
    if not found.private:
        told = f"NOT PRIVATE: the noise was seeded. Else {promise}, {hidden} neighbours."
    kind = "dim" if found.private else "alarm"
    paid = "" if found.ledger_entry is None else f"<br>Paid by <code>{escape(found.ledger_entry)}</code>."
    return (
        f"<p class={kind}>{told} The 95 % interval is for people like these, and counts both the choice of the "
        f"{found.unit}s and the noise; that of these {found.unit}s alone counts the noise.{paid}</p>"
    )


def _table(found: FoundMeans) -> str:
    drawn = found.range == UNIT
    head = "".join(f"<th>{escape(word)}</th>" for word in (found.by if found.groups else "", *heads(found)))
    lines = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(
            f"<td class=l>{cell}</td>"
            for cell in (rows_in_group(one.rows), shown(one.mean), interval(one.mean), interval(one.here))
        )
        + f"<td class=drawn>{interval_drawing(one.mean) if drawn else ''}</td></tr>"
        for name, one in named(found)
    )
    return (
        f"<div class=wide><table><thead><tr>{head}<th class=drawn></th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )
