"""Rows that each model sees through a map of its own are, in every verb, the rows mapped for that model alone."""

import numpy as np
import pytest
from engine_tables import FixedOrder, FixedSample, dense_table

from dperm.arithmetic import FLOAT64
from dperm.engine.dense.per_model import PerModelEngine
from dperm.errors import InvalidInput
from dperm.losses import HuberHinge, Logistic, Softmax
from dperm.row_map import RowMap

N, P, MODELS, X_NORM = 900, 40, 3, 1.3
LOSSES = [Logistic(), HuberHinge(0.5), Softmax(3)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
with_and_without = pytest.mark.parametrize("intercept", [0.4, 0.0], ids=["intercept", "no intercept"])


def maps(intercept=0.4, models=MODELS, apart=0.01):
    """Centres about a common one, scales by which about half of the rows are cut."""
    rng = np.random.default_rng(5)
    centre = 0.1 + apart * rng.normal(size=(models, P))
    scale = rng.uniform(0.62, 1.3, size=(models, P))
    return [
        RowMap(x_norm=X_NORM, intercept=intercept, centre=c if intercept else None, scale=s)
        for c, s in zip(centre, scale, strict=True)
    ]


def table(loss, intercept=0.4, masked=True, rows=N):
    rng = np.random.default_rng(0)
    X = 0.1 + 0.2 * rng.normal(size=(rows, P))
    y = rng.integers(3, size=rows).astype(float) if loss.outputs > 1 else rng.choice([-1.0, 1.0], rows)
    mask = rng.random((N, MODELS)) < 0.7 if masked else None
    return dense_table(X, y, x_norm=X_NORM, intercept=intercept, n_rows=N, mask=mask)


def both(loss, intercept=0.4, order=None, **how):
    """An engine for all models, and one for each alone."""
    rows, seen = table(loss, intercept, **how), maps(intercept)
    together = rows.mapped_per_model(seen)
    assert together is not None
    drawn = None if order is None else FixedOrder(order)
    alone = [
        rows.select([k]).mapped(one).open(drawn, storage="float64", engine="reference")
        for k, one in enumerate(seen)
    ]
    return together.open(drawn, precise=True), alone


def weights(loss, intercept=0.4):
    shape = (P + (intercept > 0), MODELS) + (loss.outputs,) * (loss.outputs > 1)
    return 2 * np.random.default_rng(1).normal(size=shape)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.cover(2)
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "all rows"])
@pytest.mark.parametrize("clip", [None, [0.05, 0.4, 0.2]], ids=["", "clipped"])
@with_and_without
@each_loss
def test_gradients_and_values(loss, intercept, clip, masked):
    engine, alone = both(loss, intercept, masked=masked)
    W = weights(loss, intercept)
    for k, one in enumerate(alone):
        w = W[:, [k]]
        bound = None if clip is None else [clip[k]]
        close(engine.gradient_sum(loss, W, clip=clip)[:, k], one.gradient_sum(loss, w, clip=bound)[:, 0])
        close(engine.value_and_gradient_sum(loss, W)[0][k], one.value_sum(loss, w)[0])
        close(engine.margins(W)[:, k], one.margins(w)[:, 0])
        assert engine.evaluate(loss, W).training_correct[k] == one.evaluate(loss, w).training_correct[0]
    assert engine.arithmetic(MODELS) == FLOAT64


def test_the_rows_of_the_test_are_cut_and_the_maps_matter():
    _, alone = both(Logistic())
    held = [one.margins(np.eye(P + 1))[:, :P] for one in alone]
    cut = [np.mean(np.linalg.norm(rows, axis=1) > X_NORM * (1 - 1e-6)) for rows in held]
    assert 0.1 < min(cut) <= max(cut) < 0.9
    assert np.abs(held[0] - held[1]).max() > 0.1
    assert max(np.linalg.norm(rows, axis=1).max() for rows in held) <= X_NORM


@with_and_without
def test_sums_of_rows_and_curvature(intercept):
    loss = Logistic()
    engine, alone = both(loss, intercept)
    W = weights(loss, intercept)
    for k, one in enumerate(alone):
        close(engine.row_sum()[:, k], one.row_sum()[:, 0])
        close(engine.square_sum()[:, k], one.square_sum()[:, 0])
        close(engine.row_moments()[k], one.row_moments()[0])
        close(engine.curvature_sum(loss, W)[k], one.curvature_sum(loss, W[:, [k]])[0])


@each_loss
def test_batches_samples_selections_and_orders(loss):
    order = np.random.default_rng(3).permutation(N)
    engine, alone = both(loss, order=order)
    W = weights(loss)
    counts = table(loss)._mask.sum(axis=0)
    sizes = np.array([[count // 2 for count in counts], [count - count // 2 for count in counts]])
    batches = engine.batches(sizes)
    found = W.copy()
    engine.descend(loss, found, batches, np.full((2, MODELS), 0.5), 0.01)
    draws = [FixedSample(np.arange(k, 60, 2)) for k in range(MODELS)]
    few = engine.sample(draws).gradient_sum(loss, W)
    turned = engine.select([2, 0]).gradient_sum(loss, np.ascontiguousarray(W[:, [2, 0]]))
    for k, one in enumerate(alone):
        w = np.ascontiguousarray(W[:, [k]])
        one_epoch = w.copy()
        one.descend(loss, one_epoch, one.batches(sizes[:, [k]]), np.full((2, 1), 0.5), 0.01)
        close(found[:, k], one_epoch[:, 0])
        close(few[:, k], one.sample([draws[k]]).gradient_sum(loss, w)[:, 0])
    for place, k in enumerate((2, 0)):
        close(turned[:, place], alone[k].gradient_sum(loss, np.ascontiguousarray(W[:, [k]]))[:, 0])


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=lambda loss: loss.name)
def test_values_between_two_points(loss):
    engine, alone = both(loss)
    begin, end, shares = weights(loss), -0.5 * weights(loss), np.arange(11) / 10
    found = engine.values_between(loss, begin, end, shares)
    for k, one in enumerate(alone):
        close(found[:, k], one.values_between(loss, begin[:, [k]], end[:, [k]], shares)[:, 0])


@with_and_without
def test_empty_rows_add_nothing(intercept):
    loss = Logistic()
    engine, alone = both(loss, intercept, rows=500, masked=False)
    W = weights(loss, intercept)
    for k, one in enumerate(alone):
        close(
            engine.gradient_sum(loss, W, clip=[0.1] * 3)[:, k],
            one.gradient_sum(loss, W[:, [k]], clip=[0.1])[:, 0],
        )
        close(engine.square_sum()[:, k], one.square_sum()[:, 0])
    nothing, _ = both(loss, intercept, rows=0, masked=False)
    assert not nothing.gradient_sum(loss, W).any()
    assert not nothing.gradient_sum(loss, W, clip=[0.1] * 3).any()
    assert not nothing.row_sum().any()


def test_a_clipped_gradient_is_no_longer_than_the_clip():
    """One row at a time: the norm of what it adds, for a clip that cuts every row."""
    loss, clip = Logistic(), 0.03
    engine, _ = both(loss, masked=False)
    W = weights(loss)
    lengths = []
    for row in range(40):
        alone = engine.sample([FixedSample([row])] * MODELS)
        lengths += np.linalg.norm(alone.gradient_sum(loss, W, clip=[clip] * MODELS), axis=0).tolist()
    assert max(lengths) <= clip
    assert max(lengths) > clip * (1 - 1e-6)


def test_maps_that_would_cost_precision_are_not_seen_together():
    rows = table(Logistic())
    assert rows.mapped_per_model(maps(apart=0.01)) is not None
    assert rows.mapped_per_model(maps(apart=1e7)) is None
    other = RowMap(x_norm=2.0, intercept=0.4, scale=np.ones(P))
    assert rows.mapped_per_model([*maps()[:2], other]) is None
    plain = RowMap(x_norm=X_NORM, intercept=0.4)
    assert rows.mapped_per_model([*maps()[:2], plain]) is None


def test_refusals_and_another_map():
    seen = table(Logistic()).mapped_per_model(maps())
    assert seen is not None
    again = seen.mapped(maps()[0]).open(precise=True)  # one map for all of them, from now on
    assert again.gradient_sum(Logistic(), weights(Logistic())).shape == (P + 1, MODELS)
    assert not isinstance(again, PerModelEngine)
    for masked in (True, False):
        engine, _ = both(Logistic(), masked=masked)
        with pytest.raises(InvalidInput, match="models"):
            engine.gradient_sum(Logistic(), np.zeros((P + 1, 2)))
