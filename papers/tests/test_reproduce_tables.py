"""The items without cross-validation: curvature tables, the course report's tables, utility bounds."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from dperm.privacy.subsampled import fixed_size_epsilon
from dperm_papers.analysis.bounds import BOUNDS
from dperm_papers.reproduce import (
    Bench,
    find_item,
    item_names,
    report_simulation,
    report_tables,
)
from dperm_papers.reproduce import bounds_curves as bounds
from dperm_papers.reproduce.curvature_tables import is_close
from dperm_papers.reproduce.published import REPORT_CONSTANTS, REPORT_TABLES, TEST_POINTS, YU_TABLE2
from dperm_papers.reproduce.regression_sets import MAXIMUM, RANGE, RegressionSet, load
from records import loaded_or_skipped

NAMES = ("gp-table2", "gp-fig1", "report-tables", "bounds")


def bench(folder, **settings):
    return Bench(folder=folder, parts=folder / "parts", **settings)


def regression_set(name):
    return loaded_or_skipped(load, name)


@pytest.mark.together
@pytest.mark.parametrize("name", NAMES)
def test_the_items_are_registered_under_their_names(name):
    assert name in item_names()
    assert find_item(name).name == name
    assert find_item(name).differs


# Curvature


@pytest.mark.parametrize("name", YU_TABLE2)
def test_minimum_and_average_curvature_are_within_a_tenth_of_the_published(name):
    one = regression_set(name)
    assert is_close(name, one.curvature(one.convention))


@pytest.mark.parametrize(("name", "other"), [("graduate admission", MAXIMUM), ("motor insurance", RANGE)])
def test_another_scaling_of_the_columns_is_not(name, other):
    assert not is_close(name, regression_set(name).curvature(other))


@pytest.mark.parametrize("name", ["graduate admission", "boston housing", "motor insurance"])
def test_three_sets_agree_in_every_printed_digit(name):
    one = regression_set(name)
    found = one.curvature(one.convention)
    assert f"{found.minimum:.2e}" == f"{YU_TABLE2[name].minimum:.2e}"
    assert f"{found.average:.2f}" == f"{YU_TABLE2[name].average:.2f}"


def test_sonar_loses_its_first_row_in_the_published_minimum():
    one = regression_set("sonar")
    rows = one.convention.scale(one.features[1:])
    assert f"{np.linalg.eigvalsh(rows.T @ rows / len(rows))[0]:.2e}" == "3.63e-04"


def test_curvature_is_that_of_the_second_moments():
    rng = np.random.default_rng(0)
    made = RegressionSet(name="made", features=rng.random((50, 3)), target=rng.random(50), convention=RANGE)
    rows = RANGE.rows(made)
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / 50)
    found = made.curvature(RANGE)
    assert found.minimum == pytest.approx(eigenvalues[0], rel=1e-6)
    assert found.average == pytest.approx(eigenvalues.mean(), rel=1e-6)


@pytest.mark.parametrize("name", ["gp-table2", "gp-fig1"])
def test_curvature_items_write_their_files(name, tmp_path):
    regression_set("sonar")
    report = find_item(name).run(bench(tmp_path, quick=True))
    assert [path.name for path in report.files] == ["curvature.parquet", "figure.png"]
    table = pq.read_table(report.files[0])
    assert set(table["dataset"].to_pylist()) == set(YU_TABLE2)
    assert report.files[1].read_bytes().startswith(b"\x89PNG")
    assert not report.skipped


def test_without_data_the_curvature_items_say_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("DPERM_DATA", str(tmp_path / "nothing"))
    for name in ("gp-table2", "gp-fig1"):
        report = find_item(name).run(bench(tmp_path))
        assert not report.sections
        assert len(report.skipped) == len(YU_TABLE2)
        assert all("DPERM_DATA" in reason for reason in report.skipped)


def test_the_table_shows_that_no_single_convention_fits(tmp_path):
    regression_set("sonar")
    report = find_item("gp-table2").run(bench(tmp_path))
    holds = {check.claim.split(" ")[0]: check.holds for check in report.checks}
    assert holds["minimum"]
    assert not holds["one"]


# The course report


def test_the_estimate_of_a_large_epsilon_agrees_with_the_exact_one():
    multiplier = report_simulation.noise_scale(100, 1 / 5) / report_simulation.ROW_NORM
    exact = fixed_size_epsilon(multiplier, 1, 100, 100**2, report_simulation.DELTA)
    assert exact > report_simulation.LARGE
    estimate = report_simulation.estimate_epsilon(multiplier, 1 / 100, 100**2, draws=1000)
    assert estimate == pytest.approx(exact, rel=0.1)
    half_as_many = report_simulation.estimate_epsilon(multiplier, 1 / 100, 100**2 // 2, draws=1000)
    assert half_as_many != pytest.approx(exact, rel=0.1)


def test_the_papers_constant_keeps_its_promise_and_the_reports_does_not():
    kept = report_simulation.true_price(200, 32.0, 1, draws=200)
    assert kept.exact
    assert kept.epsilon <= report_simulation.EPSILON
    for batch in (1, report_simulation.BATCH):
        broken = report_simulation.true_price(200, 1 / 400, batch, draws=100)
        assert not broken.exact
        assert broken.epsilon > 100 * report_simulation.EPSILON


def chains(methods, scales, n_rows=30):
    rng = np.random.default_rng(3)
    points, labels = report_simulation.make_points(n_rows, len(methods), False, rng)
    made = report_simulation.Chains(
        rows=points, labels=labels, methods=np.array(methods), scales=np.array(scales)
    )
    return made, report_simulation.simulate(made, rng)


def test_simulated_descent_learns_the_line_and_more_noise_learns_less():
    methods = [report_simulation.PLAIN] * 30 + [report_simulation.PRIVATE] * 60
    scales = [0.0] * 30 + [0.0] * 30 + [20.0] * 30
    _, path = chains(methods, scales)
    right = report_simulation.accuracies(path[-1][1], False, np.random.default_rng(0))
    plain, silent, loud = right[:30].mean(), right[30:60].mean(), right[60:].mean()
    assert plain > 0.85
    assert silent > 0.85
    assert loud < silent - 0.1
    assert path[0][0] == 0
    assert path[-1][0] == 30**2


def test_noise_of_objective_perturbation_is_drawn_for_its_runs_alone():
    made, path = chains([report_simulation.NON_PRIVATE, report_simulation.OBJECTIVE], [0.0, 0.0])
    alone = report_simulation.Chains(
        rows=made.rows[:1], labels=made.labels[:1], methods=made.methods[:1], scales=made.scales[:1]
    )
    assert report_simulation.simulate(alone, np.random.default_rng(3))[-1][1].shape == (1, 3)
    assert np.isfinite(path[-1][1]).all()
    norms = np.linalg.norm(report_simulation._fresh_noise(20_000, np.random.default_rng(0)), axis=1)
    assert norms.mean() == pytest.approx(3 * 2 / report_simulation.EPSILON, rel=0.05)


def test_the_published_ordering_of_the_constants():
    """Accuracy falls with c squared in the report's own runs, between its smallest and its largest."""
    mean = {c: np.mean(right) / TEST_POINTS for c, right in REPORT_CONSTANTS.items()}
    assert mean[1 / 400] > 0.95 > mean[1 / 2] > mean[32.0]
    assert all(setting.correct[1] < setting.correct[0] for setting in REPORT_TABLES)


def test_a_line_is_where_the_score_is_zero():
    for weights in ([2.0, 1.0, -1.7], [1.0, 0.0, -0.5], [0.0, 3.0, -1.0]):
        x, y = report_tables._line(np.array(weights))
        assert weights[0] * x + weights[1] * y + weights[2] == pytest.approx(0, abs=1e-12)
        assert math.hypot(x[1] - x[0], y[1] - y[0]) == pytest.approx(6)


@pytest.mark.slow
def test_report_tables_end_to_end_with_fewer_rows(tmp_path, monkeypatch):
    from PIL import Image

    small = report_simulation.Size(repeats=2, constants=(1 / 400, 32.0), draws=50)
    monkeypatch.setattr(report_tables, "QUICK", small)
    monkeypatch.setattr(report_simulation, "simulate", few_steps(report_simulation.simulate))
    report = find_item("report-tables").run(bench(tmp_path, quick=True))
    assert [path.name for path in report.files] == ["results.parquet", "figure.png", "learning.gif"]
    rows = pq.read_table(report.files[0]).to_pylist()
    assert {row["method"] for row in rows} == {
        *report_simulation.METHODS,
        report_simulation.PLAIN,
        report_simulation.TRUE_LINE,
        *report_simulation.CERTIFIED.values(),
        report_simulation.BEST_OF_GRID,
    }
    for setting in {(row["n_rows"], row["noisy_labels"]) for row in rows if row["part"] == "tables"}:
        rule, best = (
            np.mean(
                [
                    r["accuracy"]
                    for r in rows
                    if (r["n_rows"], r["noisy_labels"]) == setting and r["method"] == m
                ]
            )
            for m in (report_simulation.CERTIFIED["psgd"], report_simulation.BEST_OF_GRID)
        )
        assert best >= rule  # which is in the grid
    exactly = [
        row["accuracy"]
        for row in rows
        if row["method"] == report_simulation.TRUE_LINE and not row["noisy_labels"]
    ]
    assert exactly == [1.0] * len(exactly)
    published = {cell for section in report.sections for row in section.rows for cell in row}
    assert {"98.60", "96.58", "96.80", "86.74", "85.78"} <= published
    with Image.open(report.files[2]) as film:
        assert film.is_animated
        assert film.n_frames > 10
    assert not next(check for check in report.checks if "one row a step" in check.claim).holds


def few_steps(simulate):
    """The first points only, and as many steps as their square."""

    def shorter(chains, rng):
        few = report_simulation.Chains(
            rows=chains.rows[:, :25],
            labels=chains.labels[:, :25],
            methods=chains.methods,
            scales=chains.scales,
        )
        return simulate(few, rng)

    return shorter


# Bounds


@pytest.mark.parametrize("case", bounds.CASES)
def test_powers_are_those_of_the_formulas(case):
    power = 1.0 if case == "convex" else 2.0
    assert bounds.power(case, "epsilon", "objective") == pytest.approx(-power)
    assert bounds.power(case, "n_rows", "objective") == pytest.approx(-power)
    assert bounds.power(case, "dimension", "objective") == pytest.approx(power / 2)
    assert bounds.power(case, "n_rows", "psgd") > -power  # a logarithm of n stands beside


def test_equal_curves_are_drawn_once_and_none_is_lost():
    found = bounds.curves("convex", "n_rows")
    groups = bounds.together(found)
    assert sorted(name for names in groups for name in names) == sorted(found)
    assert any({"objective", "dp-svrg"} <= set(names) for names in groups)
    assert ("psgd",) in groups


def test_bounds_item_writes_labelled_curves_and_names_the_suspect_bound(tmp_path):
    report = find_item("bounds").run(bench(tmp_path))
    table = pq.read_table(report.files[0])
    assert set(table["label"].to_pylist()) == {"constants dropped; not predictions"}
    assert set(table["method"].to_pylist()) == set(BOUNDS)
    assert set(table["axis"].to_pylist()) == {"epsilon", "n_rows", "dimension"}
    failed = [check.claim for check in report.checks if not check.holds]
    assert len(failed) == 1
    assert "noisy-sgd" in failed[0]
    assert all(bounds.LABEL in section.title for section in report.sections)
    assert report.files[1].read_bytes().startswith(b"\x89PNG")
