"""Figures and tables that tools make: drawn from the data that are there, by the code that is shown."""

import re
from pathlib import Path

import pytest

import extras_table
import front_figure
import gallery
from dperm.cli.app import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
FRONT = (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.together
@pytest.mark.parametrize("theme", front_figure.THEMES)
@pytest.mark.parametrize("panel", front_figure.PANELS)
def test_the_front_figure_was_drawn_from_the_data(panel, theme):
    drawn = (front_figure.STATIC / f"front-{panel}-{theme}.svg").read_text(encoding="utf-8")
    assert front_figure.digest() in drawn, "run: make figures"
    assert f"_static/front-{panel}-{theme}.svg){{.only-{theme}}}" in FRONT


def test_the_front_figure_shows_what_its_words_say():
    """Ahead of RSGD-AR at every ε, and within a point of the model without privacy from ε = 0.5 on."""
    lines, _ = front_figure.on_adult()
    default, rival = lines[front_figure.DEFAULT], lines[front_figure.RIVAL]
    assert all(ours > theirs for ours, theirs in zip(default.accuracy, rival.accuracy, strict=True))
    for lines, _ in (front_figure.on_adult(), front_figure.on_all()):
        default, none = lines[front_figure.DEFAULT], lines[front_figure.NONE]
        gaps = [
            best - ours
            for epsilon, best, ours in zip(default.epsilons, none.accuracy, default.accuracy, strict=True)
            if epsilon >= 0.5
        ]
        assert 0 < max(gaps) < 1
    assert front_figure.on_all()[1] == "Mean over 21 public tables"


def test_the_front_figure_can_be_drawn(tmp_path):
    front_figure.draw(front_figure.on_all(), front_figure.THEMES["dark"], tmp_path / "front.svg")
    assert (tmp_path / "front.svg").read_text().count("<path") > 20


def test_every_picture_of_the_gallery_has_its_code():
    drawn = [name for block in gallery.blocks() for name in gallery.drawn_by(block)]
    shown = gallery.SHOWN.findall(gallery.PAGE.read_text(encoding="utf-8"))
    assert shown == drawn
    assert sorted(shown) == sorted(path.stem for path in gallery.PICTURES.glob("*.png"))
    assert len(shown) >= 8


def test_the_gallery_draws_what_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "PICTURES", tmp_path / "pictures")
    gallery.main(["spending"])
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["spending.png"]


def test_the_extras_are_those_of_the_package():
    page = extras_table.PAGE.read_text(encoding="utf-8")
    (shown,) = extras_table.BLOCK.findall(page)
    assert shown == extras_table.table(), "run: make tables"
    assert "`cli`" in shown
    assert "pytest" not in shown


def test_commands_in_the_questions_exist(capsys):
    """Prose is not run, so its commands are at least known."""
    named = set(re.findall(r"`dperm (\w+)", (DOCS / "faq.md").read_text(encoding="utf-8")))
    assert run(["--help"]) == 0
    known = set(re.findall(r"^  (\w[\w-]+) {2,}", capsys.readouterr().out, re.MULTILINE))
    assert {"account", "plan"} <= named <= known


def test_numbers_and_names_in_tables_do_not_wrap(monkeypatch):
    nodes = pytest.importorskip("docutils.nodes", reason="comes with dperm[docs]")
    pytest.importorskip("sphinx", reason="comes with dperm[docs]")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    from table_cells import is_dense, kind

    def cell(text, inside=nodes.Text):
        part = inside(text, text) if inside is not nodes.Text else nodes.Text(text)
        return nodes.entry("", nodes.paragraph("", "", part))

    for text in (
        "77.8 ±1.8",
        "+4.28 (hotel_bookings)",
        "83.9 / 82.4 / 81.9",
        "-0.06",
        "",
        "12 %",
        "ε = 0.05",
    ):
        assert kind(cell(text)) == "number", text
    assert kind(cell("objective-kst", nodes.literal)) == "name"
    assert kind(cell("rsgd-ar:paper")) == "name"
    assert kind(cell("all but softmax")) is None
    assert kind(cell("SGD in secret order, noise on the result")) == "words"
    assert kind(cell("1 of the many things that one could say of it")) == "words"

    def table(*texts):
        row = nodes.row("", *map(cell, texts))
        return nodes.table("", nodes.tgroup("", nodes.tbody("", row)))

    assert is_dense(table("a set of rows", *["0.885 / 0.861 / 0.853"] * 5))
    assert not is_dense(table("a set of rows", *["83.9 / 82.4"] * 5))
    assert not is_dense(table(*["a sentence that is long enough to wrap"] * 4))
