"""``deployment.toml``: its template says nothing, its answers are typed, and whatever is strange is refused."""

import contextlib
import copy
import datetime
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_models import ANSWERS

from dperm.errors import InvalidInput
from dperm.release import Deployment, template
from dperm.release.deployment import COUNT, DATE, LIST, QUESTIONS, REGISTERED


def written(tmp_path, text):
    path = tmp_path / "deployment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_template_asks_everything_and_answers_nothing(tmp_path):
    path = written(tmp_path, template())
    blank = Deployment.from_toml(path)
    assert blank == Deployment()
    for name in QUESTIONS:
        assert f"\n{name.partition('.')[2]} = " in template()
    assert max(map(len, template().splitlines())) <= 100


def test_the_template_names_choices_and_marks_what_the_registry_needs():
    asked = {}
    for line, below in itertools.pairwise(template().splitlines()):
        asked.setdefault(below.partition(" = ")[0], []).append(line)
    for name, kind in QUESTIONS.items():
        lines, chosen = asked[name.partition(".")[2]], isinstance(kind, tuple)
        choices = f"One of: {', '.join(kind)}." if chosen else "One of:"
        assert any(choices in line for line in lines) == chosen
        marked = sum(line.endswith(" *") for line in lines)
        assert marked == sum(other.partition(".")[2] == name.partition(".")[2] for other in REGISTERED)


def test_every_question_can_be_answered_in_the_template(tmp_path):
    filled = template()
    for name, kind in QUESTIONS.items():
        key = name.partition(".")[2]
        answer = {LIST: '["a"]', DATE: "2026-05-31", COUNT: "2"}.get(kind, '"a"')
        answer = f'"{kind[-1]}"' if isinstance(kind, tuple) else answer
        for empty in ('""', "[]"):
            filled = filled.replace(f"\n{key} = {empty}\n", f"\n{key} = {answer}\n")
    found = Deployment.from_toml(written(tmp_path, filled.replace('name = ""', 'name = "N"')))
    assert set(found.answers) == set(QUESTIONS)
    assert found.missing_for_registry == ()
    assert len(found.made_by) == len(found.approved_by) == 1


def test_answers_come_back():
    found = Deployment.from_dict(ANSWERS)
    assert found.text("product.name") == "Who owns"
    assert found.items("curator.organisations") == ("City of Example",)
    assert found.answers["product.publication_date"] == datetime.date(2026, 12, 1)
    assert found.most_rows_per_person == 3
    assert str(found.made_by[0]) == "A. Analyst, statistician, a@city.example"
    assert found.missing_for_registry == ()


def test_a_toml_date_is_a_date(tmp_path):
    path = written(tmp_path, "[product]\npublication_date = 2026-05-31\n")
    assert Deployment.from_toml(path).text("product.publication_date") == "2026-05-31"


def test_what_is_missing_is_listed_whole():
    assert Deployment().missing_for_registry == (
        "product.name",
        "product.description",
        "product.purpose",
        "product.publication_date",
        "dataset.region",
        "curator.organisations",
        "registry.authors",
    )


WRONG = {
    "unknown table": ({"produkt": {}}, "unknown table 'produkt'; did you mean 'product'?"),
    "unknown key": ({"product": {"porpose": "a"}}, "unknown key 'porpose'; did you mean 'purpose'?"),
    "nothing close": ({"curator": {"zzz": "a"}}, "there are organisations, contact."),
    "no table": ({"product": "a"}, "a table of keys was expected"),
    "number for text": ({"product": {"name": 3}}, "text in quotation marks was expected; got 3"),
    "list for text": ({"product": {"name": ["a"]}}, "text in quotation marks was expected"),
    "choice": ({"product": {"access": "Public "}}, "Did you mean 'public'?"),
    "far choice": ({"dataset": {"sector": "Space"}}, "one of Technology, Healthcare"),
    "date": ({"product": {"publication_date": "31.5.2026"}}, "as in 2026-05-31"),
    "no such day": ({"product": {"publication_date": "2026-02-30"}}, "as in 2026-05-31"),
    "moment": (
        {"product": {"publication_date": datetime.datetime(2026, 1, 1)}},
        "as in 2026-05-31",
    ),
    "count": ({"dataset": {"most_rows_per_person": 0}}, "a whole number from 1"),
    "truth": ({"dataset": {"most_rows_per_person": True}}, "a whole number from 1"),
    "huge count": ({"dataset": {"most_rows_per_person": 10**9}}, "a whole number from 1"),
    "list": ({"curator": {"organisations": [1]}}, "text in quotation marks was expected"),
    "long list": ({"curator": {"organisations": ["a"] * 51}}, "a list of texts was expected"),
    "too long": ({"product": {"purpose": "a" * 4001}}, "at most 4000 characters"),
    "turned around": ({"product": {"purpose": "approved\u202enot"}}, "U+202E"),
    "invisible": ({"product": {"purpose": "a\u200bb"}}, "U+200B"),
    "control": ({"product": {"purpose": "a\x00b"}}, "U+0000"),
    "line separator": ({"product": {"purpose": "a\u2028b"}}, "U+2028"),
    "half a character": ({"product": {"purpose": "a\ud800b"}}, "U+D800"),
    "people": ({"made_by": {"name": "a"}}, "a table for each person was expected"),
    "person": ({"made_by": ["a"]}, "a table of keys was expected"),
    "nameless": ({"approved_by": [{"role": "chief"}]}, "a person needs a name"),
    "of a person": ({"made_by": [{"nam": "a"}]}, "did you mean 'name'?"),
}


@pytest.mark.together
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_in_one_line(case):
    data, said = WRONG[case]
    with pytest.raises(InvalidInput) as error:
        Deployment.from_dict(data, origin="deployment.toml")
    assert str(error.value).startswith("deployment.toml")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_choice_is_taken_as_it_is_written_and_blanks_around_text_do_not_count():
    found = Deployment.from_dict({"product": {"access": "public", "purpose": "  a\nb  "}})
    assert found.text("product.purpose") == "a\nb"
    assert Deployment.from_dict({"product": {"purpose": "   "}}).answers == {}


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        Deployment.from_toml(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match="not a TOML file"):
        Deployment.from_toml(written(tmp_path, "[product\nname = 1"))


def test_scripts_that_need_joiners_can_be_written():
    name = "می\u200cخواهم"
    assert Deployment.from_dict({"product": {"name": name}}).text("product.name") == name


def test_reading_changes_nothing():
    before = copy.deepcopy(ANSWERS)
    Deployment.from_dict(ANSWERS)
    assert before == ANSWERS


VALUES = st.recursive(
    st.one_of(st.text(max_size=20), st.integers(), st.booleans(), st.floats(), st.dates(), st.datetimes()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([name.partition(".")[2] for name in QUESTIONS])
TABLES = st.sampled_from(sorted({name.partition(".")[0] for name in QUESTIONS} | {"made_by", "approved_by"}))


@settings(deadline=None)
@given(st.dictionaries(TABLES, st.dictionaries(KEYS, VALUES, max_size=3) | st.lists(VALUES, max_size=2)))
def test_whatever_is_given_is_refused_or_understood(data):
    refusal = ""
    try:
        found = Deployment.from_dict(data)
    except InvalidInput as error:
        found, refusal = Deployment(), str(error)
    assert "\n" not in refusal
    for name in QUESTIONS:
        assert isinstance(found.text(name), str)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_understood(tmp_path_factory, data):
    text = bytearray(template().encode())
    for _ in range(data.draw(st.integers(1, 6))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_bytes(bytes(text))
    with contextlib.suppress(InvalidInput):
        Deployment.from_toml(path)
