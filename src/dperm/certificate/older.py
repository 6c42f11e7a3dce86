"""Certificates of older versions in the words of today, and the other way round.

Before version 5 plans allowed for sums in one chain. Before version 4 rows were centred, not standardised: a setting
``center``, and a part ``centring``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.arithmetic import FLOAT64, FLOAT64_UNTIL_4, Arithmetic
from dperm.errors import InvalidInput
from dperm.strict_json import check_object, is_finite_float

VERSIONS = (2, 3)
SAME_WORDS = (4,)  # it differs from the version of today by its allowances for rounding alone
WITHOUT_MAP = (2,)
_SETTING = ("center", "standardise")
_PART = ("centring", "standardisation")


def statement_today(stated: object) -> object:
    """An older statement with the names of today; anything else as it is. That rows were centred is left out."""
    if not isinstance(stated, dict) or stated.get("version") not in VERSIONS or _PART[0] not in stated:
        return stated
    if stated[_PART[0]] is not None:
        centring = check_object("certificate, centring", stated[_PART[0]], ("share", "radius", "mu"))
        if not all(map(is_finite_float, centring.values())):
            raise InvalidInput("certificate, centring: numbers were expected.")
    today = {name: value for name, value in stated.items() if name != _PART[0]}
    today[_PART[1]] = None
    if isinstance(stated.get("mechanism"), dict):
        mechanism = dict(stated["mechanism"])
        for place in ("asked", "chosen"):
            mechanism[place] = mechanism_today(mechanism.get(place))
        mechanism["used"] = _renamed(mechanism.get("used"), *_SETTING)
        today["mechanism"] = mechanism
    return today


def mechanism_today(described: object) -> Any:
    """A mechanism as an older file describes it, with the settings of today."""
    if not isinstance(described, dict) or "settings" not in described:
        return described
    return {**described, "settings": _renamed(described["settings"], *_SETTING)}


def mechanism_then(described: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of ``mechanism_today``, for a model that was read from an older file."""
    settings = {**described["settings"], _SETTING[1]: described["settings"][_SETTING[1]] is not False}
    return {**described, "settings": _renamed(settings, *reversed(_SETTING))}


def released_then(released: Mapping[str, Any]) -> dict[str, Any]:
    """Released numbers as an older file holds them: its map of rows tells less."""
    content = dict(released)
    if isinstance(content.get("row_map"), dict):
        content["row_map"] = {
            name: value for name, value in content["row_map"].items() if name not in ("linear", "released")
        }
    return content


def check_not_centred(stated: Mapping[str, Any]) -> str:
    """Refuse to judge a model whose rows were centred: the mechanism that did it is not there any more."""
    if stated["version"] in VERSIONS and stated[_PART[0]] is not None:
        raise InvalidInput(
            "rows were centred, which this version of dperm does not do: the file is neither right nor wrong by it. "
            "Verify it with the version that wrote it."
        )
    return "known to this version"


def arithmetic_then(version: int) -> Arithmetic:
    """What plans of that version allowed for."""
    return FLOAT64_UNTIL_4 if version in (*VERSIONS, *SAME_WORDS) else FLOAT64


def _renamed(settings: object, name: str, becomes: str) -> Any:
    if not isinstance(settings, dict) or name not in settings:
        return settings
    return {becomes if key == name else key: value for key, value in settings.items()}
