"""Take runs of ``dperm compare`` into docs/data.

``python tools/take_comparisons.py FILE COLUMN TABLE/PART=FOLDER ...`` makes docs/data/FILE.parquet of the folders of
several ``dperm compare --out FOLDER``, each table with its parts side by side in a column named COLUMN. Then run
``make tables``.
"""

import sys
from pathlib import Path

from dperm_papers.pages.comparisons import take_comparisons

DATA = Path(__file__).resolve().parents[1] / "docs" / "data"

if __name__ == "__main__":
    if len(sys.argv) < 4 or not all("=" in word for word in sys.argv[3:]):
        raise SystemExit("usage: python tools/take_comparisons.py FILE COLUMN TABLE/PART=FOLDER ...")
    file, column, *named = sys.argv[1:]
    folders = {title: Path(folder) for title, _, folder in (one.partition("=") for one in named)}
    print(take_comparisons(DATA / f"{file}.parquet", column, folders, "`dperm compare` as its page says"))
