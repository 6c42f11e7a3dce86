"""The web page and the two commands: escaped, self-contained, and with the right exit code."""

import json
import re

import numpy as np
import pytest
from certified_models import document_of, sealed

from dperm import PrivateLogisticRegression
from dperm.certificate import verify
from dperm.certificate.assumptions import Assumption, Code
from dperm.certificate.words import attack_rates, attack_table, meaning
from dperm.cli.app import run
from dperm.models import save_model
from dperm.release import Release
from dperm.release import page as release_page

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
UNMET = Assumption.of(Code.LEARNED_STEPS, steps="a scaler learned the means")


def page(name, statement, verdict):
    return release_page(Release(name=name, statement=statement, verdict=verdict))


def file_of(tmp_path, document, name="model.json"):
    path = tmp_path / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def texts(value, path=()):
    """Paths of all texts in a certificate but those that are a choice among words."""
    if path == ("targets", "kind") or path[:1] in (("around",), ("assumptions",)):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, list):
        for key, inner in enumerate(value):
            yield from texts(inner, (*path, key))
    elif isinstance(value, str):
        yield path


@pytest.mark.parametrize("case", ["rsgd-ar, standardised", "auto, persons"])
def test_every_text_of_a_hostile_certificate_is_escaped(case):
    document = document_of(case)
    for *parents, key in texts(document["certificate"]):
        inner = document["certificate"]
        for parent in parents:
            inner = inner[parent]
        inner[key] = HOSTILE
    hostile = Assumption.of(Code.INSIDE, kind=HOSTILE, learns=HOSTILE).to_dict()
    for name in ("around", "assumptions"):
        document["certificate"][name].append(hostile)
    shown = page(HOSTILE, document["certificate"], verify(document))
    assert "<script" not in shown
    assert "<img" not in shown
    assert shown.count("&lt;script&gt;") >= 5


def test_hostile_class_names_do_no_harm(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2)) / 3
    labels = np.array([HOSTILE, "b"])[(X[:, 0] > 0).astype(int)]
    path = tmp_path / "model.json"
    save_model(PrivateLogisticRegression(mechanism="output", classes=[HOSTILE, "b"]).fit(X, labels), path)
    assert run(["verify", str(path)]) == 0
    assert run(["report", str(path), "--html", str(tmp_path / "r.html")]) == 0
    assert "<script" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.together
@pytest.mark.parametrize(
    "case", ["auto", "dp-sgd", "frank-wolfe, pure", "none", "auto, three classes", "adassp"]
)
def test_the_page_stands_alone(case):
    document = document_of(case)
    shown = page("model.json", document["certificate"], verify(document))
    assert not re.search(r"https?://|url\(|<link|<script|@import|src=", shown)
    assert shown.count("<svg") == (0 if case == "none" else 2)
    assert "prefers-color-scheme: dark" in shown
    assert "nan" not in re.findall(r"<svg.*</svg>", shown, re.DOTALL)[0] if case != "none" else True


def test_an_attacker_does_better_than_guessing_and_no_better_than_the_claim():
    verdict = verify(document_of("output"))
    for row in attack_table(verdict):
        assert row.fpr < row.mechanism < row.budget
    rates = np.linspace(0, 1, 21)
    found = attack_rates(verdict, rates.tolist())
    assert (np.diff(found) >= 0).all()
    # one Gaussian release: the exact curve is Phi(Phi^-1(fpr) + mu), and the bounds come within a thousandth of it
    from scipy.stats import norm

    (release,) = document_of("output")["certificate"]["releases"]
    exact = norm.cdf(norm.ppf(rates) + release["padded_sensitivity"] / release["noise_scale"])
    assert (found >= exact * (1 - 1e-9)).all()
    np.testing.assert_allclose(found, exact, atol=1e-3)


def test_words_tell_the_three_outcomes_apart():
    honest, forged = document_of("output"), document_of("output")
    forged["certificate"]["releases"][0]["noise_scale"] /= 2
    sealed(forged)
    said = {
        case: " ".join(meaning(document["certificate"], verify(document)))
        for case, document in {"honest": honest, "forged": forged, "none": document_of("none")}.items()
    }
    assert "factor of at most 2.72" in said["honest"]
    assert "Do not rely" in said["forged"]
    assert "no privacy guarantee" in said["none"]
    assert len(set(said.values())) == 3


def test_what_the_file_says_was_not_met_is_shown():
    document = not_met()
    verdict = verify(document)
    assert verdict.accepted
    assert verdict.unmet == (UNMET,)
    assert verdict.guarantee is None
    assert str(UNMET) in str(verdict)
    assert 'class="verdict bad"' in page("m", document["certificate"], verdict)


def test_the_commands(tmp_path, capsys):
    path = file_of(tmp_path, document_of("auto"))
    assert run(["verify", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "second accountant" in shown
    assert "recomputed independently" in shown
    assert run(["verify", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] is True
    assert run(["report", str(path)]) == 0
    assert "by this mechanism" in capsys.readouterr().out
    page_path = tmp_path / "report.html"
    assert run(["report", str(path), "--html", str(page_path)]) == 0
    assert page_path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run(["report", str(path), "--html", str(page_path)]) == 1
    assert "--force" in capsys.readouterr().err


def test_a_forged_file_ends_with_one_and_names_the_field(tmp_path, capsys):
    document = document_of("output")
    document["certificate"]["problem"]["l2"] *= 2
    document["parameters"]["l2"] = document["certificate"]["problem"]["l2"]
    path = file_of(tmp_path, sealed(document))
    assert run(["verify", str(path)]) == 1
    assert "sensitivity" in capsys.readouterr().out
    assert run(["verify", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["guarantee"] is None


@pytest.mark.together
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path, capsys, share):
    text = json.dumps(document_of("output"))
    path = tmp_path / "model.json"
    path.write_text(text[: int(share * len(text))], encoding="utf-8")
    assert run(["report", str(path)]) == 1
    assert "not a usable model file" in capsys.readouterr().err
    assert run(["verify", str(path)]) == 1
    assert capsys.readouterr().out.startswith("NOT OK: model.json is not a usable file to verify")


def not_met():
    document = document_of("output")
    certificate = document["certificate"]
    place = certificate["assumptions"].index(certificate["around"][1])
    certificate["assumptions"][place] = certificate["around"][1] = UNMET.to_dict()
    return sealed(document)


@pytest.mark.together
@pytest.mark.parametrize("case", ["not met", "seeded", "none"])
def test_what_does_not_stand_is_not_called_private(tmp_path, capsys, case):
    """Neither in a heading nor in words, and no line is drawn that would promise a bound on attacks."""
    document = not_met() if case == "not met" else document_of(case)
    path = file_of(tmp_path, document)
    shown = page("model.json", document["certificate"], verify(document))
    assert run(["report", str(path)]) == 0
    text = capsys.readouterr().out
    for said in (shown, text):
        assert "ifferentially private" not in said
        assert "lies above" not in said
        assert "about as likely" not in said
        assert "attacker" not in said
    assert "<svg" not in shown
    assert "noise is enough" not in shown
    assert "The guarantee says nothing if" not in shown
    assert ("Not private as a whole" if case == "not met" else "No guarantee") in shown
    assert text.startswith("NOT PRIVATE")


def test_a_sound_page_is_headed_by_its_guarantee():
    document = document_of("output")
    shown = page("model.json", document["certificate"], verify(document))
    assert "<strong>Differentially private:" in shown
    assert "No attack, of any kind, lies above the lines" in shown
    assert "The price was recomputed independently." in shown


def test_what_was_not_checked_stands_on_the_page():
    document = document_of("dp-gd, no clip")
    shown = page("model.json", document["certificate"], verify(document))
    assert "<strong>Differentially private:" in shown
    assert "Not checked: the sensitivity of every step after the first" in shown
    assert "recomputed independently" not in shown
    assert "With noise and sensitivities as stated, no attack of any kind lies above" in shown


def test_a_page_about_a_model_that_costs_too_much_says_so():
    document = document_of("output")
    shown = page("model.json", document["certificate"], verify(document, max_epsilon=0.1))
    assert 'class="verdict bad"' in shown
    assert "epsilon = 1 is above the 0.1 allowed" in shown
