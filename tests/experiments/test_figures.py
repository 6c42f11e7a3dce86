"""The figure is drawn from a table alone, shows every configuration, and is the same from Python and the command."""

import io

import matplotlib
import numpy as np
import pytest

from dperm import plot
from dperm.errors import InvalidInput
from dperm.experiments.figures import figure_of, save
from dperm.experiments.results import NOT_PRIVATE, Study, combine, curves, make_results, mean_and_error
from dperm.experiments.series import COLOURS, limit, line, looks
from dperm.experiments.spec import ORACLE_MARK
from dperm.render.style import PALETTE

STUDY = {"dataset": "toy", "loss": "logistic", "n_rows": 1000, "n_features": 7, "l2": 1e-3, "x_norm": 1.0}
STUDY |= {"delta": 1e-6, "folds": 2, "repeats": 2, "seed": 0}


def tiny_results(names, epsilons=(0.1, 1.0), level=None, **about):
    """A table of configurations given as (mechanism, accounting) or (mechanism, accounting, tuning, label)."""
    rng = np.random.default_rng(0)
    study = STUDY | about
    rows = []
    for number, (mechanism, accounting, *more) in enumerate(names):
        tuning, label = more or ("rule", None)
        for epsilon in epsilons:
            for run in range(4):
                accuracy = 0.6 + 0.1 * epsilon + 0.02 * rng.random() + (level[number] if level else 0)
                row = {"dataset": study["dataset"], "loss": "logistic", "mechanism": mechanism, "delta": 1e-6}
                row |= {"accounting": accounting, "epsilon": epsilon, "repeat": run // 2, "fold": run % 2}
                row |= {
                    "accuracy": accuracy,
                    "auc": accuracy + 0.1,
                    "log_loss": 1 - accuracy,
                    "objective": 1 - accuracy / 2,
                    "seconds": 0.1,
                }
                row |= {"noise_scale": np.nan if accounting == NOT_PRIVATE else 0.1 / epsilon}
                rows.append(row | {"tuning": tuning, "label": label})
    return make_results(rows, Study(**study))


MIXED = [
    ("rsgd", "tight"),
    ("rsgd", "paper"),
    ("amp", "tight", "oracle", "amp" + ORACLE_MARK),
    ("none", NOT_PRIVATE),
    ("majority", NOT_PRIVATE),
]


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def shows(image, colour):
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return bool((np.abs(image - rgb).max(axis=-1) < 0.02).any())


def words(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_every_mechanism_is_drawn_in_its_colour(tmp_path):
    save(figure_of(tiny_results([*MIXED[:2], ("amp", "tight"), MIXED[3]])), tmp_path / "c.png")
    image = pixels(tmp_path / "c.png")
    assert image.shape[1] > 1500
    drawn = [colour for colour in PALETTE if colour != "#000000" and shows(image, colour)]
    assert drawn == list(PALETTE[:2])


def test_one_epsilon_is_enough(tmp_path):
    results = tiny_results([(f"m{i}", "tight") for i in range(COLOURS)], epsilons=(1.0,))
    save(figure_of(results), tmp_path / "c.png")
    assert all(shows(pixels(tmp_path / "c.png"), colour) for colour in PALETTE)


def test_one_legend_names_all_and_says_what_is_not_private():
    figure = plot.curves(tiny_results(MIXED))
    assert len(figure.axes) == 3
    found = words(figure)
    for text in ("rsgd", "rsgd:paper", "amp", "chosen on test, not private"):
        assert found.count(text) == 1  # for three panels
    for text in ("none", "majority"):  # on their lines
        assert sum(text in words for words in found if words.endswith("(not private)")) == 3
    (note,) = [text for text in found if "bands" in text]
    assert "one standard error of the mean over 2 repeats" in note
    assert "not a private release" in note


def test_the_legend_does_not_overlap_or_leave_the_figure():
    names = [*MIXED, *((f"a-mechanism-with-a-long-name-{i}", "tight") for i in range(6))]
    figure = plot.curves(tiny_results(names, level=[0.001 * i for i in range(11)]))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent().padded(-1) for text in figure.texts]  # a pixel for rounding
    assert len(boxes) >= 10
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    panels = [axes.get_tightbbox() for axes in figure.axes]
    assert not any(a.overlaps(b) for a in boxes for b in panels)
    assert max(box.x1 for box in [*boxes, *panels]) <= figure.bbox.x1
    assert min(box.y0 for box in boxes) >= 0


def test_lines_that_are_the_same_share_an_entry_and_baselines_a_label():
    results = tiny_results([("rsgd", "tight"), ("none", NOT_PRIVATE)])
    twice = [{**row, "label": row["mechanism"]} for row in results.to_pylist()]
    twice += [{**row, "label": "again"} for row in twice if row["mechanism"] == "rsgd"]
    twice += [
        {**row, "mechanism": "majority", "label": "majority"} for row in twice if row["mechanism"] == "none"
    ]
    found = words(plot.curves(make_results(twice, Study(**STUDY)), metric="accuracy"))
    assert "rsgd, again" in found
    assert "none, majority (not private)" in found


def arrows(axes):
    return [line for line in axes.lines if line.get_marker() in ("v", "^") and not line.get_clip_on()]


def test_what_is_far_off_is_cropped_and_marked():
    names = [("auto", "tight"), ("rsgd", "tight"), ("bad", "tight"), ("none", NOT_PRIVATE)]
    results = tiny_results(names, level=[0.2, 0.15, -0.55, 0.22])
    found = curves(results)
    look = looks(found)
    figure = plot.curves(results, metric=["accuracy", "log_loss"])
    accuracy, log_loss = figure.axes
    assert limit(found, look, "accuracy") is not None
    assert accuracy.get_ylim()[0] > 100 * (0.6 - 0.55 + 0.2)
    assert log_loss.get_ylim()[1] < 1 - (0.6 - 0.55 + 0.2)
    assert [line.get_marker() for line in arrows(accuracy)] == ["v", "v"]  # of one line, at two epsilons
    assert [line.get_marker() for line in arrows(log_loss)] == ["^", "^"]
    assert any("Arrows: off the scale" in text for text in words(figure))
    near = tiny_results(names, level=[0.2, 0.15, 0.1, 0.22])
    figure = plot.curves(near, metric="accuracy")
    assert limit(curves(near), looks(curves(near)), "accuracy") is None
    assert arrows(figure.axes[0]) == []
    assert not any("Arrows" in text for text in words(figure))


def test_the_best_private_method_is_never_off_the_scale():
    names = [("auto", "tight"), ("none", NOT_PRIVATE), ("majority", NOT_PRIVATE)]
    for level in ([-0.3, 0.3, 0.2], [0.0, 0.0, -0.5], [0.1, 0.1, 0.1]):
        found = curves(tiny_results(names, level=level))
        worst = limit(found, looks(found), "accuracy")
        assert worst is None or worst < min(values.mean() for values in found[0].accuracy)


def test_paper_and_oracle_share_the_colour_of_their_mechanism():
    names = [
        ("rsgd", "tight"),
        ("rsgd", "paper"),
        ("rsgd", "tight", "oracle", "best" + ORACLE_MARK),
        MIXED[3],
    ]
    found = looks(curves(tiny_results(names)))
    assert [look.colour for look in found] == [0, 0, 0, None]
    assert [look.kind for look in found] == ["private", "paper", "oracle", "baseline"]


def test_of_many_the_most_accurate_have_colours_and_the_others_are_named_below():
    names = [(f"m{i:02}", "tight") for i in range(12)]
    results = tiny_results(names, level=[0.1 * (i % 2) + 0.001 * i for i in range(12)])
    found = looks(curves(results))
    grey = [f"m{i:02}" for i, look in enumerate(found) if look.colour is None]
    assert grey == ["m00", "m02", "m04", "m06"]
    texts = words(plot.curves(results))
    assert not set(grey) & set(texts)
    assert any("m00, m02, m04, m06." in text.replace("\n", " ") for text in texts)
    chosen = looks(curves(results), highlight=["m00", "m11"])
    assert [i for i, look in enumerate(chosen) if look.colour is not None] == [0, 11]
    with pytest.raises(InvalidInput, match="not part of"):
        plot.curves(results, highlight=["m77"])


def test_the_band_is_the_standard_error_over_repeats():
    values, repeats = np.array([1.0, 3.0, 5.0, 7.0]), np.array([0, 0, 1, 1])
    assert mean_and_error(values, repeats) == (4.0, 2.0)  # repeat means 2 and 6
    mean, error = mean_and_error(values, np.zeros(4, dtype=int))
    assert (mean, error) == (4.0, pytest.approx(np.sqrt(20 / 3) / 2))
    assert np.isnan(mean_and_error(values[:1], repeats[:1])[1])


def test_objectives_above_the_minimum_compare_the_same_rows():
    results = tiny_results([("rsgd", "tight"), ("none", NOT_PRIVATE)], epsilons=(1.0,))
    shuffled = results.take(np.random.default_rng(1).permutation(len(results)))
    for table in (results, shuffled):
        found = curves(table)
        rsgd = next(curve for curve in found if curve.label == "rsgd")
        least = next(curve for curve in found if curve.label == "none")
        by_run = {
            tuple(run): value for run, value in zip(least.runs[0].tolist(), least.objective[0], strict=True)
        }
        expected = [
            max(value - by_run[tuple(run)], 1e-7)
            for run, value in zip(rsgd.runs[0].tolist(), rsgd.objective[0], strict=True)
        ]
        assert line(rsgd, "objective", found).mean[0] == pytest.approx(np.mean(expected), rel=1e-12)
        assert line(least, "objective", found) is None


def test_metrics_and_studies_have_panels_of_their_own():
    results = combine([tiny_results(MIXED), tiny_results(MIXED[:2], dataset="other")])
    figure = plot.curves(results, metric=["accuracy", "objective", "noise_scale"])
    assert len(figure.axes) == 6
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log", "log", "linear", "linear", "log"]
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0.1", "1"]
    for wrong in ("loss", (), ("accuracy", "loss")):
        with pytest.raises(InvalidInput, match="metric must be"):
            plot.curves(results, metric=wrong)


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no results"):
        save(figure_of(make_results([], Study(**STUDY))), tmp_path / "c.png")
    assert list(tmp_path.iterdir()) == []


def test_the_reader_s_own_settings_do_not_change_the_figure():
    def picture():
        file = io.BytesIO()
        plot.save(plot.curves(tiny_results(MIXED)), file)
        return file.getvalue()

    expected = picture()
    with matplotlib.rc_context(
        {"lines.linewidth": 9, "font.size": 20, "savefig.dpi": 30, "axes.facecolor": "red"}
    ):
        assert picture() == expected


def test_python_and_the_command_draw_the_same_bytes(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from dperm.cli.app import run

    monkeypatch.chdir(tmp_path)
    line = "compare --loss logistic --repeats 1 --folds 2 --mechanism output --mechanism majority --epsilon 1 --html"
    assert run(line.split()) == 0
    plot.save(plot.curves(pq.read_table("dperm-results/results.parquet")), "mine.png")
    assert (tmp_path / "mine.png").read_bytes() == (tmp_path / "dperm-results/curves.png").read_bytes()
    page = tmp_path / "dperm-results" / "report.html"
    written = page.read_bytes()
    page.unlink()
    assert run(["plot", "--html"]) == 0
    assert page.read_bytes() == written
