"""The picture of a report on the front page: ``python tools/report_picture.py`` writes docs/_static/report.png.

Trains on the bundled census table with the noise of a release, has ``dperm report`` write its page, and takes a picture
of its beginning with a headless Chromium (``CHROMIUM`` names another program).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dperm.cli.app import run
from dperm.datasets import load_adult

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "report.png"
WIDTH, HEIGHT = 960, 1240


def write_page(folder: Path, epsilon: float = 0.5, delta: float = 1e-8) -> Path:
    """A model of the census table and its report, in a folder."""
    from dperm import PrivateLogisticRegression, PublicEncoder, save_model

    adult = load_adult()
    rows = PublicEncoder(adult.schema).fit_transform(adult.table)
    model = PrivateLogisticRegression(epsilon=epsilon, delta=delta, classes=adult.classes)
    save_model(model.fit(rows, adult.y), folder / "income.json", schema=adult.schema)
    page = folder / "report.html"
    if run(["report", str(folder / "income.json"), "--html", str(page)]) != 0:
        raise SystemExit("dperm report refused the model.")
    return page


def photograph(page: Path, picture: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                os.environ.get("CHROMIUM", "chromium"),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                f"--screenshot={picture}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        photograph(write_page(Path(folder)), PICTURE)
    sys.stdout.write(f"wrote {PICTURE}\n")
