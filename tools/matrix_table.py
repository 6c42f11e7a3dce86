"""The table in docs/matrix.md, from the cells that the tests run: ``python tools/matrix_table.py [--write]``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "matrix.md"
BLOCK = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- /matrix -->\n)", re.DOTALL)
sys.path.insert(0, str(ROOT / "tests" / "journeys"))

from feature_cells import FEATURES, REFUSALS, Cell, every_cell, refusal_of  # noqa: E402

LABELS = {
    "fit": "fit",
    "threshold": "tune a threshold",
    "evaluate": "evaluate",
    "means": "mean predictions",
    "search": "search for settings",
    "inference": "`inference=True`",
    "save": "save and load",
    "verify": "verify",
    "report": "report",
    "ledger": "ledger",
}


def table() -> str:
    """Acts against every other feature; what is refused has the number of its reason."""
    others = [(name, value) for name in list(FEATURES)[:-1] for value in FEATURES[name]]
    heads = [
        f"{'no' if value == 'none' else value} weights" if name == "weights" else value
        for name, value in others
    ]
    lines = ["| | " + " | ".join(heads) + " |", "| --- " * (len(heads) + 1) + "|"]
    for act in FEATURES["act"]:
        cells = " | ".join(_entry(act, *choice) for choice in others)
        lines.append(f"| {LABELS[act]} | {cells} |")
    reasons = [f"{place}. {_when(refusal)}: {refusal.why}" for place, refusal in enumerate(REFUSALS, 1)]
    every = list(every_cell())
    works = sum(refusal_of(cell) is None for cell in every)
    count = f"Of {len(every)} combinations {works} work and {len(every) - works} are refused:"
    return "\n" + "\n".join(lines) + f"\n\n{count}\n\n" + "\n".join(reasons) + "\n\n"


def _entry(act: str, name: str, value: str) -> str:
    """Whether the pair works, and the reasons that name this choice where it does not in every company."""
    cells = [cell for cell in every_cell() if cell.act == act and getattr(cell, name) == value]
    refused = [refusal for refusal in map(refusal_of, cells) if refusal is not None]
    told = sorted({REFUSALS.index(refusal) + 1 for refusal in refused if getattr(refusal, name)})
    reasons = ", ".join(map(str, told))
    return f"no ({reasons})" if len(refused) == len(cells) else f"yes, but {reasons}" if told else "yes"


def _when(refusal: object) -> str:
    chosen = [getattr(refusal, name) for name in Cell._fields]
    return "; ".join(" or ".join(values) for values in chosen if values)


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        PAGE.write_text(BLOCK.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif arguments:
        raise SystemExit("usage: python tools/matrix_table.py [--write]")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
