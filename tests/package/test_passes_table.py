"""The passes that docs/executors.md tells are those that a fit makes, and its cost model is what the tool computes."""

import re

import pytest

import passes


@pytest.mark.parametrize("name", ["ssp", "objective", "output-gd", "rsgd-ar"])
def test_the_page_tells_the_passes_of_a_fit(name):
    found = passes.counted(name)
    line = re.compile(rf"^\| `{name}` \| {found.round_trips:,} \| {found.moments} \|", re.MULTILINE)
    assert line.search(passes.PAGE.read_text(encoding="utf-8"))


def test_the_cost_model_of_the_page_is_computed():
    page = passes.PAGE.read_text(encoding="utf-8")
    assert "\n".join(passes.model()) in page
    fast = passes.Fit("one pass", 1, 1.0)
    one, two = (passes.seconds(fast, 1e9, 200, passes.Cluster(workers=n)) for n in (10, 20))
    assert two < one
