"""Small pieces of text, HTML and SVG."""

import pytest

from dperm.render.html import Cell, Html, bullets, facts, notebook_cell, safe, section, table
from dperm.render.style import CELL, PAGE
from dperm.render.svg import Square, drawing, polyline, words
from dperm.render.text import aligned, cut, sparkline

HOSTILE = "<script>alert(1)</script>\"'&"


def test_everything_from_outside_is_escaped():
    made = [
        safe(HOSTILE),
        bullets([HOSTILE]),
        facts([(HOSTILE, HOSTILE)]),
        section(HOSTILE, HOSTILE),
        table((HOSTILE,), [(HOSTILE,), (Cell(HOSTILE, "ok"),)]),
        drawing(10, 10, words((1, 1), HOSTILE), label=HOSTILE),
        notebook_cell(HOSTILE),
    ]
    for html in made:
        assert "<script" not in html
        assert "&lt;script&gt;" in html
    assert safe(Html("<b>as it is</b>")) == "<b>as it is</b>"
    assert "\u202e" not in safe("reversed \u202e text")


def test_a_section_without_content_is_nothing():
    assert section("Title", "", Html("")) == ""


def test_a_table_aligns_numbers_and_keeps_the_class_of_a_cell():
    html = table(("a", "b"), [("x", 1), ("y", Cell(2, "failed"))], numbers=(1,))
    assert '<th class="n">b</th>' in html
    assert '<td class="n">1</td>' in html
    assert '<td class="failed">2</td>' in html


def test_columns_are_aligned_and_empty_ones_take_no_room():
    assert aligned([("a", "", "10"), ("bb", "", "2")], "llr", "  ") == ["  a   10", "  bb   2"]


@pytest.mark.together
@pytest.mark.parametrize(("values", "drawn"), [([0, 1, 2, 7], "▁▂▃█"), ([3, 3], "▁▁"), ([-1.0, 1.0], "▁█")])
def test_a_sparkline_goes_from_the_least_to_the_largest(values, drawn):
    assert sparkline(values) == drawn


def test_a_long_label_is_cut():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_square_has_its_corners_where_they_belong():
    axes = Square(side=100.0, left=10.0, right=5.0, below=20.0, top=2.0, scale=lambda value: value / 2)
    assert axes.at(0, 0) == (10.0, 102.0)
    assert axes.at(2, 2) == (110.0, 2.0)
    ticks = [(0.0, "0"), (2.0, "2")]
    drawn = axes.drawing(
        polyline("own", axes.path([(0, 0), (2, 2)])), ticks=ticks, across="x", up="y", label="line"
    )
    assert 'viewBox="0 0 115 122"' in drawn
    assert 'points="10.0,102.0 110.0,2.0"' in drawn


@pytest.mark.parametrize("sheet", [CELL, PAGE], ids=["notebook", "page"])
def test_the_style_sheet_is_whole_and_stands_alone(sheet):
    assert sheet.count("{") == sheet.count("}")
    assert "&" not in sheet
    assert "url(" not in sheet
    assert "@import" not in sheet
