"""DP-GD against what other packages offer for the same table: Opacus, diffprivlib and scikit-learn's saga.

Opacus and diffprivlib are in the optional extra ``bench``; a package that is missing, or does not import, is
skipped and the reason printed (diffprivlib 0.6.6 does not import beside scikit-learn 1.9). Everyone gets one
thread: with more, small PyTorch steps wait for each other on a busy machine, which would flatter us. Opacus makes
as many passes over the rows as DP-GD, with batches of 4,000 rows as in its usual use, and once with all rows,
which is DP-GD itself.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.fits import adult_like
from benchmarks.timing import Result, Skipped, interleaved
from dperm import PrivateLogisticRegression

PASSES = 200
TIMED_PASSES = 5  # of Opacus, set up beforehand; its time grows with the passes, so it is scaled up
BATCH = 4_000
ROUNDS = 3

Rows = tuple[np.ndarray, np.ndarray]


@contextmanager
def one_thread() -> Iterator[None]:
    """For dperm, which heeds the variable at every fit, for BLAS and OpenMP, and for PyTorch where it is there."""
    with patch.dict(os.environ, OMP_NUM_THREADS="1"), threadpool_limits(1):
        if why_missing("torch") is None:
            import_module("torch").set_num_threads(1)
        yield


def dp_gd(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    from dperm.mechanisms.gradient.dp_gd import DPGD

    model = PrivateLogisticRegression(mechanism=DPGD(steps=PASSES), classes=[0, 1])
    return lambda: model.fit(X, y)


def opacus_training(X: np.ndarray, y: np.ndarray, batch: int, sliced: bool) -> Callable[[], object]:
    """DP-SGD for logistic regression: by the loader that Opacus makes, or by slices of shuffled tensors."""
    import torch
    from opacus import PrivacyEngine

    rows, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    dataset = torch.utils.data.TensorDataset(rows, labels)
    criterion = torch.nn.BCEWithLogitsLoss()

    module = torch.nn.Linear(X.shape[1], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its random numbers
        module, optimizer, loader = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
            data_loader=torch.utils.data.DataLoader(dataset, batch_size=batch),
            noise_multiplier=5.0,
            max_grad_norm=1.0,
            poisson_sampling=not sliced,
        )

    def slices():
        order = torch.randperm(len(rows)) if batch < len(rows) else slice(None)
        shuffled, matching = rows[order], labels[order]
        for first in range(0, len(rows), batch):
            yield shuffled[first : first + batch], matching[first : first + batch]

    def train() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its hooks
            for _ in range(TIMED_PASSES):
                for part, wanted in slices() if sliced else loader:
                    optimizer.zero_grad()
                    criterion(module(part)[:, 0], wanted).backward()
                    optimizer.step()

    return train


def against_opacus(data: Rows, batch: int, sliced: bool, target: float | None) -> Result:
    X, y = data
    batch = min(batch, len(X))
    timed = interleaved(dp_gd(X, y), opacus_training(X, y, batch, sliced), ROUNDS)
    scale = PASSES / TIMED_PASSES
    how = "all rows" if batch == len(X) else "sliced" if sliced else "loader"
    name = f"dp-gd fit, {PASSES} steps, exact noise"
    reference = f"Opacus, {how}, {PASSES} passes"
    return Result(name, 1, timed[0], reference, timed[1] * scale, timed[2] / scale, target)


def against_classifier(data: Rows, reference: str, model: object) -> Result:
    timed = interleaved(dp_gd(*data), lambda: model.fit(*data), ROUNDS)
    return Result(f"dp-gd fit, {PASSES} steps, exact noise", 1, timed[0], reference, timed[1], timed[2], None)


def why_missing(package: str) -> str | None:
    try:
        import_module(package)
    except ImportError as error:
        way_out = "; install dperm[bench]" if isinstance(error, ModuleNotFoundError) else ""
        return f"{package} does not import: {str(error).split(' (')[0]}{way_out}"
    return None


def run() -> list[Result | Skipped]:
    with one_thread():
        return comparisons()


def comparisons() -> list[Result | Skipped]:
    *data, _ = adult_like()
    results: list[Result | Skipped] = []
    missing = why_missing("opacus")
    if missing:
        results.append(Skipped("dp-gd against Opacus", missing))
    else:
        results.append(against_opacus(data, BATCH, sliced=False, target=1 / 50))
        results.append(against_opacus(data, BATCH, sliced=True, target=1 / 15))
        results.append(against_opacus(data, len(data[0]), sliced=True, target=None))
    results.append(against_classifier(data, "scikit-learn saga fit", LogisticRegression(solver="saga")))
    missing = why_missing("diffprivlib.models")
    if missing:
        results.append(Skipped("dp-gd against diffprivlib", missing))
    else:
        from diffprivlib.models import LogisticRegression as DiffprivlibRegression

        model = DiffprivlibRegression(epsilon=1.0, data_norm=1.0)
        results.append(against_classifier(data, "diffprivlib fit", model))
    return results
