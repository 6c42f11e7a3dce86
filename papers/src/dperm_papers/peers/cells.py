"""One tool, one setting, one budget, one fold: what it scored, how long it took beside ours, and its memory."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.experiments.judging import area
from dperm_papers.peers.catalogue import CLASSES, OURS, Peer, Setting, reference
from dperm_papers.peers.environments import Environment
from dperm_papers.peers.rows import Table
from dperm_papers.peers.workers import LIMIT_S, Worker
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.item import Bench

DELTA = 1e-5


def measure(
    peer: Peer,
    setting: Setting,
    environment: Environment | None,
    table: Table,
    epsilons: tuple[float, ...],
    folds: int,
    bench: Bench,
    limit: float = LIMIT_S,
) -> list[dict[str, Any]]:
    """A row per budget and fold. Cells that were finished before are read; processes start when one is missing.

    After each fit of the tool ours is fitted to the same rows under the same relation, so that the ratio of the two
    times hardly depends on what else the machine does.
    """
    found: list[dict[str, Any]] = []
    python = None if environment is None else environment.python
    version = metadata.version(peer.package) if environment is None else environment.version(peer.package)
    folder = bench.parts / "peers"
    with ExitStack() as stack:
        output = Path(stack.enter_context(TemporaryDirectory())) / "said.npy"
        pair = _Pair(peer, setting, python, table, output, limit)
        stack.callback(pair.close)
        for epsilon in epsilons if peer.private else epsilons[:1]:
            for fold in range(min(folds, setting.folds or folds)):
                key = {
                    "tool": peer.name,
                    "version": version,
                    "setting": setting.label,
                    "options": dict(setting.options),
                    "rows": table.digest,
                    "budget": [epsilon, 0.0 if peer.pure else DELTA, peer.relation_of(setting)],
                    "fold": fold,
                    "seed": bench.seed,
                }
                seed = bench.seed + fold

                def make(
                    epsilon: float = epsilon, fold: int = fold, seed: int = seed
                ) -> list[dict[str, Any]]:
                    return [pair.cell(epsilon, fold, seed)]

                about = {
                    "tool": peer.name,
                    "version": version,
                    "setting": setting.label,
                    "dataset": table.name,
                    "task": table.task,
                    "relation": peer.relation_of(setting),
                    "delta": 0.0 if peer.pure else DELTA,
                    "private": peer.private,
                    "fold": fold,
                }
                rows = cached(folder, f"cell-{peer.runner[4:]}", key, make, bench.fresh).to_pylist()
                found += [{**about, **row} for row in rows]
    return found


class _Pair:
    """The process of a tool and that of ours, both started when they are first asked."""

    def __init__(
        self, peer: Peer, setting: Setting, python: Path | None, table: Table, output: Path, limit: float
    ) -> None:
        self.peer, self.setting, self.table, self.output = peer, setting, table, output
        self._tool = Worker(peer.runner, python, limit)
        self._ours = Worker(OURS.runner)

    def cell(self, epsilon: float, fold: int, seed: int) -> dict[str, Any]:
        jobs = self._job(self.peer, self.setting, epsilon, fold, seed), self._beside(epsilon, fold, seed)
        ours = self._ours.ask(jobs[1])
        answer = self._tool.ask(jobs[0])
        blank: dict[str, Any] = dict.fromkeys(("accuracy", "auc", "r2", "seconds", "megabytes"), float("nan"))
        row = {"epsilon": epsilon, **blank, "ours_seconds": ours.get("seconds", float("nan"))}
        if "error" in answer:
            return {**row, "error": answer["error"]}
        scored = _scores(np.load(self.output), self.table.y[self.table.fold == fold], self.table.task)
        return {**row, **scored, **answer, "error": ""}

    def close(self) -> None:
        for worker in (self._tool, self._ours):
            worker.close()

    def _beside(self, epsilon: float, fold: int, seed: int) -> dict[str, Any]:
        ours = reference(self.peer.relation_of(self.setting))
        usual = next(setting for setting in ours.settings if setting.task == self.setting.task)
        return self._job(ours, usual, epsilon, fold, seed)

    def _job(self, peer: Peer, setting: Setting, epsilon: float, fold: int, seed: int) -> dict[str, Any]:
        public = dict(self.table.public)
        if setting.one_column:
            public |= {"columns": [public["column"]], "x_range": public["column_range"]}
        return {
            "do": "fit",
            "rows": str(self.table.files[peer.rows]),
            "output": str(self.output),
            "task": self.table.task,
            "fold": fold,
            "seed": seed,
            "epsilon": epsilon,
            "delta": 0.0 if peer.pure else DELTA,
            "relation": peer.relation_of(setting),
            "settings": dict(setting.options),
            **public,
        }


def _scores(said: NDArray[np.float64], y: NDArray[Any], task: str) -> dict[str, float]:
    """Accuracy and area under the ROC curve of probabilities, or R² of numbers."""
    if task == CLASSES:
        signs = np.where(y > 0, 1, -1)
        return {
            "accuracy": float(((said > 0.5) == (y > 0)).mean()),
            "auc": float(area(said - 0.5, signs) or 0.0),
        }
    around = float(np.sum((y - y.mean()) ** 2))
    return {"r2": 1 - float(np.sum((y - said) ** 2)) / around}
