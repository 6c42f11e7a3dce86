"""Evaluations as files, pages, text and figures: whole, checked, escaped, and never private by mistake."""

import json
import re

import numpy as np
import pytest

import dperm
from dperm import Budget, Evaluation, PrivateLinearRegression, PrivateLogisticRegression
from dperm.errors import InvalidInput
from dperm.evaluation import read_evaluation
from dperm.evaluation.report import evaluation_html
from dperm.strict_json import digest

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (4000, 2))
SCORE = X[:, 0] + 0.2 * RNG.normal(size=4000)
EASY = {"epsilon": 3.0, "delta": 1e-5, "random_state": 0}
NASTY = ["no", "<script>alert(1)</script>"]


def classified(labels, **options):
    y = np.array(labels)[np.digitize(SCORE, np.linspace(-0.3, 0.3, len(labels) + 1)[1:-1])]
    model = PrivateLogisticRegression(classes=labels, **EASY).fit(X, y)
    return dperm.evaluate(model, X, y, **(options or {"budget": Budget(1.0, 1e-6)}))


MADE = {
    "binary": classified(NASTY),
    "classes": classified(["a", "b", "c", "d"]),
    "many": classified(list(range(9))),
    "local": classified(["no", "yes"], local=True),
    "hidden": classified(["no", "yes"], budget=Budget(1.0, 1e-6), neighbours="add-remove", max_rows=9000),
    "seeded": classified(["no", "yes"], budget=Budget(1.0, 1e-6), random_state=0),
    "noisy": classified(["no", "yes"], budget=Budget(0.005, 1e-6)),
    "regression": dperm.evaluate(
        PrivateLinearRegression(y_range=(-1, 1), **EASY).fit(X, SCORE), X, SCORE, Budget(1.0, 1e-6)
    ),
}


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_what_is_saved_is_read(tmp_path, name):
    path = tmp_path / "evaluation.json"
    MADE[name].save(path)
    again = read_evaluation(path)
    assert isinstance(again, Evaluation)
    assert again.to_dict() == MADE[name].to_dict() == json.loads(path.read_text())
    assert str(again) == str(MADE[name])
    assert again.private == MADE[name].private


def test_the_file_says_whether_it_is_private():
    kinds = {name: (found.to_dict()["local"], found.to_dict()["private"]) for name, found in MADE.items()}
    assert kinds["local"] == (True, False)
    assert kinds["seeded"] == (False, False)
    assert kinds["binary"] == (False, True)


def changed(name, **changes):
    document = {**MADE[name].to_dict(), **changes}
    del document["digest"]
    return {**document, "digest": digest(document)}


FORGED = {
    "private": changed("local", private=True),
    "local without saying so": changed("local", local=False),
    "seeded as private": changed("seeded", private=True),
    "a figure outside its interval": changed(
        "binary", metrics={"accuracy": {"estimate": 0.99, "low": 0.1, "high": 0.2, "noise": 0.0}}
    ),
    "an unknown metric": changed(
        "binary", metrics={"<b>": {"estimate": 1.0, "low": 1.0, "high": 1.0, "noise": 0.0}}
    ),
    "classes": changed("binary", classes=["a"]),
    "task": changed("binary", task="poetry"),
    "level": changed("binary", level=0.5),
    "version": changed("binary", version=2),
    "format": changed("binary", format="dperm model"),
    "budget": changed("binary", budget={"epsilon": "small", "delta": 0.0}),
    "release": changed("binary", release=None),
    "roc": changed("binary", roc=[{"threshold": 0.5}]),
    "calibration": changed("binary", calibration=7),
    "confusion": changed("binary", confusion=[]),
    "notes": changed("binary", notes=[1]),
    "digest": {**MADE["binary"].to_dict(), "rows": 5},
    "missing key": {key: value for key, value in MADE["binary"].to_dict().items() if key != "roc"},
}


@pytest.mark.together
@pytest.mark.parametrize("forgery", FORGED)
def test_what_does_not_add_up_is_refused(tmp_path, forgery):
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(FORGED[forgery]))
    with pytest.raises(InvalidInput, match=r"forged\.json is not a usable evaluation"):
        read_evaluation(path)


@pytest.mark.together
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": NaN}', b"\xff"])
def test_no_json_is_no_evaluation(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        read_evaluation(path)


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_the_section_is_one_quiet_fragment(name):
    page = MADE[name]._repr_html_()
    assert evaluation_html(MADE[name]) in page
    assert "<script" not in page
    assert "http" not in page
    assert page.count("<section") == page.count("</section>") == 1
    rules = re.findall(r"([^{}]+)\{", re.search("<style>(.*?)</style>", page, re.DOTALL)[1])
    assert all(".dperm" in rule or "@media" in rule for rule in rules)
    for tag in ("div", "table", "tr", "td", "th", "svg", "figure", "p", "h2", "h3"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert "nan" not in re.sub("<style>.*?</style>", "", page, flags=re.DOTALL)


def test_the_section_shows_what_there_is():
    assert "ROC curve" in evaluation_html(MADE["binary"])
    assert "&lt;script&gt;" in evaluation_html(MADE["binary"])
    assert "ROC curve" not in evaluation_html(MADE["classes"])
    assert "Confusion matrix" in evaluation_html(MADE["classes"])
    assert "R²" in evaluation_html(MADE["regression"])
    assert "too noisy to say" in evaluation_html(MADE["noisy"])
    for name in ("local", "seeded"):
        assert "NOT PRIVATE" in evaluation_html(MADE[name])
    assert "NOT PRIVATE" not in evaluation_html(MADE["binary"])


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_text_fits_a_terminal(name):
    assert max(map(len, str(MADE[name]).splitlines())) <= 100
    assert str(MADE[name]).isprintable() or "\n" in str(MADE[name])


@pytest.mark.parametrize("name", ["binary", "classes", "regression", "noisy"])
def test_figures_are_drawn(name):
    axes = MADE[name].plot()
    assert axes.get_xlabel()
    assert MADE[name].plot(axes) is axes
