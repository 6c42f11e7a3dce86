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


def main(folder: str, root: Path = ROOT) -> None:
    study, page = Path(folder) / "plan", root / "docs" / "planning.md"
    for name, place in COPIES.items():
        shutil.copyfile(study / name, root / place)
    report = (study / "report.md").read_text(encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
