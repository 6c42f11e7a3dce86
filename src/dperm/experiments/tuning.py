"""How settings are chosen beyond the public rule: privately and paid for, or on the test rows (not private)."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dperm.errors import DpermError, InvalidInput
from dperm.experiments.batches import Batch, Entropy, rows_of
from dperm.experiments.grid import skip
from dperm.experiments.judging import Model
from dperm.experiments.metrics import SCORES
from dperm.experiments.results import Skipped, label
from dperm.experiments.single import estimator_of, model_of, stream_of, timed_fit
from dperm.experiments.spec import Contender, canonical_json
from dperm.mechanisms import Mechanism, resolve


def oracle(mechanism: str | Mechanism, *, label: str | None = None, **grid: Iterable[Any]) -> Contender:
    """The settings of a grid that are best on the test rows, for every epsilon: what tuning could give at most.

    NOT private, and no estimate of what a user would get: the choice looks at the rows that judge it. Its label
    always says so.

    Parameters
    ----------
    mechanism : str or mechanism
    label : str, optional
    **grid
        Values to try for each setting, for example ``step_size=[0.1, 1, 10]``.
    """
    return tuned("oracle", mechanism, grid, label)


def search(mechanism: str | Mechanism, *, label: str | None = None, **grid: Iterable[Any]) -> Contender:
    """The settings of a grid chosen by ``PrivateSearchCV``, which pays for the choice from the same budget.

    Every model is a search of its own on the training rows of its fold, so this is slow.
    """
    return tuned("search", mechanism, grid, label)


def tuned(
    tuning: str, mechanism: str | Mechanism, grid: Mapping[str, Iterable[Any]], name: str | None = None
) -> Contender:
    """A contender with one candidate for every combination of values in the grid."""
    base = resolve(mechanism)
    unknown = sorted(set(grid) - {f.name for f in fields(base)} | set(grid) & {"accounting"})
    if unknown or not grid:
        known = ", ".join(f.name for f in fields(base) if f.name != "accounting")
        raise InvalidInput(
            f"the grid of {base.name!r} must name settings of it: {known}; got {', '.join(unknown) or 'none'}."
        )
    candidates = [
        replace(base, **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())
    ]
    usual = label(base.name, base.accounting)
    if tuning == "search":
        usual += " (search)"
    return Contender(label=name or usual, candidates=tuple(candidates), tuning=tuning)


def best_on_test(contender: Contender, rows: pa.Table) -> pa.Table:
    """The rows of the candidate with the highest mean accuracy, or R², at each epsilon; of equals, the first.

    A candidate that failed in some repeats comes after those that did not.
    """
    score = next((name for name in SCORES if rows[name].null_count < len(rows)), SCORES[0])
    candidate, epsilon, reached = (rows[name].to_numpy() for name in ("candidate", "epsilon", score))
    keep = np.zeros(len(rows), bool)
    for some in np.unique(epsilon):
        runs = [(epsilon == some) & (candidate == c) for c in range(len(contender.candidates))]
        found = [(int(run.sum()), float(reached[run].mean()) if run.any() else -np.inf) for run in runs]
        keep |= runs[found.index(max(found))]
    return rows.filter(pa.array(keep))


def train_by_search(
    contender: Contender, batch: Batch, epsilons: Sequence[float], entropy: Entropy
) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """One private search per epsilon, repeat and fold. The timed call is ``fit``."""
    rows: list[dict[str, Any]] = []
    skipped = []
    for epsilon in epsilons:
        try:
            models = [_search(contender, batch, column, epsilon, entropy) for column in batch.mask.T]
        except DpermError as error:
            skipped.append(skip(contender, epsilon, error))
        else:
            rows += rows_of(contender, 0, epsilon, batch, models)
    return rows, skipped


def _search(contender: Contender, batch: Batch, training: Any, epsilon: float, entropy: Entropy) -> Model:
    from dperm.estimators.search import PrivateSearchCV

    model = PrivateSearchCV(
        estimator_of(batch, training, epsilon),
        {"mechanism": list(contender.candidates)},
        epsilon=epsilon,
        delta=batch.spec.delta,
        random_state=stream_of(entropy),
    )
    seconds = timed_fit(model, batch, training)
    chosen: Mechanism = model.best_params_["mechanism"]
    return model_of(
        model.best_estimator_,
        settings=canonical_json({**model.privacy_.settings, "chosen": chosen.settings}),
        noise_scale=model.privacy_.noise_scale,
        seconds=seconds,
    )
