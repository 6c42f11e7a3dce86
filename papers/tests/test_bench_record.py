"""What the benchmarks write for the pages on speed."""

import argparse

import pytest
from benchmarks import record
from benchmarks.timing import Result, Skipped

from dperm_papers.pages.files import read
from dperm_papers.pages.runs import Stopwatch


def test_ratios_are_numbers_that_a_page_can_show(tmp_path):
    results = [
        Result("pass", 2, 12.345, "reading", 10.0, 1.2345, 1.7),
        Result("fit", 0, 0.0345, "theirs", 1234.5, 0.0000279, None),
        Result("slow", 0, 30.0, "theirs", 10.0, 3.0, 2.0),
        Skipped("other", "is not installed"),
    ]
    record.write(
        tmp_path / "speed.parquet", "python -m benchmarks", Stopwatch(), {"ratios": record.ratios(results)}
    )
    made = read(tmp_path / "speed.parquet")
    assert made.run.command == "python -m benchmarks"
    assert made.run.versions["dperm"]
    table = made.table("ratios")
    assert [str(one) for one in table.rows[0]] == [
        "pass",
        "2",
        "12.3",
        "reading",
        "10.0",
        "1.23",
        "1.70",
        "met",
    ]
    assert table.at("fit", "ms (2)").number == 1234
    assert str(table.at("fit", "ratio")) == "0.0000279"
    assert [table.at(name, "") for name in ("fit", "slow", "other")] == ["", "missed", ""]
    assert table.at("other", "against") == "skipped: is not installed"


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path, capsys):
    parser = record.data_option(argparse.ArgumentParser())
    assert parser.parse_args(["--data", str(tmp_path / "x.parquet")]).data == tmp_path / "x.parquet"
    assert parser.parse_args([]).data is None
    for wrong in (tmp_path / "x.csv", tmp_path / "gone" / "x.parquet"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--data", str(wrong)])
        assert "expected a .parquet file" in capsys.readouterr().err
