"""JAX-Privacy: DP-SGD by its own execution plan, add-remove."""

from collections.abc import Iterator
from typing import Any

import numpy as np

PADDED = 256  # batches are filled up to a multiple of it, so that little is compiled


def _plan(job: dict[str, Any]) -> Any:
    import dp_accounting
    from jax_privacy.batch_selection import PartitionType
    from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

    ways = job["settings"]
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return BandMFExecutionPlanConfig.default(
        num_bands=1,
        iterations=round(ways["epochs"] / ways["rate"]),
        epsilon=job["epsilon"],
        delta=job["delta"],
        sampling_prob=ways["rate"],
        partition_type=PartitionType.INDEPENDENT,
        accountant=dp_accounting.pld.PLDAccountant(relation),
        noise_seed=job["seed"],
    ).plan


def _descents(loss: Any, X: Any, y: Any, job: dict[str, Any], runs: int) -> Iterator[Any]:
    """The last weights of so many trainings. Their noise is one stream, their batches are another."""
    import jax
    from jax_privacy.batch_selection import pad_to_multiple_of

    plan, step = _plan(job), job["settings"]["lr"] / job["settings"]["batch"]
    gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2), keep_batch_dim=False).fun)
    update = jax.jit(plan.noise_addition_transform.update)
    rows, labels = X.astype(np.float32), y.astype(np.float32)
    drawn = np.random.default_rng(job["seed"])
    state = plan.noise_addition_transform.init(np.zeros(X.shape[1] + 1, np.float32))
    for _ in range(runs):
        weights = np.zeros(X.shape[1] + 1, np.float32)
        for chosen in plan.batch_selection_strategy.batch_iterator(len(X), rng=drawn):
            batch = pad_to_multiple_of(chosen, PADDED) if len(chosen) else np.full(PADDED, -1)
            total = gradient(weights, rows[batch], labels[batch], is_padding_example=batch == -1)
            noisy, state = update(total, state)
            weights = weights - step * np.asarray(noisy)
        yield weights


def _logistic(weights: Any, row: Any, label: Any) -> Any:
    import jax.numpy as jnp

    return jnp.logaddexp(0.0, (1 - 2 * label) * (row @ weights[:-1] + weights[-1]))


def _linear(weights: Any, row: Any, label: Any) -> Any:
    return -label * (row @ weights[:-1])


def train(X: Any, y: Any, job: dict[str, Any]) -> Any:
    weights = next(_descents(_logistic, X, y, job, 1))
    return lambda rows: 1 / (1 + np.exp(-(rows @ weights[:-1] + weights[-1])))


def releases(X: Any, y: Any, job: dict[str, Any]) -> Any:
    found = [weights[:-1] for weights in _descents(_linear, X, y, job, job["runs"])]
    return found, {"epsilon": job["epsilon"], "delta": job["delta"]}
