"""Bring what ``dperm reproduce plan`` found into the package and its page.

``python tools/plan_constants.py FOLDER`` takes FOLDER/plan: the constants and the study go to src/dperm/planning/data,
the figure to docs/_static, and the tables between the markers of docs/planning.md.
"""

import shutil
import sys
from pathlib import Path

from study_tables import inserted

ROOT = Path(__file__).resolve().parents[1]
COPIES = {
    "expected.json": "src/dperm/planning/data/expected.json",
    "study.csv": "src/dperm/planning/data/study.csv",
    "figure.png": "docs/_static/plan.png",
}
NOTE = "All figures are evaluations on held-out rows, not private releases."


def main(folder: str, root: Path = ROOT) -> None:
    study, page = Path(folder) / "plan", root / "docs" / "planning.md"
    for name, place in COPIES.items():
        shutil.copyfile(study / name, root / place)
    report = (study / "report.md").read_text(encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), tables(report)), encoding="utf-8")


def tables(report: str) -> str:
    """The report without its head, which says where results were published and how long the run took."""
    return f"{NOTE}\n\n{report[report.index('**') :]}"


if __name__ == "__main__":
    main(sys.argv[1])
