"""Every part of a schema says in a line what it declares."""

import pytest

from dperm.schema import Schema

DECLARED = {
    "target": {"name": "y", "classes": ["low", "high"]},
    "rows": {"cross": [["housing", "member"]]},
    "features": {
        "age": {"range": [17, 90.5], "unit": "years"},
        "income": {"range": [0, 99999], "log": True, "missing": [-1, "?"], "indicator": True},
        "gain": {"range": [0, 1], "indicator": True},
        "housing": {"categories": ["rent", "own", ""], "missing": ["?"], "missing_as": "rent"},
        "member": {"categories": [False, True]},
        "town": {"categories": list(range(40)), "missing_as": 3},
        "note": {"hashed": 64, "words": True, "missing": ["-"]},
        "job": {"hashed": 16},
    },
}
BEYOND = "values beyond are moved to the nearer end"


def test_every_block_has_its_line():
    assert {block.name: block.in_words() for block in Schema.from_dict(DECLARED).blocks} == {
        "age": f"number from 17 to 90.5 years; {BEYOND}",
        "income": f"number from 0 to 99999; {BEYOND}; its logarithm is used; "
        "missing if -1, ?, shown by a column of its own",
        "gain": f"number from 0 to 1; {BEYOND}; missing, shown by a column of its own",
        "housing": "one of 3 categories: rent, own, (empty); missing if ?, counted as rent",
        "member": "one of 2 categories: false, true",
        "town": "one of 40 categories: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 28 more; missing, counted as 3",
        "note": "words of a text, hashed into 64 columns; missing if -",
        "job": "text or a category without a list, hashed into 16 columns",
        "housing & member": "housing and member together: one of 6 pairs",
    }


@pytest.mark.together
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"classes": ["no", "yes"]}, "one of 2 classes: no, yes"),
        ({"classes": ["a", "b"], "rest": True}, "one of 2 classes: a, b; b stands for every other label"),
        ({"threshold": 16.5}, "one of 2 classes: <=16.5, >16.5"),
        ({"range": [0, 250]}, f"number from 0 to 250; {BEYOND}"),
        ({"range": [0, 250], "unit": "days"}, f"number from 0 to 250 days; {BEYOND}"),
    ],
)
def test_so_has_the_target(target, words):
    schema = Schema.from_dict({**DECLARED, "target": {"name": "y", **target}})
    assert schema.target.in_words() == words


def test_a_unit_is_kept_and_changes_no_row():
    schema = Schema.from_dict(DECLARED)
    assert Schema.from_dict(schema.to_dict()) == schema
    assert 'unit = "years"' in schema.to_toml()
    plain = Schema.from_dict({**DECLARED, "features": {**DECLARED["features"], "age": {"range": [17, 90.5]}}})
    assert plain.scale == schema.scale
    assert [block.column_names for block in plain.blocks] == [block.column_names for block in schema.blocks]
