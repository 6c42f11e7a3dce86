"""Bring the constants that ``dperm reproduce plan`` found into the package: ``python tools/plan_constants.py FOLDER``.

They and the study go from FOLDER/plan to src/dperm/planning/data. Tables and figure of docs/planning.md are taken by
``dperm reproduce --write-docs docs --out FOLDER``.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = "src/dperm/planning/data"
FILES = ("expected.json", "study.csv")


def main(folder: str, root: Path = ROOT) -> None:
    for name in FILES:
        shutil.copyfile(Path(folder) / "plan" / name, root / PLACE / name)


if __name__ == "__main__":
    main(sys.argv[1])
