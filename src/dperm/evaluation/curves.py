"""Curves of a classifier from the estimated counts: ROC and calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import Figure
from dperm.evaluation.ratios import cell_ratio
from dperm.evaluation.scales import CONFIDENCE, SCORES, ScoreBins

MOST_POINTS = 10
FEWEST_ROWS = 20.0
NOISES = 4.0


@dataclass(frozen=True, kw_only=True)
class RocPoint:
    """Rates at one threshold, on the probability of the positive class."""

    threshold: float
    false_positive_rate: Figure
    true_positive_rate: Figure


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows with a chance between ``low`` and ``high``, ``predicted`` on average, and the share of which it came true.

    The average takes each row for the middle of its bin.
    """

    low: float
    high: float
    predicted: float
    share_of_rows: Figure
    observed: Figure


def roc(counts: Estimates, bins: ScoreBins) -> list[RocPoint]:
    """A point for each inner edge, from the highest threshold down."""
    label, place = np.divmod(np.arange(2 * bins.count), bins.count)
    ends = bins.limits(SCORES)
    return [
        RocPoint(
            threshold=float(ends[edge]),
            false_positive_rate=cell_ratio(
                counts, SCORES, 1.0 * ((label == 0) & (place >= edge)), 1.0 * (label == 0)
            ),
            true_positive_rate=cell_ratio(
                counts, SCORES, 1.0 * ((label == 1) & (place >= edge)), 1.0 * (label == 1)
            ),
        )
        for edge in range(bins.count - 1, 0, -1)
    ]


def calibration(counts: Estimates, score_bins: ScoreBins, n_classes: int) -> list[Group]:
    """Neighbouring bins are joined until a group holds clearly more rows than noise."""
    name = SCORES if counts.design.has(SCORES) else CONFIDENCE
    bins = score_bins.count
    label, place = np.divmod(np.arange(2 * bins), bins)
    ends, groups = score_bins.limits(name), []
    if name == CONFIDENCE:
        ends = np.maximum(ends, 1 / n_classes)  # the chance of the likeliest class is no smaller
    rows = np.maximum(counts.part(name).reshape(2, bins).sum(axis=0), 0.0)
    sums = rows * (ends[1:] + ends[:-1]) / 2
    for first, last in _joined(counts, name, bins):
        here = (place >= first) & (place < last)
        groups.append(
            Group(
                low=float(ends[first]),
                high=float(ends[last]),
                predicted=float(sums[first:last].sum() / max(rows[first:last].sum(), 1e-9)),
                share_of_rows=cell_ratio(counts, name, 1.0 * here, np.ones(2 * bins)),
                observed=cell_ratio(counts, name, 1.0 * (here & (label == 1)), 1.0 * here),
            )
        )
    return groups


def _joined(counts: Estimates, name: str, bins: int) -> list[tuple[int, int]]:
    """First bin and the one after the last, of each group."""
    rows = counts.part(name).reshape(2, bins).sum(axis=0)
    groups, first = [], 0
    for last in range(1, bins + 1):
        here = np.tile((np.arange(bins) >= first) & (np.arange(bins) < last), 2)
        noise = counts.covariance(counts.among(name, 1.0 * here[None]))[0, 0] ** 0.5
        enough = max(FEWEST_ROWS, NOISES * noise, rows.sum() / MOST_POINTS / 2)
        if rows[first:last].sum() >= enough:
            groups.append((first, last))
            first = last
    if first < bins:  # what is left joins the last group
        start = groups.pop()[0] if groups else 0
        groups.append((start, bins))
    return groups
