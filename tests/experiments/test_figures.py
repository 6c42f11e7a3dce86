"""The figure is drawn from a table alone and shows every mechanism."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm.errors import InvalidInput
from dperm.experiments.figures import _COLOURS, draw_curves, spread
from dperm.experiments.results import NOT_PRIVATE, Study, make_results

STUDY = Study(
    dataset="toy",
    loss="logistic",
    n_rows=1000,
    n_features=7,
    l2=1e-3,
    x_norm=1.0,
    delta=1e-6,
    folds=2,
    repeats=2,
    seed=0,
)


def tiny_results(names, epsilons=(0.1, 1.0)):
    rng = np.random.default_rng(0)
    rows = []
    for mechanism, accounting in names:
        for epsilon in epsilons:
            for run in range(4):
                accuracy = 0.6 + 0.1 * epsilon + 0.02 * rng.random()
                row = {"dataset": "toy", "loss": "logistic", "mechanism": mechanism, "accounting": accounting}
                row |= {"epsilon": epsilon, "delta": 1e-6, "repeat": run // 2, "fold": run % 2}
                row |= {
                    "accuracy": accuracy,
                    "objective": 1 - accuracy / 2,
                    "noise_scale": 0.1,
                    "seconds": 0.1,
                }
                rows.append(row)
    return make_results(rows, STUDY)


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def shows(image, colour):
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return bool((np.abs(image - rgb).max(axis=-1) < 0.02).any())


def test_every_mechanism_is_drawn_in_its_colour(tmp_path):
    draw_curves(
        tiny_results([("rsgd", "tight"), ("rsgd", "paper"), ("none", NOT_PRIVATE)]), tmp_path / "c.png"
    )
    image = pixels(tmp_path / "c.png")
    assert image.shape[1] > 1500
    drawn = [colour for colour in _COLOURS[:-1] if shows(image, colour)]
    assert drawn == list(_COLOURS[:2])


def test_one_epsilon_and_more_mechanisms_than_colours(tmp_path):
    names = [(f"m{i}", "tight") for i in range(len(_COLOURS) + 2)]
    draw_curves(tiny_results(names, epsilons=(1.0,)), tmp_path / "c.png")
    assert all(shows(pixels(tmp_path / "c.png"), colour) for colour in _COLOURS)


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no results"):
        draw_curves(make_results([], STUDY), tmp_path / "c.png")
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=8), st.floats(0.1, 10))
def test_labels_are_spread_apart_in_order_and_inside(wanted, gap):
    wanted = np.array(wanted)
    placed = spread(wanted, gap=gap, low=0.0, high=100.0)
    in_order = placed[np.argsort(wanted, kind="stable")]
    assert (np.diff(in_order) >= gap * (1 - 1e-9)).all()
    assert placed.min() >= 0
    assert placed.max() <= 100 + 1e-9


def test_labels_with_room_stay_where_they_are():
    wanted = np.array([50.0, 10.0, 90.0])
    np.testing.assert_array_equal(spread(wanted, gap=12.0, low=0.0, high=100.0), wanted)
