"""The registry's YAML: written so that PyYAML reads the same back, complete, and refused where the registry would."""

import copy
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_models import ANSWERS, MODELS, PERSONS, PRIVATE, model_file

from dperm.errors import InvalidInput
from dperm.release import Deployment, read_release, registry_entry
from dperm.release.deployment import readable
from dperm.release.registry import ENTRY, faults, slug, written_yaml

yaml = pytest.importorskip("yaml", reason="PyYAML is the oracle of our writer")

TOLD = Deployment.from_dict(ANSWERS)


def release_of(name, answers=ANSWERS):
    return dataclasses.replace(
        read_release(model_file(name)), deployment=Deployment.from_dict(answers), deployed=True
    )


def without(*keys):
    answers = copy.deepcopy(ANSWERS)
    for name in keys:
        table, key = name.split(".")
        del answers[table][key]
    return answers


@pytest.mark.together
@pytest.mark.parametrize("name", PRIVATE)
def test_an_entry_for_every_kind_of_model(name):
    entry = yaml.safe_load(registry_entry(release_of(name)))
    assert faults(entry) == []
    guarantee = release_of(name).verdict.guarantee
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == dict(guarantee)
    assert entry["deployment"]["dp_variant"]["variant_name"] == (
        "Pure DP" if name == "pure" else "Approximate DP"
    )
    assert entry["tier"] == 3
    assert entry["status"] == "Draft"
    assert entry["url_slug"] == "who-owns-city-of-example-2026"
    assert loss["privacy_unit"] == (
        "One person, with all their rows" if name in PERSONS else "One row; a person has at most 3 rows"
    )


def test_all_that_a_model_knows_is_in_it():
    """Every key of the form but rho, which is of another variant."""
    entry = yaml.safe_load(registry_entry(release_of("logistic")))

    def missing(form, value, where=""):
        for key, inner in ((key.rstrip("*"), inner) for key, inner in form.items()):
            if key not in value:
                yield f"{where}{key}"
            elif isinstance(inner, dict):
                yield from missing(inner, value[key], f"{where}{key}.")

    assert list(missing(ENTRY, entry)) == ["deployment.privacy_loss.privacy_parameters.rho"]
    deployment = entry["deployment"]
    assert "age" in deployment["dp_variant"]["data_domain"]
    assert "The number of rows, 400" in deployment["dp_variant"]["unprotected_quantities"]
    assert deployment["administrative"]["sources"] == "- https://city.example/homes"


def test_all_missing_answers_are_named_at_once():
    answers = without("product.name", "dataset.region", "registry.authors")
    with pytest.raises(
        InvalidInput, match=r"product\.name, dataset\.region, registry\.authors\. Fill them in"
    ):
        registry_entry(release_of("logistic", answers))


@pytest.mark.together
@pytest.mark.parametrize(
    ("left_out", "tier"),
    [
        ((), 3),
        (("privacy.justification",), 2),
        (("privacy.security",), 2),
        (("product.releases",), 1),
        (("dataset.source", "privacy.justification"), 1),
    ],
)
def test_the_tier_follows_what_was_said(left_out, tier):
    entry = yaml.safe_load(registry_entry(release_of("logistic", without(*left_out))))
    assert entry["tier"] == tier
    assert faults(entry) == []


@pytest.mark.parametrize("name", [name for name in MODELS if name not in PRIVATE])
def test_what_does_not_hold_is_not_registered(name):
    with pytest.raises(InvalidInput, match="nothing to register"):
        registry_entry(release_of(name))


WRONG = {
    "status": (("status", "Done"), "status must be one of"),
    "tier": (("tier", 0), "tier must be 1, 2 or 3"),
    "truth": (("tier", True), "tier must be 1, 2 or 3"),
    "surprise": (("surprise", 1), "surprise is not a key"),
    "date": (("deployment.basic.publication_date", "1/1/2026"), "must be a date"),
    "number": (("deployment.privacy_loss.privacy_parameters.epsilon", "1"), "must be a number"),
    "list": (("deployment.basic.data_curators", []), "at least one text"),
    "table": (("deployment.accounting", "none"), "must be a table"),
    "text": (("deployment.basic.name", 3), "must be text"),
    "kind": (("deployment.basic.data_product_type", "Model"), "must be one of"),
}


@pytest.mark.together
@pytest.mark.parametrize("case", WRONG)
def test_what_the_registry_would_refuse_is_found(case):
    (path, value), said = WRONG[case]
    entry = yaml.safe_load(registry_entry(release_of("logistic")))
    *parents, key = path.split(".")
    inner = entry
    for parent in parents:
        inner = inner[parent]
    inner[key] = value
    (fault,) = faults(entry)
    assert said in fault
    assert fault.startswith(path)


def test_what_is_missing_is_found():
    assert faults({}) == [f"the entry has no {key}" for key in ("url_slug", "status", "tier", "deployment")]
    assert faults([]) == ["the entry must be a table"]


def test_the_slug_is_the_registrys():
    assert slug("Safety Classifier", ["Google"], "2024-01-01") == "safety-classifier-google-2024"
    assert slug("A (b)", ["U.S. Census Bureau", "X"], "2020-02-01") == "a-b--u-s-census-bureau-x-2020"


TEXTS = st.text().map(lambda text: "".join(letter for letter in text if readable(letter) or letter in "\n\t"))
AWKWARD = st.sampled_from(
    ["", " ", "no", "Yes", "null", "~", "1e-06", "0x1", "2026-01-01", "a: b", "a #b", "- a", "|", "a\n", "\n a",
     "a\n\nb", " a\nb", "a\tb\nc", "'", '"', "\\n", "é", "=", "<<", "1_000", "a:", "%a", "@a", "a\n b", "...", "---"]
)  # fmt: skip


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{3,9}", fullmatch=True).filter(
            lambda key: key not in ("yes", "off", "null", "true", "false")
        ),
        st.one_of(
            TEXTS,
            AWKWARD,
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(),
            st.lists(st.one_of(TEXTS, AWKWARD), min_size=1, max_size=3),
            st.dictionaries(st.just("inner"), st.one_of(TEXTS, AWKWARD), min_size=1),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_pyyaml_reads_what_was_written(table):
    assert yaml.safe_load(written_yaml(table)) == table


def test_only_styles_that_the_registry_allows():
    text = registry_entry(release_of("logistic"))
    styles = {token.style for token in yaml.scan(text) if hasattr(token, "style")}
    assert styles <= {None, "|", '"', "'"}
    assert text.startswith("url_slug: who-owns-")


@pytest.mark.together
@pytest.mark.parametrize("value", [True, None, float("nan"), float("inf"), b"a"])
def test_other_values_are_refused(value):
    with pytest.raises(TypeError):
        written_yaml({"a": value})
