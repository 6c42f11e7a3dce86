"""An entry of the OpenDP Deployments Registry about a release: its form, what the model knows, and what people said."""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any

from dperm.errors import InvalidInput
from dperm.release.deployment import SECTORS
from dperm.release.group import at_most, groups
from dperm.release.release import Release
from dperm.release.words import (
    POST_PROCESSING,
    composition,
    mechanism_words,
    model_words,
    preprocessing,
    trust,
    unit_words,
    unprotected,
)

ENTRY = tomllib.loads((files("dperm.release") / "registry.toml").read_text(encoding="utf-8"))
"""The form of an entry: a table of keys and what their values must be. A star marks a key that is required."""

ENTRY["deployment*"]["basic*"]["data_product_sector"] += SECTORS


def _is_date(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and datetime.date.fromisoformat(value).isoformat() == value
    return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HOLDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "a date, YYYY-MM-DD, as text": _is_date,
    "a number": _is_number,
    "a number or text": lambda value: isinstance(value, str) or _is_number(value),
    "a list of at least one text": lambda value: (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, str) for item in value)
    ),
    "1, 2 or 3": lambda value: _is_number(value) and value in (1, 2, 3),
}


def faults(value: object, form: Any = ENTRY, where: str = "") -> list[str]:
    """What an entry has that the registry would refuse; an empty list if nothing."""
    if isinstance(form, list):
        wanted = f"one of {', '.join(form)}" if isinstance(value, str) else "text"
        return [] if value in form else [f"{where} must be {wanted}"]
    if isinstance(form, str):
        return [] if _HOLDS[form](value) else [f"{where} must be {form}"]
    name = where or "the entry"
    if not isinstance(value, Mapping):
        return [f"{name} must be a table"]
    required = [key.rstrip("*") for key in form if key.endswith("*")]
    known = {key.rstrip("*"): inner for key, inner in form.items()}
    found = [f"{name} has no {key}" for key in required if key not in value]
    for key, inner in value.items():
        path = f"{where}.{key}" if where else str(key)
        found += faults(inner, known[key], path) if key in known else [f"{path} is not a key of the registry"]
    return found


_FOR_TIER = {
    3: (
        "product.releases",
        "dataset.source",
        "privacy.justification",
        "privacy.preprocessing",
        "privacy.security",
    ),
    2: ("product.releases", "dataset.source"),
}
_RELEASES = {"one": "One release", "many": "Many releases"}


def registry_entry(release: Release) -> str:
    """YAML that the registry takes as a draft.

    Raises
    ------
    InvalidInput
        If the guarantee does not hold, or an answer is missing that no entry can be without; the message lists all.
    """
    if not release.holds:
        raise InvalidInput(
            f"{release.name} has no guarantee that holds, so there is nothing to register: "
            f"{release.verdict.objections[0]}"
        )
    missing = release.deployment.missing_for_registry
    if missing:
        raise InvalidInput(
            f"the registry needs answers that the deployment file does not give: {', '.join(missing)}. Fill them in; "
            "dperm report --init-deployment writes the questions."
        )
    entry = _entry(release)
    wrong = faults(entry)
    if wrong:
        raise InvalidInput(f"the registry would refuse this entry: {'; '.join(wrong[:5])}.")
    return written_yaml(entry)


def _entry(release: Release) -> dict[str, Any]:
    told = release.deployment
    curators = list(told.items("curator.organisations"))
    date = told.text("product.publication_date")
    return {
        "url_slug": slug(told.text("product.name"), curators, date),
        "status": "Draft",
        "tier": next((tier for tier, keys in _FOR_TIER.items() if all(map(told.text, keys))), 1),
        "deployment": {
            "basic": _stated(
                {
                    "name": told.text("product.name"),
                    "data_curators": curators,
                    "intended_use": told.text("product.purpose"),
                    "data_product_type": "Machine learning model",
                    "data_product_region": told.text("dataset.region"),
                    "description": told.text("product.description"),
                    "publication_date": date,
                    "data_product_sector": told.text("dataset.sector"),
                }
            ),
            **_privacy(release),
            **_setting(release),
            "administrative": _stated(
                {
                    "sources": _bulleted(told.items("registry.sources")),
                    "notes": told.text("registry.notes"),
                    "registry_authors": list(told.items("registry.authors")),
                }
            ),
        },
    }


def slug(name: str, curators: list[str], date: str) -> str:
    """As the registry makes it from name, curators and year."""
    parts = (name, "-".join(curators), date.split("-")[0])
    return "-".join(re.sub(r"\W+", "_", part.lower()) for part in parts).replace("_", "-")


def _privacy(release: Release) -> dict[str, Any]:
    guarantee = release.verdict.guarantee
    assert guarantee is not None
    of_groups = ", ".join(
        f"{group.size} {release.unit}s: {at_most(group.epsilon)}" for group in groups(release)[1:]
    )
    several = "a person with several rows" if release.unit == "row" else "several persons together"
    return {
        "dp_variant": {
            "variant_name": "Approximate DP" if guarantee["delta"] else "Pure DP",
            "data_domain": _domain(release),
            "unprotected_quantities": _bulleted(unprotected(release)),
        },
        "privacy_loss": {
            "privacy_unit": _unit(release),
            "privacy_unit_details": f"Adjacent tables differ in {unit_words(release)}.",
            "privacy_parameters": {name: float(guarantee[name]) for name in ("epsilon", "delta")},
            "privacy_parameters_details": f"For {several}, epsilon at the same delta: {of_groups}. "
            f"The price was {release.verdict.how}.",
        },
    }


def _unit(release: Release) -> str:
    if release.unit == "person":
        return "One person, with all their rows"
    most = release.deployment.most_rows_per_person
    person = {None: "", 1: "; a person has one row"}.get(most, f"; a person has at most {most} rows")
    return f"One row{person}"


def _domain(release: Release) -> str:
    problem = release.problem
    units = "rows" if release.unit == "row" else "persons, each with rows"
    rows = (
        f"Tables of at most {problem['n_units']:,} {units}"
        if release.hides_count
        else f"Tables of {problem['n_units']:,} {units}"
    )
    if release.schema is None:
        return f"{rows} of {problem['n_features']:,} numbers; longer rows are scaled down to a public bound."
    columns = [
        f"{item.name}: {item.in_words()}" for item in (release.schema.target, *release.schema.features)
    ]
    return f"{rows} with these columns, any values in them:\n{_bulleted(columns)}"


def _setting(release: Release) -> dict[str, Any]:
    told = release.deployment
    trusted = dict(trust(release))
    access = told.text("product.access")
    return {
        "deployment_model": _stated(
            {
                "model_name": "Central",
                "model_name_details": trusted["Who holds the rows"],
                "actors": told.text("privacy.actors"),
                "release_type": _RELEASES.get(told.text("product.releases"), ""),
                "release_type_details": told.text("product.future"),
                "data_source_type": told.text("dataset.source").capitalize(),
                "data_source_type_details": told.text("dataset.collection"),
                "access_type": "Non-interactive",
                "access_type_details": f"Access to the model: {access}." if access else "",
            }
        ),
        "accounting": {"post_processing": POST_PROCESSING, "composition": composition(release)},
        "implementation": _stated(
            {
                "preprocessing_and_hyperparameter_tuning": _bulleted(
                    [*preprocessing(release), *filter(None, [told.text("privacy.preprocessing")])]
                ),
                "mechanisms": _bulleted(
                    [
                        f"The model is {model_words(release)}, made by {mechanism_words(release)}.",
                        *(
                            f"{name}: {trusted[name]}"
                            for name in ("Randomness", "Floating point", "Timing", "The machine")
                        ),
                        *filter(None, [told.text("privacy.security")]),
                        f"Certificate {release.statement['digest']}.",
                    ]
                ),
                "justification": told.text("privacy.justification"),
            }
        ),
    }


def _stated(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody said."""
    return {key: value for key, value in table.items() if value}


def _bulleted(lines: Any) -> str:
    return "\n".join(f"- {' '.join(str(line).split())}" for line in lines)


_PLAIN = re.compile(r"[^\W\d_][\w()/.-]*(?: [\w()/.-]+)*")
_NOT_TEXT = re.compile(r"true|false|yes|no|on|off|null|y|n|nan|inf", re.IGNORECASE)
_INDENT = "  "


def written_yaml(value: Mapping[str, Any]) -> str:
    """Text that a reader of YAML 1.1 or 1.2 reads back to the same values.

    Texts must hold no control characters but line breaks and tabs; several lines become a block, which keeps them.
    """
    return "".join(_table(value, 0))


def _table(table: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in table.items():
        start = f"{_INDENT * depth}{key}:"
        if isinstance(value, Mapping):
            lines += [f"{start}\n", *_table(value, depth + 1)]
        elif isinstance(value, list | tuple):
            lines += [f"{start}\n", *(f"{_INDENT * (depth + 1)}- {_scalar(item)}\n" for item in value)]
        else:
            lines.append(f"{start} {_block(value, depth) or _scalar(value)}\n")
    return lines


def _block(value: object, depth: int) -> str:
    """A text of several lines, unless its blanks need quotation marks."""
    if not isinstance(value, str) or "\n" not in value:
        return ""
    lines = value.split("\n")
    if any(line != line.strip() or "\t" in line for line in lines) or not (lines[0] and lines[-1]):
        return ""
    inner = _INDENT * (depth + 1)
    return "|-\n" + "\n".join(f"{inner}{line}" if line else "" for line in lines)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value)
        return value if plain else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    raise TypeError(f"a {type(value).__name__} is none of the values that are written here")
