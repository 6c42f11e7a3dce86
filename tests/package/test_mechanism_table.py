"""The table of mechanisms in docs/mechanisms.md is the registry's."""

import pytest

from dperm.mechanisms import mechanism_names
from dperm.mechanisms.registry import catalogue
from mechanism_table import BEGIN, END, PAGE, parts, table


def test_the_page_says_what_the_registry_says():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert parts(page)[1] == table(), "run: make tables"


def test_a_page_without_markers_is_refused():
    with pytest.raises(SystemExit, match="markers"):
        parts("# Mechanisms\n")


def test_the_table_has_every_mechanism_once():
    lines = table().splitlines()
    for name in mechanism_names():
        assert sum(f"`{name}`" in line for line in lines) == 1


def test_every_private_mechanism_has_a_proof_to_link_to():
    unproved = {entry.name for entry in catalogue() if f"](proofs/{entry.name}.md)" not in table()}
    assert unproved == {"auto", "none", "majority"}


def test_families_are_together_and_baselines_say_what_they_are():
    entries = catalogue()
    families = [entry.family for entry in entries]
    assert sorted(families, key=families.index) == families
    assert {entry.name for entry in entries} == set(mechanism_names())
    for entry in entries:
        assert bool(entry.accountings) == entry.private
        assert entry.released
        assert entry.losses
        assert entry.relations


def test_what_a_mechanism_does_not_cover_is_not_listed():
    listed = {entry.name: entry for entry in catalogue()}
    assert listed["nsgd"].relations == ("replace-one",)
    assert "squared" not in listed["ssp"].losses
    assert "squared" in listed["none"].losses
    assert len(listed["rsgd-ar"].relations) == 2
