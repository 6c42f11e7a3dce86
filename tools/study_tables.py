"""Put the tables and figures of ``dperm reproduce defaults`` into docs/defaults.md.

``python tools/study_tables.py FOLDER`` takes FOLDER/defaults/report.md and replaces the text between the two markers of
the page by it, without its heading; the figures go to docs/_static.
"""

import shutil
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "defaults.md"
FIGURES = {
    "figure.png": "defaults.png",
    "others.png": "defaults-others.png",
    "regret.png": "defaults-regret.png",
}
BEGIN, END = "<!-- study -->\n", "<!-- /study -->\n"


def inserted(page: str, report: str) -> str:
    """The page with the report between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"docs/defaults.md needs the markers {BEGIN.strip()} and {END.strip()}.")
    body = report.partition("\n")[2].strip().replace("\n## ", "\n### ")
    return f"{before}{BEGIN}\n{body}\n\n{END}{after}"


def main(folder: str, page: Path = PAGE) -> None:
    study = Path(folder) / "defaults"
    report = (study / "report.md").read_text(encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), report), encoding="utf-8")
    for name, shown in FIGURES.items():
        shutil.copyfile(study / name, page.parent / "_static" / shown)


if __name__ == "__main__":
    main(sys.argv[1])
