"""Rows in tensors: what is accepted, what is stored, how sums are rounded. The laws of all engines hold besides."""

import gc
import os
import re
import weakref
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from engine_tables import FixedOrder, between

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine import Table, engine_for
from dperm.errors import InvalidInput
from dperm.losses import Logistic, Softmax
from dperm.row_map import RowMap

torch = pytest.importorskip("torch", reason="rows on a device need torch")

from dperm.engine.device.engine import TorchEngine, block_products  # noqa: E402
from dperm.engine.device.rows import TorchRows  # noqa: E402
from dperm.engine.device.tensors import as_tensor, is_tensor, on_host, plain_products  # noqa: E402

DEVICE = os.environ.get("DPERM_TORCH_DEVICE", "cpu")
N, FEATURES = 1700, 9


def data(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, FEATURES)) * 0.4, np.where(rng.random(n) < 0.4, -1.0, 1.0)


def rows_of(X, y, *, n_rows=None, mask=None, **facts):
    row_map = RowMap(**{"x_norm": 1.0, "intercept": 0.5, **facts})
    tensor = torch.as_tensor(X).to(DEVICE)
    return TorchRows(tensor, y, row_map=row_map, n_rows=n_rows or len(X), mask=mask)


class Elsewhere:
    """An array that only speaks DLPack, as those of other libraries do, and says in which memory it is."""

    def __init__(self, tensor, place):
        self._tensor, self._place, self.shape = tensor, place, tuple(tensor.shape)

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._place, 0


def test_tensors_and_arrays_on_a_device_are_accepted():
    tensor = torch.arange(6.0).reshape(3, 2)
    for mine in (tensor, Elsewhere(tensor, 2), Elsewhere(tensor, 10)):
        assert engine_for(mine) is TorchRows
        assert TorchRows.shape_of(mine) == (3, 2)
    for other in (np.zeros((3, 2)), [[0.0, 1.0]], np.float64(1), Elsewhere(tensor, 1)):
        assert not is_tensor(other)
    torch.testing.assert_close(as_tensor(Elsewhere(tensor, 1)), tensor)
    array = [1, 2]
    assert on_host(array) is array
    np.testing.assert_array_equal(on_host(tensor.requires_grad_()), np.arange(6.0).reshape(3, 2))


@pytest.mark.parametrize(
    "bad", [torch.zeros(3), torch.zeros((3, 2), dtype=torch.complex64), torch.zeros((3, 2)).to_sparse()]
)
def test_other_tensors_are_refused(bad):
    with pytest.raises(InvalidInput, match="tensor"):
        TorchRows(bad, np.ones(3), row_map=RowMap(x_norm=1.0), n_rows=3)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int32", "bool"])
def test_any_real_type_is_stored_within_the_bound(kind):
    X, y = data()
    tensor = torch.as_tensor(X * 3).to(getattr(torch, kind))
    engine = rows_of(tensor, y).open()
    stored = engine._rows.densely(0, N)
    assert engine._rows.X.dtype == torch.float32
    for row in stored[:300]:
        assert sum(Fraction(float(v)) ** 2 for v in row[:FEATURES]) <= 1
    assert (stored[:, FEATURES] == 0.5).all()
    given = tensor.double().numpy()
    expected = given * np.minimum(1, 1 / np.maximum(np.linalg.norm(given, axis=1), 1e-300))[:, None]
    np.testing.assert_allclose(stored[:, :FEATURES], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("precise", [False, True])
def test_stored_norms_keep_every_bound_exactly(precise):
    """Rows at the bound, far beyond it, huge and tiny, moved or not; ``inverse_norm`` never says too much."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= np.repeat([1.0, 1 + 1e-15, 1e200, 1e-300, 1e-40, 0.0, 7.0, 1 - 2.0**-25], 50)[:, None]
    for facts in ({}, {"centre": rng.uniform(-1, 1, FEATURES), "scale": rng.uniform(0.1, 2, FEATURES)}):
        stored = rows_of(X, np.ones(400), **facts).open(precise=precise)._rows
        for row, inverse in zip(stored.densely(0, 400), stored.inverse_norm, strict=True):
            features = sum(Fraction(float(v)) ** 2 for v in row[:FEATURES])
            assert features <= 1
            assert Fraction(float(inverse)) ** 2 * (features + Fraction(1, 4)) <= 1


def test_stored_rows_are_those_of_a_table():
    X, y = data()
    facts = {"centre": np.full(FEATURES, 0.1), "scale": np.full(FEATURES, 0.7)}
    order = FixedOrder(np.random.default_rng(1).permutation(N + 9))
    mine = rows_of(X, y, n_rows=N + 9, **facts).open(order, precise=True)
    table = Table(X, y, row_map=RowMap(x_norm=1.0, intercept=0.5, **facts), n_rows=N + 9)
    theirs = table.open(order, precise=True)
    np.testing.assert_allclose(mine._rows.densely(0, N + 9), theirs._rows.X, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(mine._rows.y, theirs._rows.y)
    np.testing.assert_allclose(mine._rows.inverse_norm, theirs._rows.inverse_norm, rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    X, y = data()
    X[5, 1] = value
    with pytest.raises(InvalidInput, match="NaN or infinite") as caught:
        rows_of(X, y).open()
    assert caught.value.__context__ is None


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("models", [1, 5])
def test_one_row_changes_the_sum_of_one_block_alone(models, precise):
    """Bit patterns of the sums of all blocks, those that are added up, beside a control that must differ."""
    loss, changed = Logistic(), 1300
    X, y = data()
    other = X.copy()
    other[changed] = -other[changed][::-1]
    W = np.random.default_rng(2).standard_normal((FEATURES + 1, models))
    found = []
    for rows in (X, other):
        engine = rows_of(rows, y).open(precise=precise)
        blocks = sums_of_blocks(engine, loss, W)
        found.append(blocks.view(np.uint64 if precise else np.uint32))
    size = 1024 if precise else 256
    differ = np.flatnonzero((found[0] != found[1]).any(axis=(1, 2)))
    assert len(found[0]) == -(-N // size)
    assert differ.tolist() == [changed // size]


def sums_of_blocks(engine, loss, W):
    from dperm.engine.device.engine import TorchStage

    models = W.shape[1]
    stage = TorchStage(engine._rows, loss, np.zeros(models, int), np.full(models, N), None, engine._dtype)
    weights, parts = engine._flat(W).to(stage.dtype), []
    with plain_products(engine._rows.device):
        for first, X, Z in engine._margin_blocks(stage.span, weights):
            parts += [part.cpu().numpy() for part in block_products(X, stage.slopes(Z, first))]
    return np.concatenate(parts)


@pytest.mark.parametrize("models", [1, 5])
def test_the_blocks_are_what_is_added_up(models):
    """So the test above looks at the sums that leave the engine."""
    X, y = data()
    engine = rows_of(X, y).open()
    W = np.random.default_rng(2).standard_normal((FEATURES + 1, models))
    total = sums_of_blocks(engine, Logistic(), W).sum(axis=0, dtype=np.float64)[: FEATURES + 1]
    found = engine.gradient_sum(Logistic(), W)
    if DEVICE == "cpu":
        np.testing.assert_array_equal(found, total)
    else:  # there margins are computed in the same kernel as slopes, in another order
        np.testing.assert_allclose(found, total, rtol=0, atol=N * 1e-6)


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("precise", [False, True])
def test_neighbours_are_no_farther_apart_than_the_gap_and_the_rounding(models, precise):
    """What dp-gd and objective perturbation release a sum of: 2 C for a replaced row, and what is allowed on top."""
    loss, clip, block = Logistic(), 0.25, 1024 if precise else 256
    X, y = data()
    W = np.random.default_rng(2).standard_normal((FEATURES + 1, models))
    worst, unit = 0.0, 2.0**-53 if precise else 2.0**-24
    for i in range(0, N, 97):
        other, labels = X.copy(), y.copy()
        other[i], labels[i] = -50 * other[i], -labels[i]
        sums = [
            rows_of(rows, each).open(precise=precise).gradient_sum(loss, W, clip=[clip] * models)
            for rows, each in ((X, y), (other, labels))
        ]
        worst = max(worst, np.linalg.norm(sums[0] - sums[1], axis=0).max())
    assert 0.5 * clip < worst <= 2 * clip * (1 + block * block * unit + N * N * 2.0**-52)


def test_a_pass_repeats_to_the_last_bit_and_states_its_arithmetic():
    X, y = data()
    y = np.abs(np.round(X[:, 0] * 2)) % 3
    for precise, states in ((False, FLOAT32), (True, FLOAT64)):
        engine = rows_of(X, y).open(precise=precise)
        assert {engine.arithmetic(1), engine.arithmetic(9)} == {states}
        for models in (1, 4):
            W = np.random.default_rng(2).standard_normal((FEATURES + 1, models, 3))
            runs = [engine.value_and_gradient_sum(Softmax(3), W) for _ in range(4)]
            for value, gradient in runs[1:]:
                np.testing.assert_array_equal(value, runs[0][0])
                np.testing.assert_array_equal(gradient, runs[0][1])


@pytest.mark.parametrize("precision", ["medium", "high", "highest"])
def test_settings_of_torch_change_no_bit_and_are_left_as_they_were(precision):
    X, y = data()
    engine = rows_of(X, y).open()
    W = np.random.default_rng(2).standard_normal((FEATURES + 1, 3))
    expected = engine.gradient_sum(Logistic(), W)
    before, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    try:
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(2)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = engine.gradient_sum(Logistic(), W)
        assert torch.get_float32_matmul_precision() == precision
        assert torch.get_num_threads() == 2
    finally:
        torch.set_float32_matmul_precision(before)
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(found, expected)


def test_rows_leave_the_device_with_their_engine():
    """And not when garbage is collected next: they may fill it."""
    X, y = data()
    engine = rows_of(X, y).open()
    W = np.zeros((FEATURES + 1, 1))
    for _ in range(3):
        engine.gradient_sum(Logistic(), W)
        engine.descend(Logistic(), W, engine.batches([[N]]), [[0.1]], 0.0)
    stored = weakref.ref(engine._rows)
    gc.disable()
    try:
        del engine
        assert stored() is None
    finally:
        gc.enable()


def test_a_batch_of_nothing_is_zero():
    X, y = data()
    engine = rows_of(X, y).open()
    for models in (1, 3):
        W = np.random.default_rng(2).standard_normal((FEATURES + 1, models))
        none = between(np.full(models, 7), np.full(models, 7))
        np.testing.assert_array_equal(engine.gradient_sum(Logistic(), W, batch=none), 0)


@pytest.mark.parametrize("mechanism", ["auto", "objective", "dp-gd", "rsgd-ar"])
def test_a_fit_on_tensors_is_the_fit_on_arrays(mechanism):
    X, y = data(n=4000)
    settings = {"mechanism": mechanism, "epsilon": 2.0, "random_state": 3}
    model = PrivateLogisticRegression(**settings).fit(
        torch.as_tensor(X).to(DEVICE), torch.as_tensor(y).to(DEVICE)
    )
    same = PrivateLogisticRegression(**settings).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-3, atol=1e-4)
    assert model.n_features_in_ == FEATURES
    given = torch.as_tensor(X).to(DEVICE)
    for verb in ("predict", "predict_proba", "decision_function"):
        found = getattr(model, verb)(given)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(model, verb)(X), rtol=1e-9, atol=1e-12)
    assert model.score(given, torch.as_tensor(y).to(DEVICE)) == model.score(X, y)
    with pytest.raises(InvalidInput, match="features"):
        model.predict(given[:, 1:])
    with pytest.raises(InvalidInput, match="NaN"):
        model.predict(given * float("nan"))


@pytest.mark.parametrize(
    ("mechanism", "arithmetic"),
    [("auto", FLOAT64), ("rsgd-ar", FLOAT64), ("noisy-sgd", FLOAT64), ("dp-gd", FLOAT32)],
)
def test_a_release_on_tensors_is_certified(mechanism, arithmetic, monkeypatch):
    """Float32 where the mechanism allows for it, float64 everywhere else."""
    used = set()
    monkeypatch.setattr(TorchEngine, "_note", _noting(TorchEngine._note, used))
    X, y = data(n=4000)
    model = PrivateLogisticRegression(mechanism=mechanism, classes=[-1.0, 1.0], delta=1e-9)
    model.fit(torch.as_tensor(X).to(DEVICE), torch.as_tensor(y))
    assert model.privacy_.statement["certified_arithmetic"] is True
    assert used == {arithmetic}


def _noting(sound, used):
    def note(engine, n_models):
        used.add(engine.arithmetic(n_models))
        sound(engine, n_models)

    return note


def test_a_regression_on_tensors():
    X, _ = data(n=4000)
    y = np.clip(X @ np.linspace(-1, 1, FEATURES), -2, 2)
    model = PrivateLinearRegression(y_range=(-2, 2), epsilon=10.0, random_state=1)
    given = torch.as_tensor(X).to(DEVICE), torch.as_tensor(y).to(DEVICE)
    model.fit(*given)
    assert model.score(*given) == model.score(X, y) > 0.3


def test_the_page_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(code, names)
    assert names["model"].score(names["X"], names["y"]) > 0.8
    assert "(1, 1e-09)-differentially private" in capsys.readouterr().out
