"""Items in pieces that run side by side: each on one data set, its finished batches kept for the item."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter

from dperm.processors import processors_shared_by
from dperm_papers.reproduce import find_item
from dperm_papers.reproduce.item import Bench, Item, untold


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One data set in the items of a family, which train some models in common: one item after the other."""

    items: tuple[str, ...]
    dataset: str

    def __str__(self) -> str:
        return f"{self.dataset} ({', '.join(self.items)})"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A piece and the seconds that each of its items took."""

    piece: Piece
    seconds: dict[str, float]


def pieces_of(items: Sequence[Item], bench: Bench) -> list[Piece]:
    """In the order of the items. What names no data sets has no pieces."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in items:
        for dataset in bench.among(item.datasets()):
            found.setdefault((item.family or item.name, dataset), []).append(item.name)
    return [Piece(items=tuple(names), dataset=dataset) for (_, dataset), names in found.items()]


def run_side_by_side(pieces: Sequence[Piece], bench: Bench, jobs: int) -> Iterator[Finished]:
    """Train what the pieces need in so many processes, and hand each back when it is finished.

    Sums depend neither on threads nor on processes, so the models are those of a run in one process.
    """
    plain = replace(bench, progress=untold)
    with (
        processors_shared_by(jobs),
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool,
    ):
        started = [pool.submit(_run, piece, plain) for piece in pieces]
        try:
            for done in as_completed(started):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """A killed parent cannot stop its processes, which would train on for nobody."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _run(piece: Piece, bench: Bench) -> Finished:
    seconds = {}
    with TemporaryDirectory() as scratch:
        own = replace(bench, folder=Path(scratch), datasets=(piece.dataset,))
        for name in piece.items:
            started = perf_counter()
            find_item(name).run(own)
            seconds[name] = perf_counter() - started
    return Finished(piece=piece, seconds=seconds)
