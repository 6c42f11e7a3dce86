"""Table 4 and figure 2 of Yu et al.: three lines for each method, and no oracle below the rule that its grid holds."""

from dataclasses import replace

import numpy as np
import pytest

from dperm.experiments.results import Study, curves
from dperm.experiments.spec import ORACLE_MARK, Configuration, configurations_of
from dperm.mechanisms import AMP, DPGD, DPSGD, BoltOn, resolve
from dperm_papers.reproduce import Bench, data, find_item, studies
from dperm_papers.reproduce import gradient_perturbation as gp

RULES = {gp.AMP: AMP(), gp.OUT_SGD: BoltOn(), gp.DP_SGD: DPSGD(), gp.DP_GD: DPGD()}
SMALL = gp.Size(epsilons=(0.1, 1.0), repeats=2, n_rows=200, folds=2, steps=(4,), rates=(1.0, 5.0))


def made_up(name, n=240):
    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(n, 3))
    X = (X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]).astype(np.float32)
    return data.Records(name=name, X=X, y=(X[:, 0] + 0.1 * rng.normal(size=n) > 0.2).astype(int))


def bench(folder, **settings):
    return Bench(folder=folder, parts=folder / "parts", quick=True, datasets=("adult",), **settings)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of all methods on a small table."""
    folder = tmp_path_factory.mktemp("gp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load", made_up)
        patch.setattr(gp, "QUICK", {"adult": SMALL})
        ((_, found),), _ = gp.studies(bench(folder))
    return found


# What the lines are


@pytest.mark.together
@pytest.mark.parametrize("name", gp.FULL)
@pytest.mark.parametrize("method", gp.METHODS)
def test_a_grid_holds_the_rule_and_what_is_printed_at_its_exact_price(name, method):
    binary = name != "mnist"
    found = gp.configurations(gp.FULL[name], binary)
    rule, best = found[method + studies.BY_RULE], found[method + studies.BEST]
    assert rule == RULES[method] == best.candidates[0]
    assert len(best.candidates) > 4
    published = found[method + studies.AS_PUBLISHED]
    printed = published.candidates if isinstance(published, Configuration) else (published,)
    assert {one.accounting for one in printed} == {"paper"}
    assert {one.accounting for one in best.candidates} == {"tight"}
    exact = {replace(one, accounting="tight") for one in printed}
    assert {one for one in exact if getattr(one, "steps", 0) <= gp.MOST_STEPS} <= set(best.candidates)
    assert exact & set(best.candidates)


def test_only_lines_by_rule_choose_nothing_on_test():
    found = configurations_of(gp.configurations(gp.FULL["adult"], True))
    for one in found:
        assert one.label.endswith(ORACLE_MARK) == (one.tuning == "oracle") == (len(one.candidates) > 1)
    assert [one.label for one in found if one.tuning == "rule"] == [
        "AMP, as published",
        *(f"{method}, by rule" for method in gp.METHODS),
        studies.NON_PRIVATE,
    ]


def test_printed_settings_are_those_of_the_papers():
    settings = gp.settings_of(gp.FULL["adult"], True)
    gd, sgd = settings[gp.DP_GD].printed, settings[gp.DP_SGD].printed
    assert {(one.steps, one.step_size) for one in gd} == {
        (s, r) for s in (50, 200, 800) for r in (0.1, 1.0, 5.0)
    }
    assert {(one.steps, one.step_size / 2) for one in sgd} == {(one.steps, one.step_size) for one in gd}
    for one in (*gd, *sgd):
        assert (one.momentum, one.tail_average, one.clip, one.standardise) == (0, 0, 1, False)
    for one in settings[gp.OUT_SGD].printed:
        assert (one.batch_size, one.clip, one.standardise) == (50, None, False)
    assert settings[gp.AMP].printed == (resolve("amp:paper"),)


# The choice among them


def test_leaders_are_the_best_at_some_epsilon_and_the_rule():
    reached = {(k, 0.1): value for k, value in enumerate([1.0, 5.0, 4.0, 3.0, 2.0])}
    assert studies.leaders(reached, 2) == [0, 1, 2]
    reached |= {(k, 1.0): value for k, value in enumerate([1.0, 0.0, 0.0, 0.0, 9.0])}
    assert studies.leaders(reached, 2) == [0, 1, 2, 4]
    assert studies.leaders({}, 2) == [0]


def test_with_one_repeat_every_setting_runs_on_it(tmp_path):
    comparison = studies.Comparison(
        records=made_up("adult"), configurations=gp.configurations(SMALL, True), epsilons=[1.0], delta=1e-4
    )
    assert studies.shortlisted(comparison, bench(tmp_path)) is comparison


def test_the_rule_stays_in_every_shortlist(results):
    known = {one["label"]: one["candidates"] for one in Study.of(results).configurations}
    whole = gp.configurations(SMALL, True)
    for method in gp.METHODS:
        kept = known[method + studies.BEST + ORACLE_MARK]
        assert kept[0] == known[method + studies.BY_RULE][0] == RULES[method].settings
        assert 1 < len(kept) <= 1 + studies.KEPT * len(SMALL.epsilons)
        assert len(kept) < len(whole[method + studies.BEST].candidates)


# An oracle is never below its rule


def test_no_oracle_is_below_its_rule_in_any_cell(results):
    found = studies.mean_accuracy(results)
    for method in gp.METHODS:
        for epsilon in SMALL.epsilons:
            assert (
                found[method + studies.BEST + ORACLE_MARK, epsilon]
                >= found[method + studies.BY_RULE, epsilon]
            )
    assert studies.never_below_rule("adult", gp.METHODS, found).holds


def test_a_grid_without_the_rule_is_noticed_below_it(tmp_path):
    """A control: steps too short to learn, so that the rule is far above the best of the grid."""
    starved = gp._best_of(gp.grid(DPGD(standardise=False), {"steps": (1,), "step_size": (1e-9, 1e-8)}))
    found = studies.Comparison(
        records=made_up("adult"),
        configurations={"DP-GD, by rule": "dp-gd", "DP-GD, best of a grid": starved},
        epsilons=[0.1, 50.0],
        delta=1e-4,
        folds=2,
    ).run(bench(tmp_path))
    check = studies.never_below_rule("adult", gp.METHODS, studies.mean_accuracy(found))
    assert not check.holds
    assert "DP-GD at ε = 50" in check.claim


def test_a_cell_that_the_oracle_lacks_counts_as_below():
    there = {("AMP, by rule", 0.1): 80.0, ("AMP, best of a grid (oracle, not private)", 0.1): 80.0}
    assert studies.never_below_rule("adult", gp.METHODS, there).holds
    assert not studies.never_below_rule("adult", gp.METHODS, {**there, ("AMP, by rule", 1.0): 80.0}).holds


# Verdicts and prices


def runs(**means):
    return {name.replace("_", "-"): mean + np.array([0.0, 0.1, -0.1, 0.2]) for name, mean in means.items()}


def test_an_ordering_is_above_within_noise_or_below():
    above = runs(DP_GD=80.9, DP_SGD=80.4)
    level = {**above, "DP-SGD": above["DP-GD"] + [0.3, -0.2, 0.3, -0.3]}
    below = {**above, "DP-SGD": above["DP-SGD"] + 1}
    (check,) = gp.orderings("adult, by rule", {0.1: above, 0.5: level, 1.0: above})
    assert check.holds
    assert "[above at ε = 0.1 (+0.50 ± 0.00), 1 (+0.50 ± 0.00); within noise at ε = 0.5" in check.claim
    (check,) = gp.orderings("adult, by rule", {0.1: above, 1.0: below})
    assert not check.holds
    assert "below at ε = 1 (-0.50" in check.claim


def test_published_noise_of_dp_sgd_is_priced_in_both_relations(results):
    for epsilon in SMALL.epsilons:
        prices = {row[0]: row[1:] for row in gp.prices_of(results, epsilon, 120)}
        assert list(prices) == list(gp.METHODS)
        for method, (relation, paper, ours) in prices.items():
            if method == gp.DP_SGD:
                assert relation == "add-remove"
                assert float(paper) <= epsilon < float(ours)
            else:
                assert relation == "replace-one"
                assert 0 < float(paper) == float(ours) <= epsilon


def test_the_table_has_the_published_figures_beside_three_of_ours(tmp_path, monkeypatch, results):
    monkeypatch.setattr(gp, "QUICK", {"adult": SMALL})
    monkeypatch.setattr(gp, "studies", lambda bench: ([(made_up("adult"), results)], []))
    accuracy, prices = find_item("gp-table4").run(bench(tmp_path)).sections
    assert accuracy.columns[3:] == ("published", "as published", "by rule", "best of a grid")
    mean = {found.label: 100 * found.accuracy[0].mean() for found in curves(results)}
    shown = {row[2]: row[3:] for row in accuracy.rows}
    assert shown["DP-GD"][:3] == (
        "80.9",
        f"{mean['DP-GD, as published' + ORACLE_MARK]:.1f}",
        f"{mean['DP-GD, by rule']:.1f}",
    )
    assert shown["NonPrivate"][2:] == ("", "")
    assert [row[2] for row in prices.rows] == list(gp.METHODS)
