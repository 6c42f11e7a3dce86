"""Private regression on held-out rows: R² of several mechanisms by cross-validation."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dperm.errors import DpermError
from dperm.estimators.linear import PrivateLinearRegression
from dperm.experiments.quiet import measured_only
from dperm.experiments.spec import digest_rows
from dperm.experiments.splits import assign_folds
from dperm.mechanisms import resolve
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.item import Bench
from dperm_papers.reproduce.regret import Entry


def run(
    records: Records,
    mechanisms: Mapping[str, str],
    y_range: tuple[float, float],
    *,
    epsilons: Sequence[float],
    delta: float,
    folds: int,
    repeats: int,
    bench: Bench,
) -> tuple[pa.Table, list[str]]:
    """Rows ``dataset, label, private, epsilon, repeat, fold, r2, seconds``, and who was refused and why."""
    tables, refused = [], []
    report = bench.progress(f"{records.name}, regression")
    for place, (label, mechanism) in enumerate(mechanisms.items()):
        report(place, len(mechanisms))
        key = {
            "rows": digest_rows(records.X, records.y.astype(np.float64), None),
            "dataset": records.name,
            "mechanism": resolve(mechanism),
            "label": label,
            "y_range": list(y_range),
            "budgets": [list(epsilons), delta],
            "folds": [folds, repeats],
            "seed": bench.seed,
        }

        def make(label: str = label, mechanism: str = mechanism) -> list[dict[str, Any]]:
            about = {"dataset": records.name, "label": label, "private": resolve(mechanism).private}
            rows = [
                {**about, "epsilon": epsilon, "repeat": repeat, "fold": fold}
                | _fit(records, mechanism, y_range, epsilon, delta, repeat, fold, folds, bench.seed)
                for epsilon in (epsilons if about["private"] else epsilons[:1])
                for repeat in range(repeats)
                for fold in range(folds)
            ]
            # A baseline is the same at every epsilon.
            return rows if about["private"] else [{**row, "epsilon": e} for e in epsilons for row in rows]

        try:
            tables.append(cached(bench.parts, "regression", key, make, bench.fresh))
        except DpermError as error:
            refused.append(f"{records.name}: {label}: {error}")
    report(len(mechanisms), len(mechanisms))
    return pa.concat_tables(tables), refused


def _fit(
    records: Records,
    mechanism: str,
    y_range: tuple[float, float],
    epsilon: float,
    delta: float,
    repeat: int,
    fold: int,
    folds: int,
    seed: int,
) -> dict[str, float]:
    tested = assign_folds(records.name, repeat, len(records.X), folds) == fold
    model = PrivateLinearRegression(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        y_range=y_range,
        random_state=np.random.default_rng([seed, repeat, fold]),
    )
    with measured_only():
        started = time.perf_counter()
        model.fit(records.X[~tested], records.y[~tested])
        seconds = time.perf_counter() - started
    return {"r2": float(model.score(records.X[tested], records.y[tested])), "seconds": seconds}


def entries(results: pa.Table) -> list[Entry]:
    """The means over all runs, entrant by entrant."""
    found: dict[tuple[str, str, bool], dict[float, list[float]]] = {}
    for row in results.to_pylist():
        mine = found.setdefault((row["dataset"], row["label"], row["private"]), {})
        mine.setdefault(row["epsilon"], []).append(row["r2"])
    return [
        Entry(
            dataset=dataset,
            label=label,
            private=private,
            means={"r2": {epsilon: float(np.mean(values)) for epsilon, values in by_epsilon.items()}},
        )
        for (dataset, label, private), by_epsilon in found.items()
    ]
