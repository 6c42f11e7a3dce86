"""Minimisers on many rows start from a few of them: faster, and no less sure."""

import numpy as np
import pytest

from dperm.engine import Engine, open_rows
from dperm.losses import HuberHinge, Logistic, Loss
from dperm.mechanisms import minimiser
from dperm.mechanisms.minimiser import EveryNth, minimise_surely
from dperm.problem import Problem

N, P = 20_000, 59


def problem(loss: Loss | None = None, l2: float = 1e-5) -> Problem:
    return Problem(loss=loss or Logistic(), l2=l2, x_norm=1.0, n_rows=N, n_features=P, intercept=0.3)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) / 8
    return X, np.where(X @ rng.standard_normal(P) * 3 + rng.logistic(size=N) > 0, 1.0, -1.0)


class Counted:
    """How many rows every pass of an engine class went over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Engine]) -> None:
        self.hessians: list[int] = []
        self.gradients: list[int] = []
        for name, kept in (("curvature_sum", self.hessians), ("value_and_gradient_sum", self.gradients)):
            monkeypatch.setattr(kind, name, self._counting(getattr(kind, name), kept))

    @staticmethod
    def _counting(method, kept: list[int]):
        def counting(engine: Engine, *arguments):
            kept.append(engine.n_rows)
            return method(engine, *arguments)

        return counting


def perturbed(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((P + 1, 1)) * 1e-3


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=repr)
def test_the_point_is_the_same_as_by_newton_alone(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = problem(loss, 1e-3)
    engine = open_rows(*rows(), facts).open(precise=True)
    limit = np.array([1e-10])
    found = minimise_surely(engine, [facts], limit, perturbed())
    monkeypatch.setattr(minimiser, "WORTHWHILE", N + 1)
    alone = minimise_surely(engine, [facts], limit, perturbed())
    assert not np.array_equal(found, alone)  # else nothing was compared
    assert np.linalg.norm(found - alone) <= 2 * 1.01 * limit[0] / facts.l2


def test_no_hessian_of_all_rows_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_rows(*rows(), problem()).open(precise=True)
    counted = Counted(monkeypatch, type(engine))
    minimise_surely(engine, [problem()], np.array([1e-9]), perturbed())
    assert max(counted.hessians) <= N / 4
    assert counted.gradients.count(N) <= 12


@pytest.mark.together
@pytest.mark.parametrize("few", ["zero", "another", "one class"])
def test_rows_that_mislead_cost_time_only(few: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The few rows say nothing, or something else, of the others; the point is found all the same."""
    X, y = rows()
    chosen = EveryNth(minimiser._stride(problem())).positions(N)
    if few == "zero":
        X[chosen] = 0
    elif few == "another":
        X[chosen], y[chosen] = X[chosen][:, ::-1] * 1e-3, -y[chosen]
    else:
        y[chosen] = 1
    engine = open_rows(X, y, problem()).open(precise=True)
    counted = Counted(monkeypatch, type(engine))
    point = minimise_surely(engine, [problem()], np.array([1e-9]), perturbed())
    gradient = engine.gradient_sum(Logistic(), point) / N + 1e-5 * point + perturbed()
    assert np.linalg.norm(gradient) <= 1.001e-9
    assert counted.gradients.count(N) <= 200


def test_a_masked_model_starts_from_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    mask = np.arange(N)[:, None] < 12_000
    facts = Problem(loss=Logistic(), l2=1e-4, x_norm=1.0, n_rows=12_000, n_features=P, intercept=0.3)
    y[12_000:] = -y[12_000:]
    limit = np.array([1e-10])
    masked = open_rows(X, y, facts, mask).open(precise=True)
    counted = Counted(monkeypatch, type(masked))
    found = minimise_surely(masked, [facts], limit)
    assert max(counted.hessians) <= 3_000
    apart = open_rows(X[:12_000], y[:12_000], facts).open(precise=True)
    np.testing.assert_allclose(found, minimise_surely(apart, [facts], limit), atol=3e-6)


def test_which_rows_are_few_is_public() -> None:
    """By position, from the sizes alone; small tables are taken whole."""
    np.testing.assert_array_equal(EveryNth(3).positions(8), [0, 3, 6])
    assert minimiser._stride(problem()) == 6
    small = Problem(loss=Logistic(), l2=1e-3, x_norm=1.0, n_rows=1000, n_features=P, intercept=0.3)
    assert minimiser._stride(small) < minimiser.WORTHWHILE
