"""Print the documentation's table of mechanisms from the registry, or put it into docs/mechanisms.md.

``python tools/mechanism_table.py`` prints, ``--write`` replaces the text between the two marker comments of the page.
"""

import sys
from pathlib import Path

from dperm.mechanisms.registry import Entry, catalogue, model_losses
from dperm.unit import Neighbours

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mechanisms.md"
BEGIN, END = "<!-- mechanisms -->\n", "<!-- /mechanisms -->\n"


def table() -> str:
    """One line per mechanism, grouped by family."""
    lines = ["| family | name | what it does | losses | relations | source |", "|---|---|---|---|---|---|"]
    family = None
    for entry in catalogue():
        first = entry.family if entry.family != family else ""
        family = entry.family
        cells = (first, _name(entry), _title(entry), _losses(entry), _relations(entry), entry.source)
        lines.append(f"| {' | '.join(cells)} |")
    losses = ", ".join(loss.name for loss in model_losses())
    legend = f"All losses: {losses}. Both relations: {' and '.join(Neighbours)}."
    return "\n".join([*lines, "", legend]) + "\n"


def _name(entry: Entry) -> str:
    """The name, with a link to the proof where a page has its name."""
    proof = f"proofs/{entry.name}.md"
    return f"[`{entry.name}`]({proof})" if (PAGE.parent / proof).is_file() else f"`{entry.name}`"


def _title(entry: Entry) -> str:
    return entry.title if entry.private else f"{entry.title} (**not private**)"


def _losses(entry: Entry) -> str:
    """All, all but a few, or a list: whichever is shortest."""
    left_out = [loss.name for loss in model_losses() if loss.name not in entry.losses]
    but = f"all but {', '.join(left_out)}" if left_out else "all"
    return min((but, ", ".join(entry.losses)), key=len)


def _relations(entry: Entry) -> str:
    return "both" if len(entry.relations) == len(Neighbours) else ", ".join(entry.relations)


def parts(page: str) -> tuple[str, str, str]:
    """The page before, between and after the markers."""
    before, _, rest = page.partition(BEGIN)
    between, marker, after = rest.partition(END)
    if not marker:
        raise SystemExit(f"docs/mechanisms.md needs the markers {BEGIN.strip()} and {END.strip()}.")
    return before, between, after


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        before, _, after = parts(PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")
    elif sys.argv[1:]:
        raise SystemExit("usage: python tools/mechanism_table.py [--write]")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
