"""The study of averages: as many as are said, judged against the rule, and kept."""

import numpy as np
import pyarrow as pa
import pytest

from dperm.losses import Logistic
from dperm.mechanisms import RSGDAR
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce import Bench, averages, find_item
from dperm_papers.reproduce.averages import AVERAGES, averaged
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.rules import by_rule

BUDGET = Budget(1.0, 1e-8)


@pytest.mark.parametrize("shape", AVERAGES, ids=str)
def test_averages_are_as_many_as_are_said_and_the_last_is_at_the_end(shape):
    problem = Problem.for_table(12_000, 20, loss=Logistic(), l2=1e-3, x_norm=1.0)
    rule, _ = by_rule(RSGDAR(), problem, BUDGET)
    plan = averaged(*shape, rule).plan(problem, BUDGET)
    times, count = shape
    assert sum(plan.schedule.averaged) == count
    assert plan.schedule.averaged[-1]
    assert len(plan.schedule.averaged) == pytest.approx(times * rule.epochs, abs=count)


def test_averages_are_judged_against_the_rule_of_the_same_table():
    rows = [
        {"dataset": name, "epsilon": 0.1, "averages": label, "score": score, "seconds": seconds}
        for name, label, score, seconds in (
            ("a", averages.THE_RULE, 80.0, 1.0),
            ("a", "one", 81.0, 2.0),
            ("b", averages.THE_RULE, 60.0, 4.0),
            ("b", "one", 58.0, 12.0),
        )
    ]
    size = averages.Size(epsilons=(0.1,))
    assert averages._section([pa.Table.from_pylist(rows)], size).rows == (("one", "-0.50", "2.5"),)


class Made:
    """A table with two classes, made up."""

    def records(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 3))
        X = (X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]).astype(np.float32)
        return Records(name="made", X=X, y=(X[:, 0] + 0.1 * rng.normal(size=600) > 0.2).astype(int))


def test_the_study_runs_end_to_end_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(averages, "TABLES", {"binary": ("one", "another")})
    monkeypatch.setattr(averages, "read", lambda name, most: Made())
    bench = Bench(folder=tmp_path, parts=tmp_path / "parts", quick=True)
    (section,) = find_item("averages").run(bench).sections
    assert [row[0] for row in section.rows] == [averages.in_words(*shape) for shape in AVERAGES]
    monkeypatch.setattr(averages, "compare", None)  # what is kept is not run again
    assert find_item("averages").run(bench).sections == (section,)
