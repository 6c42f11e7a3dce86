"""Compiled loops of passes in which every model sees the rows through a map of its own.

A row is shortened by bound / max(norm, bound); the norm is at least that of the row as the model's map moves it, and
infinite for an empty row. Models lie side by side in Z, the outputs of a model next to each other; row i of Z is row
first + i of the table.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine._formulas import FREE_ORDER
from dperm.engine._kernels import FIXED_ORDER


@compiled(FREE_ORDER)
def bend(Z, norms, first, bound, constant, column, lift):
    """Turn products with the stored rows into margins: shortened * (Z - constant) + column * lift."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        if outputs == 1:
            for k in range(models):
                row[k] = (row[k] - constant[k]) * (bound / max(norm[k], bound)) + last * lift[k]
        else:
            for k in range(models):
                factor = bound / max(norm[k], bound)
                for m in range(k * outputs, (k + 1) * outputs):
                    row[m] = (row[m] - constant[m]) * factor + last * lift[m]


@compiled(FREE_ORDER)
def fold(Z, norms, first, bound, column, moved, lifted):
    """Shorten slopes, add them to ``moved`` and, before that and times the last column, to ``lifted``."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        if outputs == 1:
            for k in range(models):
                lifted[k] += last * row[k]
                row[k] *= bound / max(norm[k], bound)
                moved[k] += row[k]
        else:
            for k in range(models):
                factor = bound / max(norm[k], bound)
                for m in range(k * outputs, (k + 1) * outputs):
                    lifted[m] += last * row[m]
                    row[m] *= factor
                    moved[m] += row[m]


@compiled(FIXED_ORDER)
def clip_each(Z, norms, first, bound, column, clip):
    """Shorten the slopes of a row and model to ``clip`` over the norm of the row as the model sees it."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        for k in range(models):
            length = min(norm[k], bound)
            allowed = clip[k] * (1.0 - 2.0**-40) / math.sqrt(length * length + last * last)
            squares = 0.0
            for m in range(k * outputs, (k + 1) * outputs):
                squares += row[m] * row[m]
            size = math.sqrt(squares)
            if size > allowed:
                for m in range(k * outputs, (k + 1) * outputs):
                    row[m] *= allowed / size


@compiled(FREE_ORDER)
def add_seen(X, mask, norms, shift, spread, bound, model, squared, first, last, total):
    """Add the rows [first, last) that train a model, as it sees them, to ``total``, or the squares of their entries.

    ``shift`` and ``spread`` are those of the model.
    """
    features = shift.size
    seen = np.empty(X.shape[1])
    for i in range(first, last):
        if mask.shape[0] > 0 and mask[i, model] == 0:
            continue
        row, factor = X[i], bound / max(norms[i, model], bound)
        for j in range(features):
            seen[j] = factor * (np.float64(row[j]) - shift[j]) / spread[j]
        for j in range(features, row.size):
            seen[j] = np.float64(row[j])
        if squared:
            for j in range(seen.size):
                total[j] += seen[j] * seen[j]
        else:
            for j in range(seen.size):
                total[j] += seen[j]
