"""Compiled loops over margins that are known already: a step of a coordinate walk, losses along a segment."""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine._formulas import FREE_ORDER, excess, has_excess, slope, told, value

_ADDED = 1024  # rows that are added among themselves first, so that no chain of additions is long
_AT_ONCE = 512  # rows that share a logarithm: each factor is at most 2


@compiled(FREE_ORDER)
def step(old, new, y, mask, margins, change, first, last, kind, a, total):
    """Add ``change`` times a column to the margins of rows [first, last), then slope times another to ``total``.

    ``margins`` and ``mask`` have a row for each model; an empty mask means every row.
    """
    masked = mask.shape[1] > 0
    for k in range(margins.shape[0]):
        by = change[k]
        for b in range(first, last, _ADDED):
            end = min(b + _ADDED, last)
            mine, label = margins[k, b:end], y[b:end]  # slices count from 0, or no loop becomes vectors
            before, after = old[b:end], new[b:end]
            added = 0.0
            if masked:
                own = mask[k, b:end]
                for i in range(label.size):
                    margin = mine[i] + np.float64(before[i]) * by
                    mine[i] = margin
                    added += own[i] * (
                        slope(kind, margin, told(label[i], 1.0), 1.0, a) * np.float64(after[i])
                    )
            else:
                for i in range(label.size):
                    margin = mine[i] + np.float64(before[i]) * by
                    mine[i] = margin
                    added += slope(kind, margin, told(label[i], 1.0), 1.0, a) * np.float64(after[i])
            total[k] += added


@compiled(FREE_ORDER)
def add_values_between(Z, count, models, shares, y, mask, first, kind, a, total):
    """Add each model's own losses at points of a segment to ``total``, (models, shares).

    Row i of Z holds the margins of row first + i of the table, for each model at the beginning and at the end.
    """
    n = shares.size
    product, added = np.empty(n), np.empty(n)
    masked = mask.shape[0] > 0
    for k in range(models):
        for b in range(0, count, _AT_ONCE):
            product[:] = 1.0
            added[:] = 0.0
            for i in range(b, min(b + _AT_ONCE, count)):
                if masked and mask[first + i, k] == 0:
                    continue
                begin, end = np.float64(Z[i, 2 * k]), np.float64(Z[i, 2 * k + 1])
                target = told(y[first + i], 1.0)
                for s in range(n):
                    margin = begin * (1.0 - shares[s]) + end * shares[s]
                    added[s] += value(kind, margin, target, 1.0, a)
                    if has_excess(kind, y):
                        product[s] *= 1.0 + excess(kind, margin, target, 1.0, a)
            for s in range(n):
                total[k, s] += added[s] + (math.log(product[s]) if has_excess(kind, y) else 0.0)
