"""Mean predictions as files, pages and text: whole, checked against what was released, escaped."""

import json
import re

import numpy as np
import pytest

import dperm
from dperm import Budget, MeanPredictions, PrivateLinearRegression, PrivateLogisticRegression
from dperm.errors import InvalidInput
from dperm.strict_json import digest

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (4000, 2))
SCORE = X[:, 0] + 0.2 * RNG.normal(size=4000)
EASY = {"epsilon": 3.0, "delta": 1e-5, "random_state": 0}
NASTY = "<script>alert(1)</script>"
WARD = RNG.choice(["A", NASTY], 4000)
MODEL = PrivateLogisticRegression(classes=["no", NASTY], **EASY).fit(X, np.where(SCORE > 0, NASTY, "no"))
REGRESSION = PrivateLinearRegression(y_range=(-1, 1), **EASY).fit(X, SCORE)


BUDGET = Budget(1.0, 1e-6)


def averaged(model=MODEL, budget=BUDGET, **options):
    return dperm.mean_predictions(model, X, budget, **{"by": WARD, "values": ["A", NASTY], **options})


MADE = {
    "groups": averaged(),
    "all": dperm.mean_predictions(MODEL, X, BUDGET),
    "other": averaged(values=["A"], other="elsewhere"),
    "hidden": averaged(neighbours="add-remove", max_rows=9000),
    "seeded": averaged(random_state=0),
    "noisy": averaged(budget=Budget(0.005, 1e-6), random_state=0),
    "numbers": averaged(by=(WARD == "A") + 1, values=[1, 2]),
    "regression": averaged(REGRESSION, bounds=(-0.5, 0.5)),
}


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_what_is_saved_is_read(tmp_path, name):
    path = tmp_path / "means.json"
    MADE[name].save(path)
    again = dperm.read_mean_predictions(path)
    assert isinstance(again, MeanPredictions)
    assert again.to_dict() == MADE[name].to_dict() == json.loads(path.read_text())
    assert str(again) == str(MADE[name])
    assert again.private == MADE[name].private
    assert list(again.groups) == list(MADE[name].groups)


def changed(name, **changes):
    document = {**MADE[name].to_dict(), **changes}
    del document["digest"]
    return {**document, "digest": digest(document)}


def with_figure(name, key, **figure):
    overall = MADE[name].to_dict()["overall"]
    return changed(name, overall={**overall, key: {**overall[key], **figure}})


def with_release(name, **changes):
    return changed(name, release={**MADE[name].to_dict()["release"], **changes})


FORGED = {
    "seeded as private": changed("seeded", private=True),
    "a figure outside its interval": with_figure("groups", "mean", estimate=2.0),
    "a narrower interval": with_figure("groups", "mean", low=MADE["groups"].overall.mean.estimate),
    "another number of rows": with_figure("hidden", "rows", estimate=3999.0, low=3900.0, high=4100.0),
    "a mean of noise": changed("noisy", groups=MADE["groups"].to_dict()["groups"]),
    "less noise": with_release("groups", noise_scale=MADE["groups"].release["noise_scale"] / 2),
    "no noise": with_release("groups", noise_scale=0.0),
    "other numbers": with_release("groups", numbers=[0.0] * 6),
    "fewer numbers": with_release("groups", numbers=[0.0] * 3),
    "values twice": changed("groups", values=["A", "A"]),
    "a value more": changed("groups", values=["A", "B", "C"]),
    "a group less": changed("groups", groups=MADE["groups"].to_dict()["groups"][:1]),
    "other among values": changed("other", other="A"),
    "range": changed("groups", range=[1.0, 0.0]),
    "level": changed("groups", level=0.5),
    "relation": changed("groups", relation="friends"),
    "rows of a private number": changed("hidden", rows=4000),
    "no rows": changed("groups", rows=None),
    "version": changed("groups", version=2),
    "format": changed("groups", format="dperm evaluation"),
    "budget": changed("groups", budget=None),
    "release": changed("groups", release=None),
    "notes": changed("groups", notes=[1]),
    "digest": {**MADE["groups"].to_dict(), "by": "station"},
    "missing key": {key: value for key, value in MADE["groups"].to_dict().items() if key != "by"},
}


@pytest.mark.together
@pytest.mark.parametrize("forgery", FORGED)
def test_what_does_not_add_up_is_refused(tmp_path, forgery):
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(FORGED[forgery]))
    with pytest.raises(InvalidInput, match=r"forged\.json is not a usable file of mean predictions"):
        dperm.read_mean_predictions(path)


@pytest.mark.together
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": NaN}', b"\xff"])
def test_no_json_holds_none(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        dperm.read_mean_predictions(path)


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_the_section_is_one_quiet_fragment(name):
    page = MADE[name]._repr_html_()
    assert "<script" not in page
    assert "http" not in page
    assert page.count("<section") == page.count("</section>") == 1
    for tag in ("div", "table", "tr", "td", "th", "svg", "p", "h2"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert "nan" not in re.sub("<style>.*?</style>", "", page, flags=re.DOTALL)
    assert ("NOT PRIVATE" in page) is (name in ("seeded", "noisy"))


def test_the_section_shows_what_there_is():
    assert "&lt;script&gt;" in MADE["groups"]._repr_html_()
    assert "<svg" in MADE["groups"]._repr_html_()
    assert "<svg" not in MADE["regression"]._repr_html_()  # a bar goes from 0 to 1
    assert "too noisy to say" in MADE["noisy"]._repr_html_()
    assert "Mean prediction" in MADE["regression"]._repr_html_()


@pytest.mark.together
@pytest.mark.parametrize("name", MADE)
def test_text_fits_a_terminal_and_says_what_its_intervals_know(name):
    text = str(MADE[name])
    assert max(map(len, text.splitlines())) <= 100
    assert "95 % interval" in text
    assert "of these rows" in text
    assert "How sure the model's own numbers are" in text
