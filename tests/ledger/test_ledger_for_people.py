"""A ledger as people see it: running totals, tables, JSON without prices, HTML and a figure."""

import json
from html.parser import HTMLParser

import pytest
from test_anchors import gaussian
from test_notes import fitted

from dperm import Ledger
from dperm.cli.app import run
from dperm.models import save_model
from dperm.privacy.cost import Cost, compose


@pytest.fixture
def spent(ledger, tmp_path):
    """Three charges to the default dataset, one of them void, and one to another."""
    ledger.set_cap("survey", 0.5, 1e-7)
    save_model(fitted(ledger, "auto", 0.3), tmp_path / "model.json")
    with pytest.raises(RuntimeError):
        ledger.pay(gaussian(0.2), lambda: (_ for _ in ()).throw(RuntimeError), list)
    ledger.charge(Cost.gaussian(0.01), dataset="survey", kind="evaluate", label="<b>&")
    ledger.charge(gaussian(0.2), kind="search")
    return ledger


def test_every_line_says_what_was_spent_before_and_after(spent):
    charges = spent.to_dict(full=False)["charges"]
    assert [charge["spent_before"] for charge in charges[1:2]] == [charges[0]["spent_after"]]
    assert charges[1]["spent_after"] == charges[0]["spent_after"]  # void
    assert charges[2]["spent_before"] == 0.0
    assert charges[3]["spent_before"] == charges[0]["spent_after"]
    entries = spent.entries("default")
    both = compose([entries[0].cost, entries[2].cost]).epsilon(1e-6)
    assert charges[3]["spent_after"] == spent.spent() == pytest.approx(both, rel=1e-9)
    assert charges[2]["spent_after"] == spent.spent("survey")


def test_parts_that_share_no_row_do_not_add_up(ledger):
    ledger.declare_partitions(["a", "b"], fixed_membership=True)
    for part in ("a", "b"):
        ledger.partition(part).charge(gaussian(0.4))
    first, second = ledger.to_dict()["charges"]
    assert first["spent_after"] == second["spent_before"] == second["spent_after"]


def test_json_leaves_out_prices_unless_asked(spent, capsys):
    assert run(["ledger", "show", str(spent.path), "--json"]) == 0
    short = capsys.readouterr().out
    assert run(["ledger", "show", str(spent.path), "--json", "--full"]) == 0
    full = capsys.readouterr().out
    assert len(short) < 5_000 < len(full)
    document = json.loads(short)
    assert all("cost" not in charge for charge in document["charges"])
    assert all("cost" in charge for charge in json.loads(full)["charges"])
    first = document["charges"][0]
    assert (first["kind"], first["mechanism"], first["files"]) == ("fit", "objective (auto)", ["model.json"])
    spent.check(first["citation"])
    assert run(["ledger", "show", str(spent.path), "--full"]) == 2
    assert "--full belongs to --json" in capsys.readouterr().err


def test_a_void_charge_without_a_price_at_a_lower_delta_has_none(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    with pytest.raises(RuntimeError):
        ledger.pay(Cost.point(0.1, 1e-7), lambda: (_ for _ in ()).throw(RuntimeError), list)
    ledger.set_cap("default", 1.0, 1e-8)
    assert ledger.to_dict()["charges"][0]["epsilon"] is None
    assert run(["ledger", "show", str(path), "--json"]) == 0
    assert run(["ledger", "show", str(path)]) == 0


def test_show_prints_kinds_files_and_totals_and_one_charge_in_full(spent, capsys):
    assert run(["ledger", "show", str(spent.path)]) == 0
    out = capsys.readouterr().out
    for word in ("objective (auto)", "model.json", "evaluate", "search", "void", "ε before", "ε after"):
        assert word in out
    assert run(["ledger", "show", str(spent.path), "--charge", "1"]) == 0
    out = capsys.readouterr().out
    entry = spent.entries()[0]
    assert f"cited as  ledger {spent.id}, charge 1, head {entry.head}" in out
    assert entry.sha256 in out
    assert run(["ledger", "show", str(spent.path), "--charge", "9"]) == 1
    assert "has no charge 9; it has 4." in capsys.readouterr().err


def test_html_is_one_whole_table_after_another_and_escaped(spent):
    class Tags(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.seen = [], []

        def handle_starttag(self, tag, attrs):
            self.seen.append(tag)
            if tag != "br":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    spent.charge(gaussian(0.05), kind="<script>", mechanism='"&')
    page = spent._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen
    assert tags.seen.count("table") == 2
    assert "&lt;script&gt;" in page
    assert spent.head in page


@pytest.mark.parametrize("name", ["spending.png", "spending.svg", "spending.PDF"])
def test_the_figure_is_drawn_whole(spent, tmp_path, name):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    out = tmp_path / name
    assert run(["ledger", "show", str(spent.path), "--plot", str(out)]) == 0
    assert out.stat().st_size > 1_000
    assert run(["ledger", "show", str(spent.path), "--plot", str(out)]) == 1  # it is there already
    assert run(["ledger", "show", str(spent.path), "--plot", str(out), "--force"]) == 0


def test_a_figure_of_another_kind_is_refused(spent, tmp_path, capsys):
    assert run(["ledger", "show", str(spent.path), "--plot", str(tmp_path / "s.gif")]) == 1
    assert "s.gif must end in one of .png, .svg, .pdf" in capsys.readouterr().err
    assert list(tmp_path.glob("s.*")) == []


def test_an_empty_ledger_is_drawn_with_its_cap(path, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    from dperm.plot import spending

    made = spending(Ledger.create(path, epsilon=1.0, delta=1e-6))
    (axes,) = made.axes
    assert "0 of 1 spent" in axes.get_title(loc="left")
