"""The plainest engine, which the others are compared with."""

from __future__ import annotations

import numpy as np

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine.base.engine import StoredEngine, Wanted
from dperm.losses import Loss
from dperm.losses.base import targets_alone
from dperm.typing import Floats, Integers


class ReferenceEngine(StoredEngine):
    """The plainest reading of every verb. All other engines are tested against it."""

    @property
    def _X(self) -> Floats:
        return self._rows.densely(0, self.n_rows)

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64

    def _margins(self, W: Floats) -> Floats:
        return np.stack([self._X @ W[:, k] for k in range(W.shape[1])], axis=1)

    def _own(self, k: int) -> Integers:
        mask = self._rows.mask
        return np.arange(self.n_rows) if mask is None else np.flatnonzero(mask[:, k])

    def _range_sums(
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        values, gradients = np.zeros(W.shape[1]), np.zeros_like(W)
        for k in range(W.shape[1]):
            own = self._own(k)
            own = own[(own >= start[k]) & (own < stop[k])]
            X, y = self._X[own], self._rows.y[own]
            margin = X @ W[:, k]
            if wanted.value:
                values[k] = loss.value(margin, y).sum()  # NumPy adds in pairs
            if wanted.gradient:
                slope = loss.slope(margin, y)
                if wanted.clip is not None:
                    size = np.abs(slope) if loss.outputs == 1 else np.linalg.norm(slope, axis=-1)
                    allowed = wanted.clip[k] * self._rows.inverse_norm[own]
                    slope = (slope.T * (allowed / np.maximum(size, allowed))).T
                for first in range(0, len(X), FLOAT64.block):
                    block = slice(first, first + FLOAT64.block)
                    gradients[:, k] += X[block].T @ slope[block]
        return values, gradients

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        hessians = np.zeros((W.shape[1], self.n_columns, self.n_columns))
        for k in range(W.shape[1]):
            X, y = self._X[self._own(k)], self._rows.y[self._own(k)]
            for x, curvature in zip(X, loss.curvature(X @ W[:, k], y), strict=True):
                hessians[k] += curvature * np.outer(x, x)
        return hessians

    def _masked_moments(self, n_models: int) -> Floats:
        moments = np.zeros((n_models, self.n_columns, self.n_columns))
        for k in range(n_models):
            own = self._X[self._own(k)]
            for first in range(0, len(own), FLOAT64.block):
                block = np.zeros_like(moments[k])
                for x in own[first : first + FLOAT64.block]:
                    block += np.outer(x, x)
                moments[k] += block
        return moments

    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        losses = np.zeros(W.shape[1])
        inside, outside = np.zeros(W.shape[1], np.int64), np.zeros(W.shape[1], np.int64)
        for k in range(W.shape[1]):
            margin, y = self._X @ W[:, k], self._rows.y
            targets = targets_alone(y)
            correct = margin.argmax(axis=-1) == targets if loss.outputs > 1 else (margin > 0) == (targets > 0)
            trains = np.isin(np.arange(self.n_rows), self._own(k))
            losses[k] = loss.value(margin[trains], y[trains]).sum()
            inside[k], outside[k] = correct[trains].sum(), correct[~trains].sum()
        return losses, inside, outside
