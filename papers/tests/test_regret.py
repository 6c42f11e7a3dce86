"""Regrets have the right sign, and a rule that is chosen without a set is judged on that set alone."""

import numpy as np
import pyarrow as pa
import pytest

from dperm.errors import InvalidInput
from dperm_papers.reproduce.regret import (
    Entry,
    best_of,
    leave_one_out,
    means_of,
    regrets,
    regrets_left_out,
    summarise,
)


def entry(dataset, label, accuracy, log_loss, private=True):
    means = {"accuracy": dict(enumerate(accuracy)), "log_loss": dict(enumerate(log_loss))}
    return Entry(dataset=dataset, label=label, private=private, means=means)


ENTRIES = [
    entry("a", "rule", [0.7, 0.8], [0.6, 0.5]),
    entry("a", "other", [0.75, 0.78], [0.55]),
    entry("b", "rule", [0.9, 0.9], [0.3, 0.3]),
    entry("b", "other", [0.6, 0.9], [0.4, 0.2]),
]


def test_a_regret_is_positive_where_the_other_is_better():
    for metric, expected in (
        ("accuracy", {("a", 0): 0.05, ("a", 1): -0.02, ("b", 0): -0.3, ("b", 1): 0.0}),
        ("log_loss", {("a", 0): 0.05, ("b", 0): -0.1, ("b", 1): 0.1}),
    ):
        rule, other = (means_of(ENTRIES, label, metric) for label in ("rule", "other"))
        assert regrets(rule, other, metric) == pytest.approx(expected)
        best = regrets(rule, best_of(ENTRIES, metric, ["rule", "other"]), metric)
        assert min(best.values()) == 0
        assert best == pytest.approx({cell: max(0.0, expected.get(cell, 0.0)) for cell in rule})


def test_a_summary_has_the_mean_and_the_worst_set():
    found = {("a", 0.1): 0.3, ("b", 0.1): 0.1, ("b", 1.0): 0.5}
    assert summarise(found, [0.1]) == summarise({cell: found[cell] for cell in list(found)[:2]})
    summary = summarise(found)
    assert (summary.mean, summary.worst, summary.dataset) == (pytest.approx(0.3), 0.5, "b")
    assert summarise(found, [4.0]) is None


def table(accuracy, log_loss=None):
    """From sets by epsilons by candidates."""
    accuracy = np.asarray(accuracy, float)
    s, e, c = (index.ravel() for index in np.indices(accuracy.shape))
    log_loss = np.zeros(accuracy.size) if log_loss is None else np.ravel(log_loss)
    return pa.table(
        {
            "dataset": [f"set{i}" for i in s],
            "epsilon": [(0.1, 1.0)[i] for i in e],
            "candidate": [f"c{i}" for i in c],
            "accuracy": accuracy.ravel(),
            "log_loss": log_loss,
        }
    )


def test_the_choice_does_not_see_the_set_that_is_left_out():
    # c0 is best on the sets 0 and 1, c1 by far on set 2: only a choice that saw set 2 would take c1 for it.
    accuracy = [[[0.80, 0.79], [0.80, 0.79]], [[0.70, 0.69], [0.70, 0.69]], [[0.5, 0.9], [0.6, 0.9]]]
    found = leave_one_out(table(accuracy), ["accuracy"])
    assert [(one.dataset, one.candidate) for one in found] == [("set0", "c1"), ("set1", "c1"), ("set2", "c0")]
    left_out = regrets_left_out(found, "accuracy")
    assert left_out["set2", 0.1] == pytest.approx(0.4)
    assert left_out["set0", 1.0] == pytest.approx(0.01)
    assert summarise(left_out).dataset == "set2"


def test_the_choice_weighs_the_metrics():
    accuracy = np.broadcast_to([0.80, 0.79], (3, 2, 2))
    log_loss = np.broadcast_to([0.6, 0.4], (3, 2, 2))
    plain, both = (
        {one.candidate for one in leave_one_out(table(accuracy, log_loss), ["accuracy"], weights)}
        for weights in ({"accuracy": 100.0}, {"accuracy": 100.0, "log_loss": 10.0})
    )
    assert (plain, both) == ({"c0"}, {"c1"})


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    whole = table(rng.random((4, 2, 5)), rng.random((4, 2, 5)))
    mixed = whole.take(rng.permutation(len(whole)))
    first, second = (
        {one.dataset: (one.candidate, one.regrets["log_loss"]) for one in leave_one_out(some, ["log_loss"])}
        for some in (whole, mixed)
    )
    assert first == second


def test_an_incomplete_table_is_refused():
    whole = table(np.random.default_rng(0).random((3, 2, 2)))
    for broken in (
        whole.slice(1),
        pa.concat_tables([whole, whole.slice(0, 1)]),
        table(np.full((3, 2, 2), np.nan)),
    ):
        with pytest.raises(InvalidInput, match="every candidate"):
            leave_one_out(broken, ["accuracy"])
    with pytest.raises(InvalidInput, match="at least two"):
        leave_one_out(whole.slice(0, 4), ["accuracy"])
