"""Every item runs end to end on tiny tables, shows the published figures beside ours, and goes on after a stop."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.cli.app import run
from dperm.datasets.registry import find
from dperm.errors import DataUnavailable
from dperm.experiments import runner
from dperm.experiments.batches import Batch
from dperm.experiments.results import Curve, Study, curves, separate
from dperm.mechanisms import resolve
from dperm_papers.reproduce import (
    MODULES,
    Bench,
    data,
    find_item,
    frontier,
    item_names,
    rsgd,
    studies,
    timing,
)
from dperm_papers.reproduce import gradient_perturbation as gp

LABELS = {"mnist": 3}
MINE = ("rsgd-fig1", "rsgd-fig2", "rsgd-fig3", "rsgd-fig4", "gp-table4", "gp-fig2", "frontier")
TINY = rsgd.Size(epsilons=(1.0,), repeats=1, folds=2)


def made_up(name, n=240):
    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(n, 3))
    X = (X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]).astype(np.float32)
    cuts = np.quantile(X[:, 0], np.linspace(0, 1, LABELS.get(name, 2) + 1)[1:-1] * 1.2)
    return data.Records(name=name, X=X, y=np.searchsorted(cuts, X[:, 0] + 0.1 * rng.normal(size=n)))


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Few rows, few configurations, one epsilon; everything else is as in a real run."""
    monkeypatch.setattr(data, "load", made_up)
    for name in ("QUICK", "KDD_QUICK"):
        monkeypatch.setattr(rsgd, name, TINY)
    some = (*rsgd.three_lines("RSGD-AR"), "OutPert-GD, as published", *studies.BASELINES)
    monkeypatch.setattr(rsgd, "METHODS_COMPARED", {label: rsgd.METHODS_COMPARED[label] for label in some})
    monkeypatch.setattr(timing, "QUICK", timing.Size(n_rows=(60, 120), timings=2))
    timed = ("RSGD-AR", "NSGD", studies.NON_PRIVATE)
    monkeypatch.setattr(
        timing, "METHODS_COMPARED", {label: timing.METHODS_COMPARED[label] for label in timed}
    )
    monkeypatch.setattr(
        gp,
        "QUICK",
        {
            name: gp.Size(epsilons=(epsilon,), repeats=1, folds=2, n_rows=200, steps=(4,), rates=(1.0, 5.0))
            for name, epsilon in gp.AT.items()
        },
    )
    every = gp.configurations
    monkeypatch.setattr(
        gp,
        "configurations",
        lambda *a, **b: {k: v for k, v in every(*a, **b).items() if not k.startswith("DP-SGD")},
    )
    papers = {label: frontier.PAPER_METHODS[label] for label in ("RSGD-AR", "OutPert-GD")}
    monkeypatch.setattr(frontier, "PAPER_METHODS", papers)
    monkeypatch.setattr(frontier, "tight_mechanisms", lambda: {"auto": "auto", "rsgd-ar": "rsgd-ar"})
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def reproduce(folder, *arguments):
    return run(["reproduce", *arguments, "--out", str(folder), "--quick"])


def count_batches(monkeypatch, fail_after=None):
    """Count what is trained on whole tables; a warm-up trains on fewer rows than any of them."""
    done = []
    train = runner.train

    def counted(configuration, *given):
        if next(some for some in given if isinstance(some, Batch)).spec.n_rows > runner._FEW:
            if len(done) == fail_after:
                raise KeyboardInterrupt
            done.append(configuration.label)
        return train(configuration, *given)

    monkeypatch.setattr(runner, "train", counted)
    return done


@pytest.mark.slow
def test_all_of_it(tiny, monkeypatch, capsys):
    assert reproduce(tiny, *MINE, "--html") == 0
    shown = capsys.readouterr().out
    for name in MINE:
        files = {path.name for path in (tiny / name).iterdir()}
        assert {"figure.png", "report.md"} <= files
        assert "times.parquet" in files or {"results.parquet", "report.html"} <= files
        assert (tiny / name / "figure.png").read_bytes()[:4] == b"\x89PNG"
        assert f"{name}: {find_item(name).title}" in shown
    for published in ("80.9", "88.6", "79.3"):  # Adult and MNIST with DP-GD, Adult with AMP
        assert published in shown
    assert "Skipped: ipums-us" in shown
    assert "Skipped: real-sim" in shown
    assert "AMP, by rule at ε = 1" in shown  # softmax
    assert "in all." in shown

    done = count_batches(monkeypatch)
    before = (tiny / "frontier" / "frontier.parquet").read_bytes()
    assert reproduce(tiny, "rsgd-fig3", "gp-table4", "frontier") == 0
    assert done == []
    assert (tiny / "frontier" / "frontier.parquet").read_bytes() == before


def test_a_stopped_run_goes_on_and_ends_with_the_same_table(tiny, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        whole = count_batches(patch)
        assert reproduce(tiny / "whole", "rsgd-fig1") == 0
    with monkeypatch.context() as patch:
        finished = whole.index("RSGD-AR, as published") + 1
        first = count_batches(patch, fail_after=finished)
        assert reproduce(tiny / "stopped", "rsgd-fig1") == 130
        assert len(first) == finished
    assert "goes on from there" in capsys.readouterr().err
    second = count_batches(monkeypatch)
    assert reproduce(tiny / "stopped", "rsgd-fig1") == 0
    assert first + second == whole
    tables = [pq.read_table(tiny / end / "rsgd-fig1" / "results.parquet") for end in ("whole", "stopped")]
    assert tables[0].drop_columns(["seconds"]).equals(tables[1].drop_columns(["seconds"]))


@pytest.mark.slow
def test_items_share_their_runs(tiny, monkeypatch):
    done = count_batches(monkeypatch)
    assert reproduce(tiny, "rsgd-fig1") == 0
    alone = len(done)
    assert reproduce(tiny, "frontier") == 0
    assert not set(done[alone:]) & set(studies.BASELINES)  # which are there already
    assert reproduce(tiny, "gp-table4") == 0
    before = len(done)
    assert reproduce(tiny, "gp-fig2") == 0
    assert len(done) == before


def test_the_seed_changes_the_noise(tiny):
    for seed in ("0", "1"):
        assert reproduce(tiny / seed, "rsgd-fig4", "--seed", seed) == 0
    tables = [pq.read_table(tiny / seed / "rsgd-fig4" / "results.parquet") for seed in ("0", "1")]
    accuracy = [table["objective"].to_pylist() for table in tables]
    assert accuracy[0] != accuracy[1]


def test_a_missing_data_set_is_skipped_with_its_reason(tiny, monkeypatch, capsys):
    def load(name):
        if name == "bank":
            raise DataUnavailable("The records of 'bank' were not found. Put them somewhere.")
        return made_up(name)

    monkeypatch.setattr(data, "load", load)
    assert reproduce(tiny, "rsgd-fig1") == 0
    assert "Skipped: bank: The records of 'bank' were not found" in capsys.readouterr().out
    results = pq.read_table(tiny / "rsgd-fig1" / "results.parquet")
    assert [study.dataset for study in Study.all_of(results)] == ["adult", "ipums-br"]


@pytest.mark.parametrize("name", MINE)
def test_without_any_data_there_is_a_report_all_the_same(tiny, monkeypatch, name):
    def load(name):
        raise DataUnavailable(f"no {name} here")

    monkeypatch.setattr(data, "load", load)
    assert reproduce(tiny, name) == 0
    text = (tiny / name / "report.md").read_text()
    assert "here" in text
    assert find_item(name).paper in text


def test_help_and_names(capsys):
    assert run(["reproduce", "--help"]) == 0
    shown = "".join(capsys.readouterr().out.split())  # names may be broken at their hyphens
    assert all(name in shown for name in item_names())
    assert run(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(item_names())


def test_unknown_names_are_refused_before_any_work(tmp_path, capsys):
    assert run(["reproduce", "rsgd-fig1", "rsgd-fig9", "--out", str(tmp_path / "out")]) == 1
    assert "'rsgd-fig9'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["reproduce"]) == 2
    assert "rsgd-fig1" in capsys.readouterr().err


@pytest.mark.together
@pytest.mark.parametrize("name", list(MODULES))
def test_each_name_leads_to_its_item(name):
    item = find_item(name)
    assert item.name == name
    assert item.differs
    assert item.published


def test_quick_is_smaller_than_full():
    assert (rsgd.FULL.folds, rsgd.DELTA, rsgd.L2) == (5, 1e-8, 1e-3)  # the paper's
    for quick, full in ((rsgd.QUICK, rsgd.FULL), (rsgd.KDD_QUICK, rsgd.KDD_FULL)):
        assert set(quick.epsilons) < set(full.epsilons)
        assert quick.repeats <= full.repeats
    assert set(timing.QUICK.n_rows) < set(timing.FULL.n_rows)
    assert (timing.FULL.n_rows[0], timing.FULL.n_rows[-1]) == (50_000, 250_000)
    for name, epsilon in gp.AT.items():
        quick, full = gp.QUICK[name], gp.FULL[name]
        assert epsilon in quick.epsilons
        assert set(quick.epsilons) <= set(full.epsilons)
        assert quick.n_rows <= full.n_rows
    assert (gp.FULL["adult"].steps, gp.FULL["adult"].rates) == ((50, 200, 800), (0.1, 1.0, 5.0))


@pytest.mark.together
@pytest.mark.parametrize("name", rsgd.METHODS)
def test_every_method_has_three_lines(name):
    by_rule, best, published = (
        rsgd.METHODS_COMPARED[name + line] for line in (studies.BY_RULE, studies.BEST, studies.AS_PUBLISHED)
    )
    assert by_rule == replace(resolve(rsgd.METHODS[name]), accounting="tight")
    assert (best.tuning, best.candidates[0]) == ("oracle", by_rule)
    assert len(best.candidates) > 3
    assert published.accounting == "paper"
    assert published.settings == resolve(rsgd.METHODS[name]).settings | rsgd.PRINTED.get(name, {})


def ordering_of(mine, other):
    found = {
        ("RSGD-AR, by rule", 0.1): mine,
        ("NSGD, by rule", 0.1): (0.0, 0.0),
        ("DP-AGD, by rule", 0.1): other,
    }
    return rsgd._ordering(found, "adult", studies.BY_RULE)


def test_an_ordering_is_ahead_within_noise_or_behind():
    for mine, holds, word in (
        ((80.5, 0.1), True, "ahead"),
        ((79.8, 0.1), True, "within noise"),
        ((79.5, 0.1), False, "behind"),
    ):
        check = ordering_of(mine, (80.0, 0.1))
        assert check.holds is holds
        assert f"[{word} at ε = 0.1 ({mine[0] - 80:+.1f}, DP-AGD)" in check.claim


def test_what_is_chosen_on_test_says_so():
    found = gp.configurations(gp.QUICK["adult"], True)
    chosen = [method for method in found.values() if getattr(method, "tuning", "rule") == "oracle"]
    assert len(chosen) == 7  # three are published with a grid, all four have a wide one
    assert all("not private" in configuration.label for configuration in chosen)


def test_ordering_holds_and_fails():
    def runs(**means):
        return {
            name.replace("_", "-"): mean + np.array([0.0, 0.1, -0.1, 0.2]) for name, mean in means.items()
        }

    right = runs(DP_GD=80.9, DP_SGD=80.4, Out_SGD=77.4, AMP=79.3)
    assert [check.holds for check in gp.ordering("adult", right)] == [True] * 3
    wrong = {**right, "DP-SGD": right["DP-SGD"] + 1, "AMP": right["AMP"] + 9}
    assert [check.holds for check in gp.ordering("adult", wrong)] == [False, True, False]
    by_chance = {**right, "DP-SGD": right["DP-GD"] + [0.3, -0.2, 0.3, -0.3]}
    assert gp.ordering("adult", by_chance)[0].holds
    for name in ("adult", "mnist"):
        published = {label: np.array([value]) for label, value in gp.PUBLISHED[name].items()}
        assert [check.holds for check in gp.ordering(name, published)] == [True] * 3


def curve(label, accuracy):
    epsilons = np.array(sorted(accuracy))
    runs = [np.full(4, accuracy[epsilon]) for epsilon in epsilons]
    return Curve(
        label=label,
        private=True,
        epsilons=epsilons,
        accuracy=runs,
        auc=runs,
        log_loss=runs,
        objective=runs,
        noise_scale=runs,
        seconds=0.0,
    )


def test_an_envelope_is_the_best_at_every_epsilon():
    found = frontier.envelope(
        [curve("a", {0.1: 0.6, 1.0: 0.7}), curve("b", {1.0: 0.8}), curve("c", {0.5: 0.65})]
    )
    assert [(point.epsilon, point.label, point.accuracy) for point in found] == [
        (0.1, "a", 60.0),
        (0.5, "c", 65.0),
        (1.0, "b", 80.0),
    ]


def test_points_gained():
    then, now = (
        frontier.envelope([curve("old", {0.1: 0.6, 1.0: 0.8})]),
        frontier.envelope([curve("new", {1.0: 0.75})]),
    )
    made = frontier.Frontier(dataset="d", claimed=then, then=then, now=now, auto=[], levels={})
    (row,) = made.rows()
    assert (row["epsilon"], row["auto"]) == (1.0, None)
    assert row["gained"] == pytest.approx(-5.0)
    assert not frontier._check(made).holds


def test_noise_that_breaks_its_promise_is_claimed_but_not_counted(tiny):
    broken = studies.Comparison(
        records=made_up("adult"),
        configurations={"AMP": "amp:paper", "RSGD-AR": "rsgd-ar:paper", "tight": "amp"},
        epsilons=[0.5, 1.0],
        delta=1e-6,
        l2=1e-2,
        folds=2,
    ).broken_promises()
    assert set(broken) == {("AMP", 0.5), ("AMP", 1.0)}
    (check,) = studies.promise_checks("adult", broken)
    assert "AMP" in check.claim
    assert "ε = 0.5, 1: " in check.claim
    assert not check.holds
    found = [curve("AMP", {0.5: 0.9, 1.0: 0.9}), curve("RSGD-AR", {1.0: 0.8})]
    assert [point.label for point in frontier.envelope(found)] == ["AMP", "AMP"]
    assert [(point.epsilon, point.label) for point in frontier.envelope(found, broken)] == [(1.0, "RSGD-AR")]


def test_the_frontier_takes_every_mechanism_that_has_a_tight_price():
    found = frontier.tight_mechanisms()
    assert {"auto", "rsgd-ar", "objective", "dp-gd", "ssp", "dp-agd"} < set(found)
    assert not {"none", "majority", *frontier.LEFT_OUT} & set(found)


def test_a_sample_follows_the_name_alone():
    records = made_up("adult")
    first, again = records.sample(50), made_up("adult").sample(50)
    assert first.name == "adult, 50 rows"
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, records.X[:50])
    assert records.sample(10_000) is records


def test_one_configuration_at_a_time_gives_what_all_together_give(tiny):
    from dperm.experiments.compare import compare

    records = made_up("adult")
    given = {"epsilons": [1.0], "delta": 1e-6, "l2": 1e-2, "folds": 2, "repeats": 2}
    methods = {"A": "rsgd-ar", "B": "output", "NonPrivate": "none"}
    apart = studies.Comparison(records=records, configurations=methods, **given).run(
        Bench(folder=tiny, parts=tiny)
    )
    together = compare(records.X, records.y, dataset="adult", mechanisms=methods, seed=0, **given)
    assert apart.drop_columns(["seconds"]).equals(together.drop_columns(["seconds"]))
    assert [c["label"] for c in Study.of(apart).configurations] == ["A", "B", "NonPrivate"]
    assert separate(apart)[0].num_rows == 12


def test_levels_that_are_not_those_of_the_data_are_told(tiny):
    records = made_up("adult")
    results = studies.Comparison(
        records=records, configurations=studies.BASELINES, epsilons=[1.0], delta=1e-6, l2=1e-3, folds=2
    ).run(Bench(folder=tiny, parts=tiny))
    assert [check.holds for check in studies.level_checks(results, records)] == [True, True]
    other = data.Records(name="other", X=records.X, y=np.arange(len(records.X)) % 2)
    assert not studies.level_checks(results, other)[0].holds


@pytest.mark.skipif(find("adult.parquet") is None, reason="adult.parquet is not in DPERM_DATA")
def test_the_levels_of_adult(tmp_path):
    records = data.load("adult")
    results = studies.Comparison(
        records=records, configurations=studies.BASELINES, epsilons=[1.0], delta=1e-8, l2=1e-3, folds=2
    ).run(Bench(folder=tmp_path, parts=tmp_path))
    assert all(check.holds for check in studies.level_checks(results, records))
    level = {found.label: found.accuracy[0].mean() for found in curves(results)}
    assert level["Majority"] == pytest.approx(37_155 / 48_842, abs=2e-3)
    assert 0.82 < level["NonPrivate"] < 0.86
    assert isinstance(results, pa.Table)
