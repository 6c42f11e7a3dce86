"""The page to sign: for every kind of model, well formed, escaped, self-contained, and no kinder than the verdict."""

import dataclasses
import datetime
import re

import pytest
from release_models import ANSWERS, HOSTILE, MODELS, PRIVATE, SCHEMA, model_file
from well_formed import parsed

from dperm.errors import InvalidInput
from dperm.ledger import Ledger
from dperm.privacy.cost import Cost, compose
from dperm.release import Deployment, page, read_release, text
from dperm.release.release import spending_of
from dperm.release.words import composition
from dperm.render.numbers import one_in, written
from dperm.schema import Schema

TOLD = Deployment.from_dict(ANSWERS)
JARGON = re.compile(r"x_norm|output_share|strength|l2\b|lipschitz|noise_scale|dp-gd steps|y_range|max_rows")


def release_of(case, /, **changes):
    return dataclasses.replace(read_release(model_file(case)), **changes)


def shown(release):
    """The text of the page as a reader sees it, after checking the page."""
    html = page(release)
    found = parsed(html)
    assert found.faults == []
    assert not re.search(r"url\(|@import", html)
    assert {tag for tag, _ in found.tags}.isdisjoint(
        {"link", "script", "img", "iframe", "object", "form", "a"}
    )
    assert not any(
        name in ("src", "href") or name.startswith("on") for _, given in found.tags for name in given
    )
    return "\n".join(found.text)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_has_a_page(name):
    words = shown(release_of(name))
    told = shown(release_of(name, deployment=TOLD, deployed=True))
    assert "not stated" in words
    assert "--init-deployment" in words
    assert "not stated" not in told
    assert "--init-deployment" not in told
    assert ("The guarantee holds" in words) == (name in PRIVATE)
    assert ("does NOT hold" in words) == (name not in PRIVATE)


def test_a_release_for_intervals_is_named():
    words, without = shown(release_of("intervals")), shown(release_of("standardised"))
    for sentence in ("curvature at the released weights", "for intervals"):
        assert sentence in words
        assert sentence not in without
    assert "what confidence intervals are made of" in composition(release_of("intervals"))
    assert "intervals" not in composition(release_of("standardised"))


@pytest.mark.parametrize("name", MODELS)
def test_jargon_stays_in_the_annex(name):
    words = shown(release_of(name, deployment=TOLD, deployed=True))
    before, annex = words.split("Technical annex")[0], words.rpartition("Constants")[2]
    assert not JARGON.findall(before)
    assert {"x_norm", "l2"} <= set(JARGON.findall(annex))


def test_the_order_of_the_page():
    html = page(release_of("logistic", deployment=TOLD, deployed=True))
    places = [html.index(f"<h2>{safe}") for safe in re.findall(r"<h2>([^<]*)", html)]
    heads = re.findall(r"<h2>([^<]*)", html)
    assert places == sorted(places)
    assert html.index('class="verdict') < places[0]
    wanted = [
        "What is released, and why",
        "For whom: one row, and a person with several",
        "What an attacker can achieve",
        "Budget: before, after, and the cap",
        "How good the model is",
        "The columns",
        "What is not protected",
        "Before the fit, and after it",
        "Who and what must be trusted",
        "What is assumed",
        "Evaluated as NIST SP 800-226 asks",
        "How to verify this again",
        "Decision",
        "Glossary",
        "Technical annex",
    ]
    assert [head for head in heads if head in wanted] == wanted


def test_what_people_said_is_on_it():
    words = shown(release_of("logistic", deployment=TOLD, deployed=True))
    for table in ("product", "dataset", "curator", "privacy"):
        for key, answer in ANSWERS[table].items():
            if key not in ("access", "releases", "source", "most_rows_per_person", "organisations"):
                assert str(answer) in words, key
    for person in (*ANSWERS["made_by"], *ANSWERS["approved_by"]):
        assert person["name"] in words
    assert "a person has at most 3 rows" in words
    assert "3 (stated)" in words


def test_several_rows_of_a_person_are_no_small_print():
    release = release_of("logistic", deployment=TOLD, deployed=True)
    words = shown(release)
    head, assumed = words.partition("What is released, and why")[0], words.partition("What is assumed")[2]
    for said in (head, text(release)):
        assert "at most 3 rows. The guarantee for a person is therefore ε = 3." in said
    assert "CAUTION: One person contributes one row. It is stated that a person has up to 3" in assumed
    alone = Deployment.from_dict({"dataset": {"most_rows_per_person": 1}})
    words = shown(release_of("logistic", deployment=alone, deployed=True))
    assert "the guarantee for a row is that for a person" in words
    assert "CAUTION" not in words


def test_every_line_of_the_pyramid_is_filled_or_asked_for():
    silent = shown(release_of("logistic"))
    for question in (
        "who chose ε",
        "how many rows can one person",
        "how are the rows kept",
        "how were the data",
    ):
        assert f"ask: {question}" in silent
    told = shown(release_of("logistic", deployment=TOLD, deployed=True))
    assert re.findall("ask: ([^?]*)", told) == [
        "how good is the model, and is it worse for small groups of people"
    ]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in PRIVATE])
def test_a_model_without_a_guarantee_gets_a_red_page_that_cannot_be_approved(name):
    release = release_of(name, deployment=TOLD, deployed=True)
    html, words = page(release), shown(release)
    assert '<body class="fails">' in html
    assert "approved for release" not in words
    assert "not approved" in words
    assert "cannot be signed as approved" in words
    for promise in ("ifferentially private", "attacker", "about as likely", "cost no further"):
        assert promise not in words
        assert promise not in text(release)
    assert text(release).startswith("NOT PRIVATE")


def test_a_model_with_a_guarantee_can_be_approved():
    html, words = page(release_of("logistic")), shown(release_of("logistic"))
    assert '<body class="holds">' in html
    assert "approved for release" in words
    assert words.count("Signature") == 1


def test_every_approver_has_a_block():
    several = {**ANSWERS, "approved_by": [{"name": f"Officer {k}"} for k in range(3)]}
    words = shown(release_of("logistic", deployment=Deployment.from_dict(several), deployed=True))
    assert words.count("Signature") == 3
    assert "Officer 2" in words


def hostile(value):
    if isinstance(value, dict):
        return {key: hostile(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return HOSTILE if isinstance(value, str) else value


def test_hostile_answers_and_columns_are_escaped():
    kept = {"access", "releases", "source", "sector", "publication_date"}
    answers = {
        table: {key: inner if key in kept else hostile(inner) for key, inner in given.items()}
        if isinstance(given, dict)
        else hostile(given)
        for table, given in ANSWERS.items()
    }
    schema = Schema.from_dict(
        {
            "target": {"name": HOSTILE + "t", "classes": [HOSTILE, "b"]},
            "rows": {"spline": 0},
            "features": {HOSTILE: {"range": [0, 1]}, HOSTILE + "c": {"categories": [HOSTILE, "b", "c"]}},
        }
    )
    release = release_of(
        "logistic", schema=schema, deployment=Deployment.from_dict(answers), deployed=True, name=HOSTILE
    )
    words = shown(release)
    assert words.count("<script>alert(1)</script>") > 10
    assert {tag for tag, _ in parsed(page(release)).tags}.isdisjoint({"script", "img"})


def test_names_cannot_turn_the_page_around():
    schema = Schema.from_dict({**SCHEMA, "target": {"name": "a\u202eb\x07", "classes": ["no", "yes"]}})
    html = page(release_of("logistic", schema=schema))
    assert "\u202e" not in html
    assert "\x07" not in html
    assert "a\ufffdb\ufffd" in html


def test_a_file_name_with_blanks_is_quoted():
    assert "dperm verify 'my model.json' --max" in text(release_of("logistic", name="my model.json"))


def test_how_to_verify_it_again(capsys, monkeypatch):
    from dperm.cli.app import run

    release = release_of("logistic")
    words = shown(release)
    command = re.search(r"dperm (verify model\.json .*)", text(release))[1].split()
    monkeypatch.chdir(model_file("logistic").parent)
    assert run(command) == 0
    for digest in (release.file_sha256, release.statement["digest"], release.statement["model"]["sha256"]):
        assert digest in words
    weaker = ["0.99" if word == "1.0" else word for word in command]
    assert weaker != command
    assert run(weaker) == 1
    capsys.readouterr()


def test_the_page_has_a_date_and_a_version():
    words = shown(release_of("logistic", today=datetime.date(2031, 1, 2), library="9.9"))
    assert "made on 2031-01-02 with dperm 9.9" in words


def test_it_can_be_printed_and_read_on_a_telephone():
    html = page(release_of("logistic"))
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "@page" in html
    assert "max-width: 640px" in html
    assert re.search(r"\.verdict, figure, \.sign[^{]*\{ break-inside: avoid; \}", html)
    assert "width=device-width" in html


def test_numbers_as_in_print():
    assert written(1e-6) == "10⁻⁶"
    assert written(2.5e-7) == "2.5 × 10⁻⁷"
    assert written(0.05) == "0.05"
    assert written(1.0) == "1"
    assert written(0.0) == "0"
    assert written(12345678.0, 3) == "1.23 × 10⁷"
    assert written(float("inf")) == "∞"
    assert one_in(1e-6) == "one in a million"
    assert one_in(1e-7) == "one in 10 million"
    assert one_in(1e-3) == "one in 1,000"
    assert one_in(1e-13) == "one in 10¹³"
    words = shown(release_of("logistic"))
    assert "δ\u00a0=\u00a010⁻⁶" in words
    assert "1e-06" not in words.split("How to verify")[0]


def test_what_was_spent_before_and_after():
    path = model_file("paid")
    release = read_release(path, ledger=path.parent / "budget.db")
    spent = release.spending
    ledger = Ledger(path.parent / "budget.db")
    first, second, third = ledger.entries()
    assert spent.cited == (second.id,)
    assert spent.before == pytest.approx(first.cost.epsilon(1e-5))
    assert spent.alone == pytest.approx(second.cost.epsilon(1e-5))
    assert max(spent.before, spent.alone) < spent.after < spent.before + spent.alone
    assert spent.after < spent.now == pytest.approx(ledger.spent())
    assert (spent.cap.epsilon, spent.cap.delta, spent.later) == (2.0, 1e-5, 1)
    words = shown(release)
    assert f"ε = {written(spent.before, 4)}" in words
    assert "2 (this one)" in words
    assert "1 more charge was made" in words
    assert "Spent after it" in words
    assert f"before ε = {written(spent.before, 4)}" in text(release)
    assert third.id == 3


def test_parts_of_a_table_are_counted_by_themselves(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", 2.0, 1e-5)
    ledger.declare_partitions(["a", "b"], fixed_membership=True)
    citations = []
    for part, mu in ((None, 0.1), ("a", 0.2), ("b", 0.15), ("b", 0.2)):
        number = ledger.charge(Cost.gaussian(mu), partition=part)
        citations.append(f"ledger {ledger.id}, charge {number}, head {ledger.head}")
    last = spending_of(ledger, citations[3])
    assert last.before == pytest.approx(compose([Cost.gaussian(0.1), Cost.gaussian(0.15)]).epsilon(1e-5))
    whole = [Cost.gaussian(mu) for mu in (0.1, 0.15, 0.2)]
    assert last.after == last.now == pytest.approx(compose(whole).epsilon(1e-5))
    first = spending_of(ledger, citations[0])
    assert (first.before, first.later) == (0.0, 3)


def test_a_ledger_that_did_not_pay_is_refused(tmp_path):
    other = tmp_path / "other.db"
    Ledger.create(other, 1.0, 1e-6)
    with pytest.raises(
        InvalidInput, match=r"other\.db is not the ledger that paid for model\.json: .* another ledger"
    ):
        read_release(model_file("paid"), ledger=other)
    with pytest.raises(InvalidInput, match=r"model\.json cites no ledger"):
        read_release(model_file("logistic"), ledger=other)


def test_without_the_ledger_the_charge_is_named_and_without_a_charge_that_is_said():
    assert "charged to a ledger: ledger " in shown(release_of("paid"))
    assert "was not charged to a ledger" in shown(release_of("logistic"))


def test_the_text_is_short_and_in_the_order_of_the_page():
    release = release_of("logistic", deployment=TOLD, deployed=True)
    said = text(release)
    heads = [line for line in said.splitlines() if line and not line.startswith(" ")]
    wanted = [
        "In plain words",
        "A person with so many rows",
        "Budget",
        "Not protected",
        "Assumed",
        "Verify again",
    ]
    assert [head for head in heads if head in wanted] == wanted
    assert said.startswith("Differentially private: ε = 1, δ = 10⁻⁶, for one row, replace-one")
    assert not JARGON.search(said)
    assert len(said.splitlines()) < 60
