"""The page of a comparison: safe, self-contained, true to the table, and alive in a browser."""

import json
import math
import re
from importlib.resources import files

import chromium
import numpy as np
import pytest

from dperm.errors import InvalidInput
from dperm.experiments.html import html_page, page_data, write_html
from dperm.experiments.results import NOT_PRIVATE, Skipped, Study, curves, make_results
from dperm.experiments.spec import ORACLE_MARK

SOURCE = files("dperm.experiments") / "page"
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>&amp;\u2028"
EPSILONS = (0.1, 1.0, 4.0)


def toy(dataset="toy", names=None, repeats=2, **about):
    """A table with every kind of configuration, or with the private mechanisms named."""
    kinds = [
        ("rsgd", "tight", "rule", "rsgd"),
        ("rsgd", "paper", "rule", "rsgd:paper"),
        ("dp-gd", "tight", "oracle", "dp-gd" + ORACLE_MARK),
        ("none", NOT_PRIVATE, "rule", "none"),
        ("majority", NOT_PRIVATE, "rule", "majority"),
    ]
    if names is not None:
        kinds = [(name, "tight", "rule", name) for name in names]
    rng = np.random.default_rng(0)
    rows = [
        {"dataset": dataset, "loss": "logistic", "mechanism": mechanism, "accounting": accounting}
        | {
            "epsilon": epsilon,
            "delta": 1e-6,
            "repeat": repeat,
            "fold": fold,
            "tuning": tuning,
            "label": label,
        }
        | {"accuracy": 0.6 + 0.05 * epsilon + 0.02 * rng.random(), "objective": 0.7 + 0.1 * rng.random()}
        | {
            "auc": 0.7 + 0.02 * rng.random(),
            "log_loss": None if mechanism == "majority" else 0.5 + rng.random(),
        }
        | {"noise_scale": math.nan if accounting == NOT_PRIVATE else 1 / epsilon, "seconds": 0.01}
        | {"settings": json.dumps({"step_size": 0.5, "clip": None})}
        for mechanism, accounting, tuning, label in kinds
        for epsilon in EPSILONS
        for repeat in range(repeats)
        for fold in range(2)
    ]
    skipped = Skipped(mechanism="amp", accounting="tight", epsilon=0.1, reason="the budget is too small")
    study = Study(
        **{"dataset": dataset, "loss": "logistic", "n_rows": 1000, "n_features": 7, "l2": 1e-3, "x_norm": 1.0}
        | {"delta": 1e-6, "folds": 2, "repeats": repeats, "seed": 0, "skipped": (skipped,)}
        | {"versions": {"dperm": "1.2.3"}, "machine": {"cores": "2"}}
        | about
    )
    return make_results(rows, study)


def embedded(page):
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_data_of_the_page_are_the_summary_of_the_table():
    results = toy()
    (study,) = embedded(html_page(results))["studies"]
    found = {curve.label.removesuffix(ORACLE_MARK): curve for curve in curves(results)}
    assert [configuration["label"] for configuration in study["configurations"]] == list(found)
    for configuration in study["configurations"]:
        curve = found[configuration["label"]]
        assert [point["epsilon"] for point in configuration["points"]] == curve.epsilons.tolist()
        for metric in ("accuracy", "auc", "log_loss", "objective", "noise_scale"):
            for point, runs in zip(configuration["points"], getattr(curve, metric), strict=True):
                if (curve.mechanism, metric) == ("majority", "log_loss") or (
                    not curve.private and metric == "noise_scale"
                ):
                    assert point[metric] is None
                    continue
                means = runs.reshape(2, 2).mean(axis=1)  # by repeat
                assert point[metric]["mean"] == pytest.approx(runs.mean(), rel=1e-12)
                assert point[metric]["error"] == pytest.approx(means.std(ddof=1) / math.sqrt(2), abs=1e-12)
    assert study["skipped"] == [{"label": "amp", "reason": "the budget is too small", "epsilons": [0.1]}]
    assert study["versions"] == {"dperm": "1.2.3"}
    assert study["configurations"][0]["settings"] == [
        {"used": {"step_size": "0.5", "clip": "none"}, "epsilons": list(EPSILONS)}
    ]


def test_one_run_has_no_error():
    results = toy(repeats=1)
    one = results.filter(np.array(results["fold"].to_pylist()) == 0)
    (study,) = page_data(one)
    assert {point["accuracy"]["error"] for one in study["configurations"] for point in one["points"]} == {
        None
    }


def test_hostile_names_stay_text():
    page = html_page(toy(dataset=HOSTILE, names=[HOSTILE, "rsgd"]), title=HOSTILE + "/*DATA*/")
    assert "<img" not in page
    assert page.count("<script") == page.count("</script") == 2
    (study,) = embedded(page)["studies"]
    assert study["dataset"] == study["configurations"][0]["label"] == HOSTILE
    assert page.count("/*DATA*/") == 3  # the title twice as text, once in the data; none is filled in


def test_the_page_needs_nothing_from_outside():
    page = html_page([toy(), toy("other")])
    assert re.findall(r"https?://[^\s\"'<>]*", page) == [
        "http://www.w3.org/2000/svg"
    ]  # a name, not an address
    assert re.findall(r'\b(?:src|href|action)="([^"]*)"', page) == ["data:,"]
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", page)
    assert "default-src 'none'" in page


def test_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no results"):
        write_html(toy(names=[]), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if chromium.PATH is None:
        pytest.skip("no Chromium is installed")
    found = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def page(browser, tmp_path):
    browser.prefer("light")
    path = write_html([toy(), toy("second", names=[f"m{i}" for i in range(11)])], tmp_path / "report.html")
    browser.open(path)
    yield browser
    assert browser.problems == []
    assert browser.requests == [path.resolve().as_uri()]


DRAWN = "[...document.querySelectorAll('#chart g[data-label]')].map(g => g.dataset.label)"
PATH = "document.querySelector('#chart g[data-label=rsgd] .line').getAttribute('d')"
TOGGLE = "document.querySelector('#legend button[data-label=rsgd]')"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_a_fault_in_a_page_is_noticed(browser, tmp_path):
    (tmp_path / "bad.html").write_text(
        "<script>console.error('oh'); noSuchName()</script><img src='gone.png'>"
    )
    browser.open(tmp_path / "bad.html")
    browser.run("1")
    assert len(browser.problems) >= 2
    assert len(browser.requests) == 2


def test_what_the_script_reads_of_a_study_is_written():
    """Without a browser too: a key that is renamed on one side alone leaves an empty page."""
    script = (SOURCE / "page.js").read_text(encoding="utf-8")
    (study,) = page_data(toy())
    read = set(re.findall(r"\bstudy\(\)\.(\w+)", script))
    assert {"configurations", "epsilons", "limits"} <= read
    assert read <= study.keys()
    (names,) = re.findall(r"studies\.some\(\(\{ (\w+) \}\)", script)
    assert names in study


def test_all_configurations_are_drawn_and_toggles_remove_them(page):
    everyone = {"rsgd", "rsgd:paper", "dp-gd", "none", "majority"}
    assert set(page.run(DRAWN)) == everyone
    page.run(f"{TOGGLE}.click()")
    assert set(page.run(DRAWN)) == everyone - {"rsgd"}
    assert page.run(f"{TOGGLE}.getAttribute('aria-pressed')") == "false"
    page.run(f"{TOGGLE}.focus()")
    page.press("Space")
    assert set(page.run(DRAWN)) == everyone
    page.run("document.querySelector('#nobody').click()")
    assert page.run(DRAWN) == []
    assert "hidden" in page.run("document.querySelector('#chart').textContent")
    page.run("document.querySelector('#all').click()")
    assert set(page.run(DRAWN)) == everyone


def test_metric_and_axis_change_the_drawing(page):
    seen = [page.run(PATH)]
    for value in ("objective", "noise_scale", "accuracy", "linear"):
        page.run(f"document.querySelector('[data-value={value}]').click()")
        seen.append(page.run(PATH))
    assert len(set(seen)) == 4
    assert seen[0] == seen[3]
    page.run("document.querySelector('[data-value=noise_scale]').click()")
    assert set(page.run(DRAWN)) == {"rsgd", "rsgd:paper", "dp-gd"}  # the baselines have no noise
    page.run("document.querySelector('[data-value=noise_scale]').focus()")
    page.press("ArrowLeft")
    assert page.run("document.activeElement.dataset.value") == "objective"
    assert "none" not in page.run(DRAWN)  # the others are drawn above it


def test_values_are_read_by_pointer_and_by_keyboard(page):
    box = page.run(
        "(r => [r.left, r.top, r.width, r.height])(document.querySelector('#chart svg').getBoundingClientRect())"
    )
    page.hover(box[0] + 60, box[1] + box[3] / 2)
    (study,) = page_data(toy())
    mean = study["configurations"][0]["points"][0]["accuracy"]["mean"]
    shown = page.run("document.querySelector('#readout').textContent")
    assert "ε = 0.1" in shown
    assert f"{100 * mean:.1f}" in shown
    page.run("document.querySelector('#chart svg').focus()")
    page.press("ArrowRight")
    assert "ε = 1" in page.run("document.querySelector('#readout').textContent")


def test_the_table_sorts(page):
    column = "[...document.querySelectorAll('#table tbody tr td:nth-child(2)')].map(td => parseFloat(td.textContent))"
    click = "document.querySelectorAll('#table thead button')[1].click()"
    unsorted = page.run(column)
    page.run(click)
    assert page.run(column) == sorted(unsorted, reverse=True)
    page.run(click)
    assert page.run(column) == sorted(unsorted)
    assert page.run("document.querySelectorAll('#table th[aria-sort=ascending]').length") == 1


def test_every_study_has_a_tab(page):
    page.run("document.querySelectorAll('#tabs button')[1].click()")
    assert set(page.run(DRAWN)) == {f"m{i}" for i in range(11)}
    assert (
        page.run("document.querySelectorAll('#chart g.pale[data-label]').length") == 3
    )  # eight have a colour
    page.run("document.querySelector('#best').click()")
    assert page.run("document.querySelectorAll('#chart g[data-label]').length") == 8
    assert "second" in page.run("document.querySelector('#drawn').textContent")


def test_a_line_far_behind_is_cropped_and_can_be_seen_whole(browser, tmp_path):
    results = toy(names=["auto", "rsgd"]).to_pylist()
    far = [{**row, "label": "far", "accuracy": -1.0} for row in results if row["mechanism"] == "rsgd"]
    write_html(make_results([*results, *far], Study.of(toy())), tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    arrows = "document.querySelectorAll('#chart g[data-label=far] .arrow').length"
    assert browser.run(arrows) == len(EPSILONS)
    assert "off the scale" in browser.run("document.querySelector('#cropped').textContent")
    browser.run("document.querySelector('[data-value=all]').click()")
    assert browser.run(arrows) == 0
    assert browser.run("document.querySelector('#cropped').textContent") == ""
    browser.run("document.querySelector('[data-value=crop]').click()")
    for name in ("auto", "rsgd"):  # what is left is drawn whole
        browser.run(f"document.querySelector('#legend button[data-label={name}]').click()")
    assert browser.run(arrows) == 0
    assert browser.problems == []


def test_baselines_are_named_on_their_lines_and_all_in_one_legend(page):
    texts = page.run("[...document.querySelectorAll('#chart text.halo')].map(one => one.textContent)")
    assert sorted(name for text in texts for name in text.removesuffix(" (not private)").split(", ")) == [
        "majority",
        "none",
    ]
    names = page.run("[...document.querySelectorAll('#legend button')].map(one => one.dataset.label)")
    assert len(names) == len(set(names)) == 5


def test_a_page_without_curves_shows_its_verdicts(browser, tmp_path):
    write_html((), tmp_path / "report.html", above="<p id=said>holds</p>")
    browser.open(tmp_path / "report.html")
    assert browser.run("document.querySelector('#said').textContent") == "holds"
    assert browser.run("document.querySelector('#study').hidden")
    light = browser.run(BACKGROUND)
    browser.run("document.querySelector('#theme').click()")
    assert browser.run(BACKGROUND) != light
    assert browser.problems == []


def test_dark_follows_the_system_and_the_button(page):
    light = page.run(BACKGROUND)
    page.prefer("dark")
    page.settle()
    dark = page.run(BACKGROUND)
    assert dark != light
    page.run("document.querySelector('#theme').click()")
    assert page.run(BACKGROUND) == light
    page.run("document.querySelector('#theme').click()")
    assert page.run(BACKGROUND) == dark


def test_a_phone_does_not_scroll_sideways(page):
    page.resize(360, 740, mobile=True)
    page.settle()
    assert page.run("document.documentElement.scrollWidth") == 360


def test_hostile_names_do_nothing_in_a_browser(browser, tmp_path):
    path = write_html(toy(dataset=HOSTILE, names=[HOSTILE]), tmp_path / "report.html", title=HOSTILE)
    browser.open(path)
    assert browser.run("document.title").startswith("</script>")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run(DRAWN) == [HOSTILE]
    assert browser.problems == []
