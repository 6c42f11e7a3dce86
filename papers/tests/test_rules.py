"""The study of rules: grids hold their rule, and a rule that is behind is found behind."""

import numpy as np
import pyarrow as pa
import pytest

from dperm.losses import ClippedSquared, Logistic
from dperm.mechanisms import RSGDAR, mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce import Bench, find_item, rules
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.development import DevelopmentSet
from dperm_papers.reproduce.rules import (
    GRIDS,
    Grid,
    Regrets,
    Times,
    by_rule,
    label_of,
    regret,
)

BUDGET = Budget(1.0, 1e-8)
ELSEWHERE = {
    "auto": "the study of the defaults is about it",
    "dp-sgd-adv": "it refuses tables from which something can be learned",
}


def problem_for(grid: Grid) -> Problem:
    loss = ClippedSquared() if grid.kind == "regression" else Logistic()
    return Problem.for_table(12_000, 20, loss=loss, l2=1e-3, x_norm=1.0)


def test_every_private_mechanism_of_the_papers_has_a_grid():
    private = {name for name in mechanism_names() if resolve(name).private}
    assert {grid.mechanism for grid in GRIDS} == private - set(ELSEWHERE)


@pytest.mark.together
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.mechanism)
def test_the_first_of_a_grid_is_the_rule_and_the_others_differ_from_it(grid):
    problem = problem_for(grid)
    found = grid.candidates(problem, BUDGET)
    mechanism = resolve(grid.mechanism)
    regularised = mechanism.regularised(problem, BUDGET)
    (first, l2), *others = found.values()
    assert next(iter(found)) == label_of(grid.main, 1.0, {})
    assert l2 == pytest.approx(regularised.l2)
    rule, filled = mechanism.plan(regularised, BUDGET), first.plan(regularised, BUDGET)
    assert (rule.noise, rule.standardisation is None) == (filled.noise, filled.standardisation is None)
    assert len(others) > 5
    assert all(other != (first, l2) for other in others)


def test_what_is_set_is_kept_and_the_rule_fills_the_rest():
    problem = problem_for(GRIDS[0])
    mechanism, _ = by_rule(RSGDAR(epochs=7), problem, BUDGET)
    assert mechanism.epochs == 7
    assert None not in (mechanism.step_size, mechanism.average_every, mechanism.batch_size)
    other, _ = Grid(mechanism="rsgd-ar", main="step_size")._made(0.5, {"epochs": Times(2.0)}, problem, BUDGET)
    own, _ = by_rule(resolve("rsgd-ar"), problem, BUDGET)
    assert (other.step_size, other.epochs) == (0.5 * own.step_size, 2 * own.epochs)


def test_the_best_is_judged_on_the_fold_that_did_not_choose_it():
    scores = np.array([[80.0, 80.0, 80.0], [83.0, 79.0, 79.0]])  # the second is lucky in one fold
    assert regret(scores) == pytest.approx((80 - 80) / 3 + (79 - 80) / 3 + (79 - 80) / 3)
    assert regret(np.array([[80.0, 80.0, 80.0], [81.0, 82.0, 81.0]])) == pytest.approx(4 / 3)
    assert regret(scores[:1]) == 0.0


def table(scores, mechanism="rsgd"):
    rows = [
        {
            "dataset": dataset,
            "mechanism": mechanism,
            "epsilon": 1.0,
            "candidate": candidate,
            "l2": 0.1,
            "fold": fold,
        }
        | {"score": score}
        for (dataset, candidate), folds in scores.items()
        for fold, score in enumerate(folds)
    ]
    return pa.Table.from_pylist(rows)


def test_regrets_of_a_rule_that_is_behind_everywhere_and_of_the_choice_without_a_set():
    found = Regrets.of(
        table(
            {
                **{(name, "step_size × 1"): [80.0, 80.0] for name in "abc"},
                **{(name, "step_size × 2"): [82.0, 82.0] for name in "ab"},
                ("c", "step_size × 2"): [79.0, 79.0],
                **{(name, "refused on c"): [90.0, 90.0] for name in "b"},
            }
        )
    )
    assert found.rule == {("a", 1.0): 2.0, ("b", 1.0): 10.0, ("c", 1.0): 0.0}
    assert found.lucky == found.rule
    assert set(found.choices.values()) == {"step_size × 2"}
    assert found.left_out["c", 1.0] == 1.0  # chosen on a and b, one point behind on c
    assert found.row((1.0,))[:3] == ("rsgd", "3", "3")
    check = rules._check(found, 1.0)
    assert not check.holds
    assert "[4.00]" in check.claim


def made_up(name, most_rows=None, **_):
    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(600, 3))
    X = (X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]).astype(np.float32)
    return Records(name=name, X=X, y=(X[:, 0] + 0.1 * rng.normal(size=600) > 0.2).astype(int))


class Made(DevelopmentSet):
    """Two classes, made up."""

    kind = "binary"

    def __init__(self, name):
        object.__setattr__(self, "name", name)

    @property
    def schema(self):
        return type("Schema", (), {"target": type("Target", (), {"range": None})})

    def records(self, *, plain=False):
        return made_up(self.name)


def test_the_study_runs_end_to_end_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "TABLES", {"binary": ("one", "another")})
    monkeypatch.setattr(rules, "GRIDS", (Grid(mechanism="output", main="l2", factors=(1.0, 0.01)),))
    monkeypatch.setattr(rules, "read", lambda name, most: Made(name))
    bench = Bench(folder=tmp_path, parts=tmp_path / "parts", quick=True)
    report = find_item("rules").run(bench)
    (section,) = report.sections
    assert [row[0] for row in section.rows] == ["output"]
    assert len(report.checks) == 2
    monkeypatch.setattr(rules, "compare", None)  # what is kept is not run again
    assert find_item("rules").run(bench).sections == report.sections
