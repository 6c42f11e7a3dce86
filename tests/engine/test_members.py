"""Samples, orders, batches and clips of persons (engine/base/draws.py)."""

import numpy as np
import pytest

from dperm.engine import engine_for, open_rows
from dperm.engine.base.draws import Members
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import HuberHinge, Logistic, Softmax, Weighted
from dperm.losses.base import weighted_targets
from dperm.problem import Problem
from dperm.unit import Persons

PERSON = np.array([0, 1, 0, 2, 2, 2, 3, 0])
RNG = np.random.default_rng(1)
X = RNG.normal(size=(8, 2)) / 4
COUNTS = np.bincount(PERSON)
SHARES = 1 / COUNTS[PERSON]
LABELS = np.where(RNG.uniform(size=8) < 0.5, -1.0, 1.0)
LOSS = Weighted(HuberHinge(0.5), 1.0)


class Order:
    def __init__(self, order):
        self.order = np.asarray(order)

    def permutation(self, n):
        assert n == len(self.order)
        return self.order


class Sample(Order):
    def positions(self, n):
        self.asked = n
        return self.order


def problem_of(loss=LOSS, n_persons=4):
    return Problem(
        loss=loss, l2=0.1, x_norm=1.0, n_rows=n_persons, n_features=2, persons=Persons(rows_per_person=9)
    )


def rows_of(members, X=X, labels=LABELS, shares=SHARES, loss=LOSS):
    problem = problem_of(loss, members.n_persons)
    return open_rows(X, weighted_targets(labels, shares), problem, members=members), problem


def test_rows_of_persons_one_after_the_other():
    members = Members(PERSON, 4, 1.0)
    assert members.rows_of(np.array([2, 0])).tolist() == [3, 4, 5, 0, 2, 7]
    assert members.rows_of(np.array([], np.int64)).tolist() == []
    assert members.counts(np.array([3, 0])).tolist() == [1, 3]
    assert members.first_rows().positions(8).tolist() == [0, 1, 3, 6]


def test_absent_persons_have_an_empty_row():
    members = Members(PERSON, 6, 1.0)
    assert members.n_rows == 10
    assert members.rows_of(np.array([5, 1])).tolist() == [9, 1]
    rows, _ = rows_of(members)
    engine = rows.open(precise=True)
    assert engine.n_rows == 10
    whole = rows_of(Members(PERSON, 4, 1.0))[0].open(precise=True)
    w = np.array([[0.3], [-0.2]])
    np.testing.assert_array_equal(engine.gradient_sum(LOSS, w), whole.gradient_sum(LOSS, w))


def test_a_sample_of_persons_is_all_their_rows():
    members, drawn = Members(PERSON, 4, 1.0), Sample([0, 3])
    engine = rows_of(members)[0].open(precise=True)
    w = np.array([[0.3], [-0.2]])
    found = engine.sample([members.drawn(drawn)]).gradient_sum(LOSS, w)
    assert drawn.asked == 4  # persons, not rows
    own = np.isin(PERSON, [0, 3])
    slopes = LOSS.slope(X[own] @ w[:, 0], weighted_targets(LABELS[own], SHARES[own]))
    np.testing.assert_allclose(found[:, 0], slopes @ X[own], rtol=1e-6, atol=1e-9)


def test_a_sample_in_shards():
    members = Members(PERSON, 4, 1.0)
    parts = members.drawn(Sample([0, 2])).split([3, 0, 5])
    assert [part.positions(n).tolist() for part, n in zip(parts, (3, 0, 5), strict=True)] == [
        [0, 2],
        [],
        [0, 1, 2, 4],
    ]
    assert [part.positions(0).tolist() for part in members.first_rows().split([4, 4])] == [[0, 1, 3], [2]]


def test_batches_of_persons_are_divided_by_persons():
    members = Members(PERSON, 4, 1.0)
    order = members.ordered(Order([2, 1, 3, 0]))
    engine = rows_of(members)[0].open(order, precise=True)
    batches = order.batches(engine, np.array([[1], [3]]))
    assert batches.sizes.tolist() == [[1], [3]]
    w = np.zeros((2, 1))
    engine.descend(LOSS, w, batches, [[0.1], [0.1]], [0.0])
    expected = np.zeros(2)
    for persons in ([2], [1, 3, 0]):
        own = np.isin(PERSON, persons)
        slopes = LOSS.slope(X[own] @ expected, weighted_targets(LABELS[own], SHARES[own]))
        expected = expected - 0.1 / len(persons) * slopes @ X[own]
    np.testing.assert_allclose(w[:, 0], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [Weighted(Logistic(), 1.0), Weighted(Softmax(3), 1.0)], ids=lambda loss: loss.name
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_clip_bounds_what_a_person_adds_and_without_shares_it_does_not(loss, sparse):
    """All rows of one person alike: they add up to the clip, and without shares to many times that."""
    from scipy.sparse import csr_matrix

    n = 40
    rows = np.tile([[0.6, 0.8]], (n, 1))
    labels = np.full(n, 1.0)
    shares = np.full(n, 1 / n)
    form = csr_matrix(rows) if sparse else rows
    members = Members(np.zeros(n, np.int64), 1, 1.0)
    opened, _ = rows_of(members, form, labels, shares, loss)
    clip = 1e-3
    shape = (2, 1) if loss.outputs == 1 else (2, 1, 3)
    found = np.linalg.norm(opened.open(precise=True).gradient_sum(loss, np.zeros(shape), clip=[clip]))
    assert 0.99 * clip < found <= clip * (1 + 1e-12)
    alone = engine_for(form).of(
        form, weighted_targets(labels, shares), row_map=problem_of().row_map, n_rows=n
    )
    far = np.linalg.norm(alone.open(precise=True).gradient_sum(loss, np.zeros(shape), clip=[clip]))
    assert far > 10 * clip


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="more persons than the declared number, 3"):
        Members(PERSON, 3, 1.0)
    rows, problem = rows_of(Members(PERSON, 4, 1.0))
    rows.check_matches(problem, 0)
    with pytest.raises(InvalidInput, match="do not agree"):
        rows.check_matches(Problem(loss=LOSS, l2=0.1, x_norm=1.0, n_rows=4, n_features=2), 0)
    with pytest.raises(InvalidInput, match="not those of the plan"):
        rows.check_matches(problem_of(n_persons=5), 0)
    with pytest.raises(InvalidInput, match="every row belongs to a person"):
        open_rows(
            X, LABELS, Problem(loss=HuberHinge(0.5), l2=0.1, x_norm=1.0, n_rows=9, n_features=2)
        ).of_persons(Members(PERSON, 4, 1.0))


def test_kinds_that_know_no_persons_say_so():
    from dperm.engine.base.rows import Rows

    class Own(Rows):
        name = "own"

    Own.__abstractmethods__ = frozenset()
    with pytest.raises(Unsupported, match="own rows cannot be told apart"):
        Own().of_persons(Members(PERSON, 4, 1.0))
