"""What class weights and a tuned threshold do to balanced accuracy where one class is rare.

``python -m benchmarks.rare_classes [--data docs/data/rare-classes.parquet]``: BANK and Adult, five random splits, with
seeded noise. Evaluations on held-out rows, not private releases.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks import record
from dperm import PrivateLogisticRegression, balanced_weights
from dperm.datasets import load_dataset
from dperm.experiments.metrics import with_error
from dperm.experiments.tuning import measured_only
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.runs import Stopwatch

SETS, EPSILONS, DELTA, SPLITS = ("bank", "adult"), (0.1, 1.0), 1e-6, 5
SHARE = 0.2
"""Of all rows to judge on; of ε, δ and the rows to train on for the threshold."""

PLAIN, WEIGHTED, TUNED, OPEN = "as it is", "class_weight", "tune_threshold", "weights, no privacy"
Judged = dict[str, list[tuple[float, float]]]


def judged(name: str, epsilon: float) -> tuple[float, Judged]:
    """The share of the rare class, and by way the balanced accuracy and the area under the ROC curve of every split."""
    found = load_dataset(name)
    X, y, classes = found.X, np.asarray(found.y), list(found.classes)
    positive = float(np.mean(y == classes[1]))
    share = round(positive, 2)
    weights = balanced_weights({classes[0]: 1 - share, classes[1]: share})
    reached: Judged = {way: [] for way in (PLAIN, WEIGHTED, TUNED, OPEN)}
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(order, [int(SHARE * len(y))])
        tune, rest = np.split(train, [int(SHARE * len(train))])

        def model(part: float = 1.0, seed: int = split, **settings: Any) -> PrivateLogisticRegression:
            return PrivateLogisticRegression(
                epsilon=part * epsilon, delta=part * DELTA, classes=classes, random_state=seed, **settings
            )

        ways = {
            PLAIN: model().fit(X[train], y[train]),
            WEIGHTED: model(class_weight=weights).fit(X[train], y[train]),
            TUNED: model(1 - SHARE).fit(X[rest], y[rest]),
            OPEN: model(class_weight=weights, mechanism="none").fit(X[train], y[train]),
        }
        ways[TUNED].tune_threshold(
            X[tune], y[tune], epsilon=SHARE * epsilon, delta=SHARE * DELTA, random_state=split
        )
        for way, fitted in ways.items():
            area = roc_auc_score(y[test] == classes[1], fitted.decision_function(X[test]))
            reached[way].append((balanced_accuracy_score(y[test], fitted.predict(X[test])), area))
    return positive, reached


def table(measure: int, found: Mapping[tuple[str, float], tuple[float, Judged]]) -> Table:
    """Of balanced accuracy (0) or the area under the ROC curve (1): mean ± standard error over the splits."""
    rows = []
    for (name, epsilon), (positive, reached) in found.items():
        row = [name, f"{epsilon:g}", f"{100 * positive:.0f} %"]
        for runs in reached.values():
            values = np.array([run[measure] for run in runs])
            row.append(with_error(values.mean(), values.std(ddof=1) / len(values) ** 0.5, 3))
        rows.append([cell(text) for text in row])
    return Table(("table", "ε", "positive", *next(iter(found.values()))[1]), rows)


def main() -> None:
    chosen = record.data_option(argparse.ArgumentParser(description=__doc__)).parse_args()
    watch = Stopwatch()
    with measured_only():
        found = {(name, epsilon): judged(name, epsilon) for name in SETS for epsilon in EPSILONS}
    tables = {"balanced-accuracy": table(0, found), "auc": table(1, found)}
    for made in tables.values():
        print(made.as_markdown())
    if chosen.data is not None:
        record.write(chosen.data, "python -m benchmarks.rare_classes", watch, tables)


if __name__ == "__main__":
    main()
