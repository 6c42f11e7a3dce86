"""Put the tables of ``dperm reproduce defaults`` into docs/defaults.md.

``python tools/study_tables.py FOLDER`` takes FOLDER/defaults/report.md and replaces the text between the two markers of
the page by it, without its heading.
"""

import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "defaults.md"
BEGIN, END = "<!-- study -->\n", "<!-- /study -->\n"


def inserted(page: str, report: str) -> str:
    """The page with the report between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"docs/defaults.md needs the markers {BEGIN.strip()} and {END.strip()}.")
    body = report.partition("\n")[2].strip().replace("\n## ", "\n### ")
    return f"{before}{BEGIN}\n{body}\n\n{END}{after}"


def main(folder: str) -> None:
    report = (Path(folder) / "defaults" / "report.md").read_text(encoding="utf-8")
    PAGE.write_text(inserted(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
