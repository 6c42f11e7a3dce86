"""Populations to draw test rows from, of which every true metric is known, and the coverage of intervals on them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score

from dperm.counting.bins import AGAINST, CONFIDENCE, DEFAULTS, SCORES, Scale, ScoreBins, default_bins, odds_of
from dperm.counting.classification import Classification, LabelledScores, loss_cap
from dperm.counting.design import Owners
from dperm.counting.query import Query
from dperm.counting.regression import PredictedTargets, Regression
from dperm.estimators.persons import GroupedRows
from dperm.evaluation.curves import estimated
from dperm.privacy import Budget, Gate
from dperm.unit import Neighbours

PEOPLE = 200_000


@dataclass(frozen=True, eq=False)
class Scored:
    """People with a label and the log odds that a model gives them, not quite calibrated.

    ``parted`` is how far off the public scale of the bins is: by so many spreads, and in units of so many.
    """

    rows: LabelledScores
    parted: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def drawn(cls, centre=-0.5, spread=1.5, seed=0, shrunk=1.0, parted=(0.0, 1.0)):
        """A model that shrinks gives only so much of the log odds."""
        rng = np.random.default_rng(seed)
        odds = rng.normal(centre, spread, PEOPLE)
        labels = (rng.random(PEOPLE) < expit(0.8 * odds + 0.2)).astype(np.int64)
        return cls(LabelledScores(labels, shrunk * odds, True), parted)

    @classmethod
    def of_four(cls, seed=0):
        rng = np.random.default_rng(seed)
        odds = rng.normal(0, 1.2, (PEOPLE, 4)) + np.array([0.5, 0.0, 0.0, -0.5])
        shares = softmax(0.9 * odds, axis=1).cumsum(axis=1)
        return cls(
            LabelledScores(np.minimum((rng.random(PEOPLE)[:, None] > shares).sum(axis=1), 3), odds, True)
        )

    @property
    def n_classes(self):
        return 2 if self.rows.binary else self.rows.log_odds.shape[1]

    @property
    def truth(self):
        rows = self.rows
        right = rows.predicted == rows.labels
        found = {
            "accuracy": right.mean(),
            "balanced_accuracy": np.mean([right[rows.labels == k].mean() for k in range(self.n_classes)]),
            "log_loss": np.minimum(rows.losses, loss_cap(self.n_classes)).mean(),
            "brier": rows.brier.mean(),
        }
        if not rows.binary:
            return found
        return found | {
            "precision": right[rows.predicted == 1].mean(),
            "recall": right[rows.labels == 1].mean(),
            "auc": roc_auc_score(rows.labels, rows.log_odds),
        }

    @property
    def scales(self):
        """As a model would tell them that knows the people well, but for what is ``parted``."""
        off, units = self.parted

        def scale(scores, line=None):
            spread = float(np.std(scores))
            return Scale(float(np.mean(scores)) + off * spread, units * spread, line)

        if self.rows.binary:
            return {SCORES: scale(self.rows.log_odds, 0.0)}
        chances = self.rows.log_chances
        against = {f"{AGAINST} {k}": scale(odds_of(column)) for k, column in enumerate(chances.T)}
        return against | {CONFIDENCE: scale(odds_of(chances.max(axis=1)))}

    def task(self, budget, neighbours, n):
        def with_bins(count):
            return Classification(self.n_classes, True, ScoreBins(count, self.scales))

        query = Query(design=with_bins(DEFAULTS[0]).design, budget=budget, neighbours=neighbours)
        return with_bins(default_bins(query.noise.scale, n))

    def sampled(self, sample):
        return LabelledScores(self.rows.labels[sample], self.rows.log_odds[sample], True)


@dataclass(frozen=True, eq=False)
class Measured:
    """People with a target from -1 to 1 and what a model predicts for them."""

    predicted: np.ndarray
    targets: np.ndarray
    error_bound: float | None = None

    @classmethod
    def drawn(cls, error=0.4, error_bound=None, seed=0):
        rng = np.random.default_rng(seed)
        predicted = rng.normal(0.1, 0.4, PEOPLE)
        return cls(predicted, predicted + rng.normal(0, error, PEOPLE), error_bound)

    @classmethod
    def skewed(cls, kind, seed=0):
        """Most targets near the lower end of their range, some far above, and predictions that know little of which."""
        rng = np.random.default_rng(seed)
        x = rng.normal(size=PEOPLE)
        targets, predicted, highest = {
            "lognormal": lambda: (np.exp(0.6 * x + 0.8 * rng.normal(size=PEOPLE)), 1.4 * np.exp(x / 2), 40.0),
            "exponential": lambda: (rng.exponential(np.exp(0.4 * x)), np.exp(0.4 * x), 20.0),
            "rare": lambda: (
                1 + 9 * (rng.random(PEOPLE) < 0.01) * rng.random(PEOPLE) + 0.1 * x,
                1 + 0.1 * x,
                10.0,
            ),
        }[kind]()
        return cls(2 * predicted / highest - 1, 2 * targets / highest - 1)

    @property
    def truth(self):
        targets, errors = (
            np.clip(self.targets, -1, 1),
            np.clip(self.targets, -1, 1) - np.clip(self.predicted, -1, 1),
        )
        errors = errors if self.error_bound is None else np.clip(errors, -self.error_bound, self.error_bound)
        return {
            "r2": 1 - (errors**2).mean() / targets.var(),
            "rmse": np.sqrt((errors**2).mean()),
            "mae": np.abs(errors).mean(),
        }

    def task(self, budget, neighbours, n):
        return Regression((-1.0, 1.0), self.error_bound, neighbours)

    def sampled(self, sample):
        return PredictedTargets(self.predicted[sample], self.targets[sample])


def coverage(
    people,
    epsilon,
    runs,
    neighbours="replace-one",
    n=5000,
    noise_known=True,
    seed=0,
    rows_each=1,
    by_row=False,
):
    """How often the intervals of ``runs`` evaluations hold the truth, and how often there was none.

    Without ``noise_known`` they are those of somebody who takes the noisy counts for exact ones. With several
    ``rows_each`` there are n persons whose rows are all alike; ``by_row`` is the evaluation of somebody who takes these
    rows for so many persons.
    """
    relation, rng = Neighbours.parse(neighbours), np.random.default_rng(seed)
    owners, counted = owners_of(n, rows_each, by_row)
    budget = Budget(epsilon, 1e-6)
    task = people.task(budget, relation, counted)
    query = Query(design=task.design, budget=budget, neighbours=relation)
    n_rows = counted if relation is Neighbours.REPLACE_ONE else None
    truth, gate = people.truth, Gate.seeded(seed)
    held, none = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for _ in range(runs):
        sample = np.repeat(rng.integers(0, PEOPLE, n), rows_each)
        vector = task.design.vector(task.counts(people.sampled(sample), owners))
        released = gate.for_jobs(1).release_one(vector, query.noise, "simulated")
        found = estimated(task, released, query.noise.scale if noise_known else 1e-9, n_rows)["metrics"]
        for name, true in truth.items():
            none[name] += not found[name].known
            held[name] += found[name].known and found[name].low <= true <= found[name].high
    return {name: held[name] / max(1, runs - none[name]) for name in truth}, none


def owners_of(n, rows_each, by_row):
    if rows_each == 1 or by_row:
        return None, n * rows_each
    return Owners.of_persons(GroupedRows.of(np.repeat(np.arange(n), rows_each))), n


def all_of_persons(X, y, rng, n_persons=30):
    """Rows of some persons with one to 40 each, all alike for some of them, long or not; in any order."""
    rows, targets, ids = [], [], []
    for person, count in enumerate(rng.integers(1, 41, n_persons)):
        places = rng.integers(0, len(y), count) if person % 2 else np.full(count, rng.integers(0, len(y)))
        rows.append(X[places] * (1e3 if person % 3 == 0 else 1.0))
        targets.append(y[places])
        ids.append(np.full(count, person))
    order = rng.permutation(sum(map(len, ids)))
    return tuple(np.concatenate(parts)[order] for parts in (rows, targets, ids))
