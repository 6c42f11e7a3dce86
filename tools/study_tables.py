"""Tables and figures of docs/defaults.md from the data of its study: ``python tools/study_tables.py [--write]``.

``python tools/study_tables.py FOLDER`` first takes a run of ``dperm reproduce defaults --out FOLDER`` into docs/data:
the mean of every metric of every entrant on every set at every ε, and the bins of calibration. Tables, checks and
figures are computed from these by the functions of the study itself and go between the markers of the page, the
figures to docs/_static.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.experiments.reproduce import constants_tables, defaults_tables, find_item, regression_runs
from dperm.experiments.reproduce.defaults import DRAWN
from dperm.experiments.reproduce.item import Check, Section
from dperm.experiments.reproduce.regret import Entry
from dperm.experiments.results import Study, curves, separate
from result_data import DATA, Run
from take_results import run_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "defaults.md"
FIGURES = {
    "figure.png": "defaults.png",
    "others.png": "defaults-others.png",
    "regret.png": "defaults-regret.png",
}
BEGIN, END = "<!-- study -->\n", "<!-- /study -->\n"
MEANS = pa.schema(
    [
        ("dataset", pa.dictionary(pa.int16(), pa.string())),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("label", pa.dictionary(pa.int16(), pa.string())),
        ("private", pa.bool_()),
        ("metric", pa.dictionary(pa.int8(), pa.string())),
        ("epsilon", pa.float64()),
        ("mean", pa.float64()),
    ]
)
_KEY = b"dperm-run"
_SKIPPED = re.compile(r"^## Skipped\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^`(dperm reproduce defaults[^`]*)`", re.MULTILINE)


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyData:
    """What the page is computed from."""

    entries: Sequence[Entry]
    bins: Sequence[dict[str, Any]]
    sets: dict[str, str]
    run: Run
    skipped: tuple[str, ...]

    @property
    def epsilons(self) -> tuple[float, ...]:
        means = (mean for entry in self.entries for mean in entry.means.values())
        return tuple(sorted({epsilon for mean in means for epsilon in mean}))

    def sections(self) -> tuple[Section, ...]:
        calibrated = tuple(sorted({row["epsilon"] for row in self.bins}))
        return (
            *constants_tables.sections(self.entries, self.sets, self.epsilons),
            *defaults_tables.sections(self.entries, self.bins, self.sets, self.epsilons, calibrated),
        )

    def checks(self) -> tuple[Check, ...]:
        return (
            *constants_tables.checks(self.entries, self.sets, self.epsilons),
            *defaults_tables.checks(self.entries, self.sets, self.epsilons),
        )


def taken(folder: Path) -> StudyData:
    """The study in a folder that ``dperm reproduce defaults`` wrote."""
    entries: list[Entry] = []
    sets: dict[str, str] = {}
    for name in ("results.parquet", "candidates.parquet"):
        for part in separate(pq.read_table(folder / name)) if (folder / name).exists() else ():
            study = Study.of(part)
            sets[study.dataset] = "binary" if study.n_classes == 2 else "classes"
            entries += [Entry.of(study.dataset, curve) for curve in curves(part)]
    if (folder / "regression.parquet").exists():
        found = regression_runs.entries(pq.read_table(folder / "regression.parquet"))
        entries += found
        sets |= {entry.dataset: "regression" for entry in found}
    bins = folder / "calibration.parquet"
    report = (folder / "report.md").read_text(encoding="utf-8")
    command, skipped = _COMMAND.search(report), _SKIPPED.search(report)
    return StudyData(
        entries=entries,
        bins=pq.read_table(bins).to_pylist() if bins.exists() else [],
        sets=sets,
        run=run_of(folder, command[1] if command else "dperm reproduce defaults"),
        skipped=tuple(re.findall(r"^- (.*)$", skipped[1] if skipped else "", re.MULTILINE)),
    )


def save(data: StudyData, folder: Path = DATA) -> None:
    rows = [
        {
            "dataset": entry.dataset,
            "kind": data.sets[entry.dataset],
            "label": entry.label,
            "private": entry.private,
            "metric": metric,
            "epsilon": epsilon,
            "mean": mean,
        }
        for entry in data.entries
        for metric, means in entry.means.items()
        for epsilon, mean in means.items()
    ]
    facts = {**asdict(data.run), "skipped": list(data.skipped)}
    table = pa.Table.from_pylist(rows, schema=MEANS).replace_schema_metadata({_KEY: json.dumps(facts)})
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "defaults.parquet", compression="zstd")
    if data.bins:
        bins = pa.Table.from_pylist(list(data.bins))
        pq.write_table(bins, folder / "defaults-calibration.parquet", compression="zstd")


def read(folder: Path = DATA) -> StudyData:
    table = pq.read_table(folder / "defaults.parquet")
    facts = json.loads(table.schema.metadata[_KEY])
    skipped = tuple(facts.pop("skipped"))
    means: dict[tuple[str, str, bool], dict[str, dict[float, float]]] = {}
    sets = {}
    for row in table.to_pylist():
        sets[row["dataset"]] = row["kind"]
        mine = means.setdefault((row["dataset"], row["label"], row["private"]), {})
        mine.setdefault(row["metric"], {})[row["epsilon"]] = row["mean"]
    bins = folder / "defaults-calibration.parquet"
    return StudyData(
        entries=[
            Entry(dataset=dataset, label=label, private=private, means=some)
            for (dataset, label, private), some in means.items()
        ],
        bins=pq.read_table(bins).to_pylist() if bins.exists() else [],
        sets=sets,
        run=Run(**facts),
        skipped=skipped,
    )


def study(data: StudyData) -> str:
    """What stands between the markers."""
    parts = [
        "All figures are evaluations on held-out rows, not private releases.",
        data.run.in_words("defaults"),
        *(section.as_markdown() for section in data.sections()),
        _listed("Checks", [str(check) for check in data.checks()]),
        _listed("Skipped", data.skipped),
        _listed("What differs", find_item("defaults").differs),
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def inserted(page: str, text: str) -> str:
    """The page with the text between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"docs/defaults.md needs the markers {BEGIN.strip()} and {END.strip()}.")
    return f"{before}{BEGIN}\n{text}\n\n{END}{after}"


def write(data: StudyData, page: Path = PAGE) -> None:
    page.write_text(inserted(page.read_text(encoding="utf-8"), study(data)), encoding="utf-8")
    for name, draw in DRAWN.items():
        draw(data.entries, data.sets, data.epsilons, page.parent / "_static" / FIGURES[name])


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        write(read())
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        data = taken(Path(arguments[0]) / "defaults")
        save(data)
        write(read())
    elif arguments:
        raise SystemExit("usage: python tools/study_tables.py [FOLDER | --write]")
    else:
        print(study(read()))


if __name__ == "__main__":
    main(sys.argv[1:])
