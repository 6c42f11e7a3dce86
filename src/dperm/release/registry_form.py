"""The form of an entry of the OpenDP Deployments Registry, in our own words (docs/report.md says as of when)."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm.release.questions import SECTORS


@dataclass(frozen=True)
class Text:
    """Any text, or one of a few."""

    choices: tuple[str, ...] = ()

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str):
            return "must be text"
        return (
            f"must be one of {', '.join(self.choices)}"
            if self.choices and value not in self.choices
            else None
        )


@dataclass(frozen=True)
class Date:
    def fault(self, value: object) -> str | None:
        try:
            good = isinstance(value, str) and datetime.date.fromisoformat(value).isoformat() == value
        except ValueError:
            good = False
        return None if good else "must be a date, YYYY-MM-DD, as text"


@dataclass(frozen=True)
class Number:
    texts: bool = False

    def fault(self, value: object) -> str | None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number or (self.texts and isinstance(value, str)) else "must be a number"


@dataclass(frozen=True)
class Texts:
    def fault(self, value: object) -> str | None:
        good = (
            isinstance(value, list | tuple)
            and len(value) > 0
            and all(isinstance(item, str) for item in value)
        )
        return None if good else "must be a list of at least one text"


@dataclass(frozen=True)
class Tier:
    def fault(self, value: object) -> str | None:
        return None if value in (1, 2, 3) and not isinstance(value, bool) else "must be 1, 2 or 3"


@dataclass(frozen=True)
class Table:
    """Keys and their values; no others."""

    keys: Mapping[str, Any]
    required: tuple[str, ...] = field(default=())


ENTRY = Table(
    {
        "url_slug": Text(),
        "status": Text(
            (
                "Converted",
                "Draft",
                "Pending",
                "Changes Required",
                "Approved",
                "Approved (Update Requested)",
                "Approved (Pending)",
            )
        ),
        "tier": Tier(),
        "deployment": Table(
            {
                "basic": Table(
                    {
                        "name": Text(),
                        "data_curators": Texts(),
                        "intended_use": Text(),
                        "data_product_type": Text(
                            (
                                "Summary statistics",
                                "Machine learning model",
                                "Dataset",
                                "Synthetic data",
                                "Interactive API",
                                "SQL queries",
                            )
                        ),
                        "data_product_region": Text(),
                        "description": Text(),
                        "publication_date": Date(),
                        "data_product_sector": Text(SECTORS),
                    },
                    required=(
                        "name",
                        "data_curators",
                        "description",
                        "intended_use",
                        "data_product_type",
                        "data_product_region",
                        "publication_date",
                    ),
                ),
                "dp_variant": Table(
                    {
                        "variant_name": Text(
                            ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")
                        ),
                        "data_domain": Text(),
                        "unprotected_quantities": Text(),
                    }
                ),
                "privacy_loss": Table(
                    {
                        "privacy_unit": Text(),
                        "privacy_unit_details": Text(),
                        "privacy_parameters": Table(
                            {"epsilon": Number(), "delta": Number(texts=True), "rho": Number()}
                        ),
                        "privacy_parameters_details": Text(),
                    }
                ),
                "deployment_model": Table(
                    {
                        "model_name": Text(("Local", "Central", "Shuffle", "Federated", "Varies")),
                        "model_name_details": Text(),
                        "actors": Text(),
                        "release_type": Text(("One release", "Many releases")),
                        "release_type_details": Text(),
                        "data_source_type": Text(("Static", "Dynamic")),
                        "data_source_type_details": Text(),
                        "access_type": Text(("Interactive", "Non-interactive")),
                        "access_type_details": Text(),
                    }
                ),
                "accounting": Table({"post_processing": Text(), "composition": Text()}),
                "implementation": Table(
                    {
                        "preprocessing_and_hyperparameter_tuning": Text(),
                        "mechanisms": Text(),
                        "justification": Text(),
                    }
                ),
                "administrative": Table(
                    {"sources": Text(), "notes": Text(), "registry_authors": Texts()},
                    required=("registry_authors",),
                ),
            },
            required=("basic",),
        ),
    },
    required=("url_slug", "status", "tier", "deployment"),
)


def faults(value: object, form: Any = ENTRY, where: str = "") -> list[str]:
    """What an entry has that the registry would refuse; an empty list if nothing."""
    if not isinstance(form, Table):
        fault = form.fault(value)
        return [f"{where} {fault}"] if fault else []
    name = where or "the entry"
    if not isinstance(value, Mapping):
        return [f"{name} must be a table"]
    found = [f"{name} has no {key}" for key in form.required if key not in value]
    for key, inner in value.items():
        path = f"{where}.{key}" if where else str(key)
        found += (
            faults(inner, form.keys[key], path)
            if key in form.keys
            else [f"{path} is not a key of the registry"]
        )
    return found
