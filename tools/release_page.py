"""Make an example of the page to sign, and take its pictures.

``python tools/release_page.py FOLDER`` writes a made-up hospital table, its schema, a ledger, a model, a deployment
file, the page and the registry entry into FOLDER. With ``--picture`` it also takes the picture of docs/report.md, with
``--looks`` those of a screen by day and by night and of a telephone, and prints it to a PDF; both need chromium.
"""

import argparse
import contextlib
import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dperm.cli.app import run

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "page-to-sign.png"
ROWS = 20_000

SCHEMA = """\
[target]
name = "readmitted"
classes = ["no", "yes"]

[features.age]
range = [0, 100]

[features.stay]
range = [0, 60]
log = true

[features.visits]
range = [0, 20]

[features.ward]
categories = ["surgery", "medicine", "maternity", "children"]
"""

DEPLOYMENT = """\
[product]
name = "Readmission within 30 days"
description = "Predicts from age, length of stay, earlier visits and ward whether a patient comes back within 30 days."
version = "1"
purpose = "Planning of beds and follow-up calls. Not for decisions about a single patient."
audience = "Ward managers of the three hospitals; the model is published with the annual report."
access = "public"
releases = "one"
future = "A new model next year, from next year's patients."
publication_date = "2026-12-01"

[dataset]
name = "Discharges 2025"
description = "One row for each patient who was discharged in 2025: the last stay of the year."
region = "Exampleland"
sector = "Healthcare"
source = "static"
most_rows_per_person = 1
collection = "From the hospitals' records. Patients were told on admission and could object."

[curator]
organisations = ["Example Hospitals"]
contact = "data@hospitals.example"

[[made_by]]
name = "A. Analyst"
role = "data scientist"

[[approved_by]]
name = "P. Officer"
role = "data protection officer"

[privacy]
justification = "The board allows 2 for all that is ever published of these patients; half of it pays for this model."
preprocessing = "One row for each patient was kept, by a rule that looks at that patient alone. No setting was tuned."
actors = "Two analysts see the rows. Everybody sees the model. Nobody else is trusted."
security = "Rows stay on an encrypted server of the hospitals; access is logged and reviewed every month."
other_releases = "None from the patients of 2025."

[registry]
authors = ["A. Analyst"]
"""


def table(rows: int = ROWS, seed: int = 0) -> str:
    """Made-up patients."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(58, 20, rows), 0, 100)
    stay = np.minimum(rng.exponential(6, rows), 60)
    visits = rng.poisson(1.5, rows)
    ward = rng.choice(["surgery", "medicine", "maternity", "children"], rows, p=[0.3, 0.5, 0.1, 0.1])
    score = -3.2 + 0.015 * age + 0.06 * stay + 0.35 * visits - 0.8 * (ward == "maternity")
    back = rng.uniform(size=rows) < 1 / (1 + np.exp(-score))
    lines = [
        f"{a:.0f},{s:.1f},{v},{w},{'yes' if b else 'no'}"
        for a, s, v, w, b in zip(age, stay, visits, ward, back, strict=True)
    ]
    return "\n".join(["age,stay,visits,ward,readmitted", *lines]) + "\n"


def make(folder: Path) -> Path:
    """All files of the example; the page among them."""
    texts = {
        "patients.csv": table(),
        "others.csv": table(5000, seed=1),
        "patients.toml": SCHEMA,
        "deployment.toml": DEPLOYMENT,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    rows, others, schema, deployment = (str(folder / name) for name in texts)
    names = ("budget.db", "model.json", "evaluation.json", "page.html", "entry.yaml")
    ledger, model, figures, page, entry = (str(folder / name) for name in names)
    guarantee = ["--epsilon", "1", "--delta", "1e-7", "--output", model, "--ledger", ledger]
    about = ["--deployment", deployment, "--ledger", ledger, "--evaluation", figures]
    for command in (
        ["ledger", "create", ledger, "--epsilon", "2", "--delta", "1e-6"],
        ["fit", rows, "--schema", schema, *guarantee],
        ["evaluate", model, others, "--epsilon", "1", "--output", figures],
        ["report", model, *about, "--html", page, "--registry", entry],
    ):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = run(command)
        if code != 0:
            raise SystemExit(said.getvalue())
    return folder / "page.html"


def shot(page: Path, picture: Path, width: int, height: int, *flags: str) -> None:
    """One picture of the page in a window of this size."""
    browse(f"--window-size={width},{height}", f"--screenshot={picture}", *flags, page.resolve().as_uri())


def telephone(page: Path, picture: Path, width: int = 390, height: int = 844, top: int = 0) -> None:
    """As a telephone shows it, from ``top`` on; a browser's own window cannot be as narrow."""
    frame = page.with_name("frame.html")
    style = f"border:0;width:{width}px;height:20000px;margin-top:-{top}px"
    body = (
        f'<body style="margin:0;overflow:hidden"><iframe src="{page.name}" style="{style}"></iframe></body>'
    )
    frame.write_text(f"<!doctype html>{body}\n", encoding="utf-8")
    shot(frame, picture, 500, height)


def browse(*flags: str) -> None:
    with tempfile.TemporaryDirectory() as profile:
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        offline = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command = ["chromium", *quiet, *offline, f"--user-data-dir={profile}", *flags]
        subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("--looks", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    page = make(asked.folder)
    if asked.picture:
        shot(page, PICTURE, 960, 1160)
    if asked.looks:
        shot(page, asked.folder / "day.png", 1000, 7000)
        shot(page, asked.folder / "night.png", 1000, 7000, "--blink-settings=preferredColorScheme=0")
        telephone(page, asked.folder / "telephone.png", height=9000)
        browse(
            f"--print-to-pdf={asked.folder / 'page.pdf'}", "--no-pdf-header-footer", page.resolve().as_uri()
        )


if __name__ == "__main__":
    main()
