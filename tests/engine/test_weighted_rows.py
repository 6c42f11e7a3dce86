"""Weights on every kind of rows: passes equal those of the oracle on pairs of target and weight."""

import numpy as np
import pytest
from engine_tables import FixedOrder, FixedSample
from kinds import features_of, is_slow, kinds_marked

from dperm.engine import Table
from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Logistic, SoftClippedLogistic, Softmax, Weighted
from dperm.losses.base import weighted_targets
from dperm.row_map import RowMap

N, BOUND = 703, 4.0
ROW_MAP = RowMap(x_norm=1.0, intercept=0.5)
BASES = [Logistic(), SoftClippedLogistic(), HuberHinge(0.5), ClippedSquared(0.8), Softmax(3)]
each_kind = pytest.mark.parametrize("kind", kinds_marked())
each_base = pytest.mark.parametrize("base", BASES, ids=lambda loss: loss.name)


def targets(base, n=N):
    rng = np.random.default_rng(4)
    y = {
        "binary": lambda: rng.choice([-1.0, 1.0], n),
        "real": lambda: rng.uniform(-1, 1, n),
        "classes": lambda: rng.integers(base.outputs, size=n).astype(float),
    }[base.labels]()
    weights = rng.uniform(0, BOUND, n)
    weights[::7] = 0.0
    return weighted_targets(y, weights)


def opened(kind, base, mask=None, capacity=N, order=None, precise=True):
    facts = {"row_map": ROW_MAP, "n_rows": capacity, "mask": mask}
    X, y = features_of(kind, N), targets(base)
    mine, theirs = kind.rows(X, y, **facts), Table.of(X, y, **facts)
    mine.check_labels(Weighted(base, BOUND))
    return mine.open(order, precise=precise), theirs.open(order, storage="float64", engine="reference")


@pytest.mark.cover(2)
@each_kind
@each_base
@pytest.mark.parametrize("precise", [True, False], ids=["precise", "fast"])
def test_sums_are_those_of_the_oracle(kind, base, precise):
    if is_slow(kind) and base.outputs > 1:
        pytest.skip("one loss is enough where every pass is a job")
    loss = Weighted(base, BOUND)
    mask = np.random.default_rng(2).random((N + 20, 2)) < 0.7
    engine, oracle = opened(kind, base, mask, N + 20, precise=precise)
    shape = (engine.n_columns, 2) + (base.outputs,) * (base.outputs > 1)
    W = np.random.default_rng(1).standard_normal(shape)
    close = {"rtol": 1e-9, "atol": 1e-9} if precise else {"rtol": 2e-4, "atol": 2e-2}
    for clip in (None, [0.3, 1.1]):
        found, exact = (one.gradient_sum(loss, W, clip=clip) for one in (engine, oracle))
        assert np.allclose(found, exact, **close)
    assert np.allclose(engine.value_sum(loss, W), oracle.value_sum(loss, W), rtol=1e-5)
    if base.outputs == 1 and precise:
        assert np.allclose(engine.curvature_sum(loss, W), oracle.curvature_sum(loss, W), rtol=1e-7, atol=1e-7)
    plain = oracle.gradient_sum(Weighted(base, BOUND), W)
    assert not np.allclose(
        plain,
        Table.of(features_of(kind, N), targets(base)["target"], row_map=ROW_MAP, n_rows=N + 20, mask=mask)
        .open(storage="float64", engine="reference")
        .gradient_sum(base, W),
        rtol=0.1,
    )  # the control


@pytest.mark.cover(1)
@each_kind
@each_base
def test_one_model_samples_orders_and_scores(kind, base):
    if is_slow(kind):
        pytest.skip("a job for every pass")
    loss = Weighted(base, BOUND)
    engine, oracle = opened(kind, base)
    ordered = opened(kind, base, order=FixedOrder(np.random.default_rng(3).permutation(N)))
    W = np.random.default_rng(1).standard_normal((engine.n_columns, 1) + (base.outputs,) * (base.outputs > 1))
    draw = [FixedSample(np.arange(0, N, 3))]
    pairs = [ordered, (engine, oracle), (engine.sample(draw), oracle.sample(draw))]
    for one, other in pairs:
        assert np.allclose(one.gradient_sum(loss, W), other.gradient_sum(loss, W), rtol=1e-9, atol=1e-9)
        value, gradient = one.value_and_gradient_sum(loss, W)
        assert np.allclose(value, other.value_sum(loss, W), rtol=1e-9)
        assert np.allclose(gradient, other.gradient_sum(loss, W), rtol=1e-9, atol=1e-9)
    mine, theirs = engine.evaluate(loss, W), oracle.evaluate(loss, W)
    assert mine.training_correct == theirs.training_correct
    assert np.allclose(mine.training_loss, theirs.training_loss, rtol=1e-9)


@each_base
def test_rows_of_weight_one_are_plain_rows_bit_for_bit(base):
    kind = next(mark.values[0] for mark in kinds_marked() if mark.id == "dense")
    X, y = features_of(kind, N), targets(base)["target"]
    plain = Table.of(X, y, row_map=ROW_MAP, n_rows=N).open(precise=True)
    ones = Table.of(X, weighted_targets(y, np.ones(N)), row_map=ROW_MAP, n_rows=N).open(precise=True)
    W = np.random.default_rng(1).standard_normal((plain.n_columns, 1) + (base.outputs,) * (base.outputs > 1))
    assert np.array_equal(plain.gradient_sum(base, W), ones.gradient_sum(Weighted(base, 2.0), W))


def test_weights_beyond_the_bound_and_weights_without_a_loss_for_them_are_refused():
    X, y = np.zeros((3, 2)), weighted_targets([1.0, -1.0, 1.0], [0.0, 1.0, 2.5])
    rows = Table.of(X, y, row_map=ROW_MAP, n_rows=3)
    rows.check_labels(Weighted(Logistic(), 2.5))
    for loss in (Weighted(Logistic(), 2.0), Logistic(), Weighted(Softmax(3), 9.0)):
        with pytest.raises(InvalidInput):
            rows.check_labels(loss)
    plain = Table.of(X, y["target"], row_map=ROW_MAP, n_rows=3)
    with pytest.raises(InvalidInput, match="weights"):
        plain.check_labels(Weighted(Logistic(), 2.0))
    for bad in (-1.0, np.nan):
        with pytest.raises(InvalidInput):
            Table.of(X, weighted_targets([1.0] * 3, [bad] * 3), row_map=ROW_MAP, n_rows=3).check_labels(
                Weighted(Logistic(), 2.0)
            )
