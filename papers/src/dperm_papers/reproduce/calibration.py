"""Whether the default's probabilities are what happens: predicted against observed on held-out rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.spec import digest_rows
from dperm.experiments.splits import assign_folds
from dperm.experiments.tuning import measured_only
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.item import Bench

BINS = 10


def run(records: Records, epsilons: Sequence[float], delta: float, folds: int, bench: Bench) -> pa.Table:
    """Rows ``dataset, epsilon, bin, count, predicted, observed``: the default estimator, every row held out once."""
    key = {
        "rows": digest_rows(records.X, _positive(records), None),
        "dataset": records.name,
        "epsilons": list(epsilons),
        "delta": delta,
        "folds": folds,
        "seed": bench.seed,
    }
    report = bench.progress(f"{records.name}, calibration")

    def make() -> list[dict[str, Any]]:
        rows = []
        for place, epsilon in enumerate(epsilons):
            report(place, len(epsilons))
            probabilities = _held_out(records, epsilon, delta, folds, bench.seed)
            rows += [
                {"dataset": records.name, "epsilon": epsilon, **one}
                for one in binned(probabilities, _positive(records))
            ]
        report(len(epsilons), len(epsilons))
        return rows

    return cached(bench.parts, "calibration", key, make, bench.fresh)


def _positive(records: Records) -> NDArray[np.bool_]:
    """The larger of the two labels is the positive one, as in a comparison."""
    return np.asarray(records.y == np.unique(records.y)[1])


def _held_out(records: Records, epsilon: float, delta: float, folds: int, seed: int) -> NDArray[np.float64]:
    """The probability of the positive label, each row judged by the model that did not see it."""
    fold_of = assign_folds(records.name, 0, len(records.X), folds)
    probabilities = np.empty(len(records.X))
    for fold in range(folds):
        tested = fold_of == fold
        model = PrivateLogisticRegression(
            epsilon=epsilon,
            delta=delta,
            classes=np.unique(records.y).tolist(),
            random_state=np.random.default_rng([seed, fold]),
        )
        with measured_only():
            model.fit(records.X[~tested], records.y[~tested])
            probabilities[tested] = model.predict_proba(records.X[tested])[:, 1]
    return probabilities


def binned(probabilities: NDArray[np.float64], positive: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Ten bins of equal width: how many rows, their mean probability, and the share that is positive."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    found = []
    for some in np.unique(place):
        inside = place == some
        found.append(
            {
                "bin": int(some),
                "count": int(inside.sum()),
                "predicted": float(probabilities[inside].mean()),
                "observed": float(positive[inside].mean()),
            }
        )
    return found


def expected_error(bins: Sequence[Mapping[str, Any]]) -> float:
    """Mean distance of predicted and observed, every row counting once: the expected calibration error."""
    count = np.array([one["count"] for one in bins], float)
    distance = np.abs([one["predicted"] - one["observed"] for one in bins])
    return float(count @ distance / count.sum())


def pooled(bins: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The bins of several sets as one table, every row counting once."""
    found = []
    for some in sorted({one["bin"] for one in bins}):
        mine = [one for one in bins if one["bin"] == some]
        count = np.array([one["count"] for one in mine], float)
        row: dict[str, float] = {"bin": some, "count": int(count.sum())}
        for name in ("predicted", "observed"):
            row[name] = float(count @ [one[name] for one in mine] / count.sum())
        found.append(row)
    return found
