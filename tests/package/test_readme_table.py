"""The README's table of mechanisms is the registry's."""

import importlib.util
from pathlib import Path

from dperm.mechanisms import mechanism_names
from dperm.mechanisms.catalogue import catalogue

ROOT = Path(__file__).resolve().parents[2]


def tool():
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "tools" / "readme_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_table_is_up_to_date():
    maker = tool()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count(maker.BEGIN) == readme.count(maker.END) == 1
    between = maker.parts(readme)[1]
    assert between == maker.table(), "run: python tools/readme_table.py --write"


def test_the_table_has_every_mechanism_once():
    lines = tool().table().splitlines()
    for name in mechanism_names():
        assert sum(f"`{name}`" in line for line in lines) == 1


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
    assert "squared" not in listed["majority"].losses
    assert "squared" in listed["none"].losses
    assert len(listed["rsgd-ar"].relations) == 2
