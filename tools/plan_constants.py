"""Bring what ``dperm reproduce plan`` found into the package, and what the package holds of it to its page.

``python tools/plan_constants.py FOLDER`` takes constants and study from FOLDER/plan to src/dperm/planning/data. Tables
and figure of docs/planning.md are taken by ``dperm reproduce --write-docs docs --out FOLDER``. Without a folder the
tables are counted again, from the study in the package, into docs/data/plan.parquet.
"""

import shutil
import sys
from pathlib import Path

from dperm.planning.expectation import constants, study_rows
from dperm_papers.pages.files import Results
from dperm_papers.pages.reports import tables_of
from dperm_papers.pages.runs import Run
from dperm_papers.reproduce.expected import ITEMS, Fit

ROOT = Path(__file__).resolve().parents[1]
PLACE = "src/dperm/planning/data"
FILES = ("expected.json", "study.csv")


def main(folder: str, root: Path = ROOT) -> None:
    for name in FILES:
        shutil.copyfile(Path(folder) / "plan" / name, root / PLACE / name)


def count_again() -> Results:
    """The tables of ``dperm reproduce plan``, from the study that it left in the package."""
    made = constants()
    run = Run(
        date=made["made"],
        command=made["command"].removesuffix(" --seed 0"),
        size="full",
        seed=0,
        versions={"dperm": made["version"]},
        note="tables counted again by `python tools/plan_constants.py` from the study in the package",
    )
    return Results(tables_of(ITEMS["plan"], Fit.of(study_rows()).report()), run)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        print(count_again().write(ROOT / "docs" / "data" / "plan.parquet"))
