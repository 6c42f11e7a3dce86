"""The study of intervals: what is counted, how the rule is chosen, and that the item runs."""

import math

import numpy as np
import pytest

from dperm.cli.app import run
from dperm_papers.reproduce import data, find_item, intervals, intervals_trials
from dperm_papers.reproduce.intervals import Cell, checks, sections
from dperm_papers.reproduce.intervals_trials import (
    KINDS,
    LINEAR,
    LOGISTIC,
    Size,
    chosen_level,
    coverage,
    drawn_settings,
    people,
    rows_of,
)

TINY = Size(
    repeats=12,
    n_rows=(500, 2000),
    epsilons=(1.0, 10.0),
    tables=(("adult", LOGISTIC, 3),),
    table_repeats=3,
    settings=3,
    setting_repeats=4,
    most_rows=2000,
)


def grid_row(low=1.5, high=2.5, level=0.1, kind=LOGISTIC, **more):
    return {
        "kind": kind,
        "epsilon": 1.0,
        "n_rows": 2000,
        "noise_level": level,
        "fit_seconds": 0.01,
        "interval_seconds": 0.001,
        **{
            f"{name}_{part}": value
            for name in ("slope", "intercept")
            for part, value in (
                ("low", low),
                ("high", high),
                ("privacy", 0.5),
                ("plain_low", 1.0),
                ("plain_high", 1.2),
            )
        },
        **more,
    }


def test_a_cell_counts_what_is_given():
    rows = [
        grid_row(),
        grid_row(low=2.1),  # misses
        grid_row(high=math.inf),  # one end
        grid_row(low=-math.inf, high=math.inf),  # says nothing
        grid_row(level=0.5),  # too noisy
        grid_row(low=None, high=None),
    ]
    cell = Cell(LOGISTIC, 1.0, 2000, rows)
    assert len(cell.given) == 3
    assert cell.held() == pytest.approx(2 / 3)
    assert cell.closed == pytest.approx(2 / 6)
    assert cell.held(plain="plain_") == 0
    assert cell.width == pytest.approx(1.0)
    assert np.isinf(Cell(LOGISTIC, 1.0, 2000, rows[2:3]).width)
    assert np.isnan(Cell(LOGISTIC, 1.0, 2000, rows[4:]).held())


def setting_rows(held_by_level):
    """A hundred intervals at each of these noise levels, in two settings."""
    return [
        {"place": place, "noise_level": level, "intervals": 50, "held": round(50 * share)}
        for level, share in held_by_level.items()
        for place in (0, 1)
    ]


def test_the_level_stops_where_what_it_adds_covers_too_little():
    assert (
        chosen_level(setting_rows({0.04: 0.96, 0.15: 0.96, 0.3: 0.96, 0.4: 0.9, 0.9: 0.99})) == 0.05
    )  # none between
    good = dict.fromkeys((0.04, 0.08, 0.15, 0.3), 0.96)
    assert chosen_level(setting_rows({**good, 0.4: 0.9})) == 0.35
    assert chosen_level(setting_rows({**good, 0.4: 0.96, 0.6: 0.96, 0.9: 0.96})) == 1.0
    assert coverage([]) != coverage([])


def test_leaving_a_setting_out_leaves_it_out():
    rows = setting_rows(dict.fromkeys((0.04, 0.08, 0.15, 0.3), 0.96))
    rows.append({"place": 2, "noise_level": 0.3, "intervals": 500, "held": 300})
    assert chosen_level(rows) == 0.2
    assert chosen_level(rows, left_out=2) == 0.35


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_no_longer_than_they_may_be(kind):
    X = rows_of(kind, 4)(np.random.default_rng(0), 500)
    assert X.shape == (500, 4)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    assert np.linalg.matrix_rank(X - X.mean(axis=0)) == 4


def test_settings_are_those_of_the_seed():
    one, same, other = drawn_settings(5, 0), drawn_settings(5, 0), drawn_settings(5, 1)
    assert [s.task for s in one] == [s.task for s in same]
    assert [s.task for s in one] != [s.task for s in other]


@pytest.mark.parametrize(("name", "kind"), [("adult", LOGISTIC), ("cps", LINEAR)])
def test_people_have_columns_that_do_not_follow_from_others(name, kind):
    X, truth, spread = people(name, kind, 5, 3000)
    assert X.shape == (3000, 5)
    assert truth.shape == (6,)
    assert np.linalg.norm(X, axis=1).max() == pytest.approx(1)
    assert np.linalg.cond(np.column_stack([X, np.ones(len(X))])) < 100
    assert (spread > 0) == (kind == LINEAR)


def test_earnings_stand_beside_their_rows():
    """The labels of CPS say whether earnings are above 16."""
    records = data.load("cps").sample(500)
    earnings = intervals_trials._earnings(500)
    assert ((earnings > 16) == (records.y == ">16")).all()


def test_the_item_runs_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(intervals, "QUICK", TINY)
    assert run(["reproduce", "intervals", "--quick", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "11,566" in shown
    files = {path.name for path in (tmp_path / "intervals").iterdir()}
    assert {"figure.png", "report.md", "results.parquet", "tables.parquet"} <= files
    before = (tmp_path / "intervals" / "results.parquet").read_bytes()
    monkeypatch.setattr(intervals, "run_cell", lambda *task: iter(()))  # finished cells are not run again
    assert run(["reproduce", "intervals", "--quick", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "intervals" / "results.parquet").read_bytes() == before
    assert find_item("intervals").name == "intervals"


def test_a_check_fails_where_coverage_is_too_low():
    good = [grid_row() for _ in range(95)] + [grid_row(low=2.1) for _ in range(5)]
    bad = [grid_row() for _ in range(80)] + [grid_row(low=2.1) for _ in range(20)]
    for rows, holds in ((good, True), (bad, False)):
        found = list(checks(rows, [], []))
        assert all(check.holds for check in found[:2]) is holds
        assert len(list(sections(rows, [], []))) == 6
