"""Rows are drawn as the price assumes, on the operating system's randomness; draws that are not so are noticed."""

from types import SimpleNamespace

import numpy as np
import pytest

from dperm.mechanisms import DPGD, DPSGD, resolve
from dperm.privacy import SystemEntropy
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch
from dperm_audit.draws import _order_faults, _sample_faults, check_draws
from dperm_audit.worst_cases import audited_names

ORDERED = ("rsgd-ar", "rsgd", "bolt-on", "noisy-sgd")
POISSON = ("dp-sgd", "sgd-ma", "dp-svrg")
FIXED = ("psgd", "dp-sgd-adv")


@pytest.mark.parametrize("name", audited_names())
def test_rows_are_drawn_as_they_are_priced(name):
    found = check_draws(resolve(name), runs=120)
    assert found.faults == ()
    drawn = "secret order" if name in ORDERED else "probability" if name in POISSON else "at a time"
    if name in (*ORDERED, *POISSON, *FIXED):
        assert drawn in found.drawn
        assert found.runs == 120
    else:
        assert found.drawn.startswith("nothing")


@pytest.mark.parametrize("name", ORDERED)
def test_an_order_that_is_not_drawn_is_noticed(name, monkeypatch):
    monkeypatch.setattr(SystemEntropy, "permutation", lambda self, n: np.arange(n))
    assert any("random order" in fault for fault in check_draws(resolve(name), runs=120).faults)


@pytest.mark.parametrize("name", ORDERED)
def test_an_order_that_is_drawn_once_for_all_runs_is_noticed(name, monkeypatch):
    once = np.random.default_rng(1).permutation(12)
    monkeypatch.setattr(SystemEntropy, "permutation", lambda self, n: once.copy())
    assert any("tells of the next" in fault for fault in check_draws(resolve(name), runs=120).faults)


@pytest.mark.cover(1)
@pytest.mark.parametrize("name", POISSON)
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_rows_that_take_part_too_often_are_noticed(name, rate, monkeypatch):
    draw = PoissonBatch._draw
    monkeypatch.setattr(PoissonBatch, "_draw", lambda self, n: draw(PoissonBatch(self._source, rate), n))
    assert any("with probability 0.25" in fault for fault in check_draws(resolve(name), runs=120).faults)


@pytest.mark.parametrize("name", FIXED)
def test_a_batch_that_is_always_the_same_is_noticed(name, monkeypatch):
    monkeypatch.setattr(FixedSizeBatch, "_draw", lambda self, n: np.arange(self.size))
    assert check_draws(resolve(name), runs=120).faults


def test_a_batch_of_another_size_is_noticed(monkeypatch):
    draw = FixedSizeBatch._draw
    monkeypatch.setattr(
        FixedSizeBatch, "_draw", lambda self, n: draw(FixedSizeBatch(self._source, self.size + 1), n)
    )
    assert "a batch does not hold 3 rows" in check_draws(resolve("psgd"), runs=60).faults


class Sly(DPGD):
    """Half of the rows, by a draw that its plan says nothing of."""

    def _batch(self, engine, members, plans, gate):
        return engine.sample([gate.fixed_size(6)] * len(plans))


class Slyer(DPGD):
    """The same by an order of things that it calls no rows."""

    def _batch(self, engine, members, plans, gate):
        half = np.sort(gate.permutation(engine.n_rows)[:6])
        return engine.sample([SimpleNamespace(positions=lambda n_rows: half)] * len(plans))


@pytest.mark.parametrize("kind", [Sly, Slyer])
def test_draws_of_a_kind_that_is_not_known_are_a_fault(kind):
    assert check_draws(kind(steps=2)).faults == ("rows are drawn in a way that this check does not know",)
    assert check_draws(DPGD(steps=2)).faults == ()


class PublicBatches(DPSGD):
    """The same three rows in every step, priced as random ones."""

    def _batch(self, engine, members, plans, gate):
        return engine.sample([SimpleNamespace(positions=lambda n_rows: np.arange(3))] * len(plans))


class AllRows(DPSGD):
    """All rows in every step, priced as random ones."""

    def _batch(self, engine, members, plans, gate):
        return engine


def test_rows_that_are_never_drawn_are_noticed():
    assert any("probability" in fault for fault in check_draws(PublicBatches(), runs=60).faults)
    assert check_draws(AllRows(), runs=60).faults == ("rows are never drawn",)


def test_healthy_draws_of_our_own_raise_no_alarm():
    rng = np.random.default_rng(0)
    took_part = rng.random((2000, 3, 12)) < 0.3
    assert not list(_sample_faults(took_part, 0.3, 0.09))
    orders = np.array([rng.permutation(np.repeat([0, 1, 2], 4)) for _ in range(2000)])
    assert not list(_order_faults(orders, (4, 4, 4)))
    took_part[:, :, 1] = took_part[:, :, 0]
    assert list(_sample_faults(took_part, 0.3, 0.09)) == ["rows take part together too often or too seldom"]
