"""Every pair of features meets in a cell that works as it should, or is refused as it should; slowly, all cells do."""

from collections import Counter

import pytest
from feature_cells import (
    ACTS,
    CLASSIFY,
    FEATURES,
    REFUSALS,
    Bench,
    Cell,
    check,
    check_file,
    check_ledger,
    covering,
    every_cell,
    refusal_of,
)

import dperm
import matrix_table
from dperm import Budget

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
EVERY = list(every_cell())
PAIRS = covering(EVERY)


@pytest.mark.parametrize("cell", PAIRS, ids=str)
def test_pairs_of_features(cell, tmp_path):
    check(cell, tmp_path)


@pytest.mark.slow
def test_every_cell(tmp_path, capsys):
    counted, failed = Counter(), []
    for number, cell in enumerate(EVERY):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            counted[check(cell, folder)] += 1
        except Exception as error:
            failed.append(f"{cell}: {type(error).__name__}: {str(error)[:300]}")
    with capsys.disabled():
        print(
            f"\n{len(EVERY)} cells: {counted['works']} work, {counted['refused']} are refused, {len(failed)} fail"
        )
    assert not failed, "\n".join(failed)


def test_there_is_a_cell_for_every_choice_and_every_pair_of_choices_is_met():
    assert sum(cell.task == CLASSIFY for cell in EVERY) == 720
    assert set(FEATURES["act"]) == set(ACTS)

    def pairs(cells):
        return {((a, cell[a]), (b, cell[b])) for cell in cells for a in range(6) for b in range(a)}

    assert pairs(PAIRS) == pairs(EVERY)
    assert len(PAIRS) < 60
    assert {refusal_of(cell) is None for cell in PAIRS} == {True, False}


def test_every_reason_refuses_something_that_no_reason_before_it_does():
    refused = {refusal_of(cell) for cell in EVERY}
    assert [refusal.why for refusal in REFUSALS if refusal not in refused] == []


def test_the_table_of_the_page_is_current():
    (shown,) = matrix_table.BLOCK.findall(matrix_table.PAGE.read_text(encoding="utf-8"))
    assert shown == matrix_table.table(), "run: make tables"


# The controls: a cell that spends, claims or refuses otherwise than it should is found.

CELL = Cell("replace-one", "row", "none", "dense", "save")


@pytest.fixture
def bench(tmp_path):
    return Bench(CELL, tmp_path)


def test_a_file_that_claims_another_price_or_unit_is_found(bench):
    spent = ACTS["save"](bench)
    with pytest.raises(AssertionError, match="model.json"):
        check_file(spent[0].file, Budget(0.5, 1e-6), bench)
    bench.unit = "person"
    with pytest.raises(AssertionError, match="model.json"):
        check_file(spent[0].file, spent[0].budget, bench)


def test_a_release_without_a_charge_is_found(bench):
    spent = ACTS["save"](bench)
    check_ledger(spent, bench)
    with pytest.raises(AssertionError):
        check_ledger([*spent, *spent], bench)
    bench.ledger.charge(dperm.privacy.cost.Cost.gaussian(0.1))
    with pytest.raises(AssertionError):
        check_ledger(spent, bench)


def test_a_cell_that_works_where_it_should_not_and_the_other_way_round_is_found(monkeypatch, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    other = CELL._replace(act="search", rows="shards")
    monkeypatch.setattr("feature_cells.REFUSALS", ())
    with pytest.raises(AssertionError, match="works no longer"):
        check(other, tmp_path / "a")
    monkeypatch.setattr("feature_cells.refusal_of", lambda cell: REFUSALS[0])
    with pytest.raises(AssertionError, match="not refused any more"):
        check(CELL, tmp_path / "b")


def test_a_refusal_after_a_charge_is_found(monkeypatch, tmp_path):
    def late(bench):
        bench.fitted()
        raise dperm.errors.Unsupported("this is refused, and it has been paid for already.")

    monkeypatch.setitem(ACTS, "save", late)
    with pytest.raises(AssertionError, match="refused after a charge"):
        check(CELL, tmp_path)
