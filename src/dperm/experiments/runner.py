"""Runs the batches of a spec that are not finished yet, and assembles the results of all of them."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DpermError
from dperm.experiments.batches import (
    Batch,
    Entropy,
    PlanGrid,
    Rows,
    budgets_of,
    loss_of,
    plan_grid,
    problems_of,
    sharing,
    train,
)
from dperm.experiments.results import Setup, Skipped, Study, make_results
from dperm.experiments.spec import Configuration, Spec, plain_value, stream_code
from dperm.experiments.splits import group_repeats
from dperm.experiments.store import PART_COLUMNS, Part, Store, merged
from dperm.experiments.tuning import best_on_test, train_singly
from dperm.mechanisms import Mechanism
from dperm.models.atomic import atomic_path
from dperm.privacy import SeededEntropy, SystemEntropy

Progress = Callable[[int, int], None]

_FEW = 64  # rows of a warm-up


def run(
    spec: Spec,
    rows: Rows,
    *,
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> pa.Table:
    """The results of a spec, from its finished batches and from new ones.

    A batch is a configuration in a group of repeats, at all epsilons and folds. Each finished one is a file in
    ``folder``, under the identity of the spec, so that a run that is stopped or killed loses at most the batch
    it was at, and the next one goes on from there.

    ``spec.rows`` is the digest of these very rows; the other parameters are those of ``compare``.
    """
    store = Store(spec, folder, fresh=fresh)
    groups = group_repeats(spec.repeats, spec.folds, loss_of(spec).outputs)
    total = len(groups) * len(spec.configurations)
    missing = {
        (c, g) for c in range(len(spec.configurations)) for g in range(len(groups)) if store.get(c, g) is None
    }
    finished = total - len(missing)
    report = progress or (lambda done, total: None)
    report(finished, total)
    trainers: dict[int, _Trainer] = {}
    for g, repeats in enumerate(groups):
        batch = Batch(spec=spec, rows=rows, repeats=repeats)
        for c, configuration in enumerate(spec.configurations):
            if (c, g) not in missing:
                continue
            if c not in trainers:
                trainers[c] = _Trainer(configuration, spec, rows)
                trainers[c].warm_up()
            store.put(c, g, trainers[c].train(batch, g))
            finished += 1
            report(finished, total)
    results = _assemble(store, len(groups))
    if store.folder is not None:
        with atomic_path(store.folder / "results.parquet") as unfinished:
            pq.write_table(results, unfinished)
    return results


class _Trainer:
    """A configuration with its plans."""

    def __init__(self, configuration: Configuration, spec: Spec, rows: Rows) -> None:
        self.configuration, self.spec, self.rows = configuration, spec, rows
        self.grids: list[PlanGrid] = []
        self.skipped: list[Skipped] = []
        if configuration.tuning == "search" or spec.unit == "person":
            return
        problems, budgets = problems_of(spec, rows.held_out), budgets_of(spec)
        for mechanism in configuration.candidates:
            grid, refused = plan_grid(configuration, mechanism, problems, budgets, spec.l2)
            self.grids.append(grid)
            self.skipped += refused

    def warm_up(self) -> None:
        """Train on a few rows, so that no compilation is timed."""
        few = self.rows.first(_FEW)
        one_split = few.held_out is not None
        spec = replace(
            self.spec,
            n_rows=few.n_units,
            max_rows=None,
            folds=min(2, self.spec.folds),
            repeats=min(2, self.spec.repeats) if one_split else 1,
            epsilons=(0.5,),
            delta=1e-6,
        )
        with suppress(DpermError):
            small = _Trainer(self.configuration, spec, few)
            small.train(Batch(spec=spec, rows=few, repeats=range(spec.repeats)), 0)

    def train(self, batch: Batch, group: int) -> Part:
        spec, configuration = self.spec, self.configuration
        if configuration.tuning == "search" or spec.unit == "person":
            stream = _stream(spec.seed, configuration.candidates[0], group)
            return Part.make(*train_singly(configuration, batch, spec.epsilons, stream))
        rows, skipped = [], list(self.skipped)
        columns = len(batch.n_training) * loss_of(spec).outputs
        for together in sharing(configuration, columns):
            stream = _stream(spec.seed, configuration.candidates[together[0]], group)
            some, refused = train(configuration, {k: self.grids[k] for k in together}, batch, stream)
            rows += some
            skipped += refused
        return Part.make(rows, skipped)


def _stream(seed: int | None, mechanism: Mechanism, group: int) -> Entropy:
    if seed is None:
        return SystemEntropy()
    return SeededEntropy(np.random.SeedSequence([seed, stream_code(mechanism), group]))


def _assemble(store: Store, n_groups: int) -> pa.Table:
    """The rows of all parts, configuration by configuration, an oracle's choice made."""
    spec, parts, tables = store.spec, [], []
    skipped: list[Skipped] = []
    for c, configuration in enumerate(spec.configurations):
        mine = [part for g in range(n_groups) if (part := store.get(c, g)) is not None]
        rows = pa.concat_tables([PART_COLUMNS.empty_table(), *(part.rows for part in mine)])
        refused = [some for part in mine for some in part.skipped]
        if configuration.tuning == "oracle":
            rows = best_on_test(configuration, rows)
            there = set(rows["epsilon"].to_pylist())
            refused = [some for some in refused if some.epsilon not in there]
        tables.append(rows)
        skipped += refused
        parts += mine
    study = Study(
        **{fact.name: getattr(spec, fact.name) for fact in fields(Setup)},
        identity=spec.identity,
        configurations=tuple(
            {
                **{name: getattr(one, name) for name in ("label", "mechanism", "accounting", "tuning")},
                "candidates": [plain_value(candidate.settings) for candidate in one.candidates],
            }
            for one in spec.configurations
        ),
        versions=merged([part.versions for part in parts]),
        machine=merged([part.machine for part in parts]),
        skipped=tuple(dict.fromkeys(skipped)),
    )
    return make_results(pa.concat_tables(tables), study)
