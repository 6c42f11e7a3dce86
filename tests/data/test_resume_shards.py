"""A conversion that is killed goes on when it is run again, and ends in the same shards."""

import json
import signal

import pytest
from shard_cases import ROWS, SCHEMA, content, names, people, run_until, write_parquet

import dperm.data.writing as writing
from dperm.data import open_shards, write_shards
from dperm.data.kinds import CategoricalKind
from dperm.errors import InvalidInput

MOMENTS = (
    "write:0",
    "write:1",
    "write:5",
    "write:13",
    "replace:0",
    "replace:4",
    "replace:15",
    "fsync:2",
    "fsync:9",
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("source") / "parts")


def convert(source, folder, **more):
    return write_shards(source, SCHEMA, folder, rows_per_shard=1024, **more)


@pytest.mark.some(4)
@pytest.mark.system_noise(failing=0)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system knows no SIGKILL")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_is_gone_on_with(moment, parts, tmp_path):
    undisturbed = convert(parts, tmp_path / "whole")
    run_until(parts, tmp_path / "killed", moment)
    with pytest.raises(InvalidInput, match="no finished shards"):
        open_shards(tmp_path / "killed")
    finished = (
        len((tmp_path / "killed" / "journal.jsonl").read_bytes().splitlines()) - 1
        if (tmp_path / "killed" / "journal.jsonl").exists()
        else 0
    )
    encoded = []
    resumed = convert(parts, tmp_path / "killed", progress=lambda done, _: encoded.append(done))
    assert resumed.key == undisturbed.key
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    if finished > 0 and encoded:
        assert encoded[0] > 1024 * finished  # what was finished was not made again


class Stop(BaseException):
    """As Ctrl+C."""


def interrupted(source, folder, after):
    def progress(done, _total):
        if done >= after:
            raise Stop

    with pytest.raises(Stop):
        convert(source, folder, progress=progress)


def test_an_interrupt_keeps_finished_shards_and_no_half_of_one(parts, tmp_path):
    interrupted(parts, tmp_path / "shards", 3000)
    assert not any(name.endswith(".unfinished") for name in names(tmp_path / "shards"))
    kept = (tmp_path / "shards" / "shard-00000.codes.npy").stat().st_mtime_ns
    convert(parts, tmp_path / "shards")
    assert (tmp_path / "shards" / "shard-00000.codes.npy").stat().st_mtime_ns == kept


def test_a_finished_shard_that_was_changed_is_written_anew(parts, tmp_path):
    whole = convert(parts, tmp_path / "whole")
    interrupted(parts, tmp_path / "shards", 3000)
    path = tmp_path / "shards" / "shard-00000.codes.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="starts anew"):
        assert convert(parts, tmp_path / "shards").key == whole.key


def test_other_rows_or_settings_start_anew_and_say_so(parts, tmp_path):
    other = write_parquet(tmp_path / "other", ROWS - 1)
    interrupted(parts, tmp_path / "shards", 3000)
    with pytest.warns(UserWarning, match="starts anew"):
        found = convert(other, tmp_path / "shards")
    assert found.key == convert(other, tmp_path / "again").key


def test_a_source_that_nothing_names_starts_anew_and_says_so(tmp_path):
    interrupted(iter(people().to_batches(700)), tmp_path / "shards", 3000)
    with pytest.warns(UserWarning, match="starts anew"):
        found = convert(iter(people().to_batches(700)), tmp_path / "shards")
    assert found.key == convert(people(), tmp_path / "again").key


def test_two_do_not_write_to_one_folder(parts, tmp_path):
    def meanwhile(_done, _total):
        with pytest.raises(InvalidInput, match="another process"):
            convert(parts, tmp_path / "shards")

    assert convert(parts, tmp_path / "shards", progress=meanwhile).key


def test_a_disk_that_is_full_keeps_what_is_finished(parts, tmp_path, monkeypatch):
    real, count = writing.new_file, iter(range(100))

    def full(path):
        if next(count) == 4:
            raise OSError(28, "No space left on device")
        return real(path)

    monkeypatch.setattr(writing, "new_file", full)
    with pytest.raises(OSError, match="No space"):
        convert(parts, tmp_path / "shards")
    assert "shard-00000.labels.npy" in names(tmp_path / "shards")
    monkeypatch.undo()
    assert convert(parts, tmp_path / "shards").key == convert(parts, tmp_path / "again").key


def test_peak_memory_is_a_shard_and_a_piece(parts, tmp_path, monkeypatch):
    """No piece is larger than the limit, and no more than one shard is held, however the rows come."""
    longest, real = [], CategoricalKind.lines

    def watched(self, frame):
        longest.append(frame.num_rows)
        return real(self, frame)

    monkeypatch.setattr(CategoricalKind, "lines", watched)
    monkeypatch.setattr("dperm.data.feeds.ROWS_AT_ONCE", 512)
    convert(people(), tmp_path / "shards")
    assert max(longest) <= 512
    assert json.loads((tmp_path / "shards" / "manifest.json").read_text())["shards"][0]["rows"] == 1024
