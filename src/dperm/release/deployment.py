"""``deployment.toml``: the questions that no model file answers, their template, and the answers, parsed strictly."""

from __future__ import annotations

import datetime
import os
import reprlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from dperm.errors import InvalidInput
from dperm.render.text import readable
from dperm.schema import toml


def template() -> str:
    """The text of a file that :meth:`dperm.release.Deployment.from_toml` reads as one without answers."""
    return (files("dperm.release") / "deployment.toml").read_text(encoding="utf-8")


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
TEXT, LIST, DATE, COUNT = "text", "list", "date", "count"
_ANSWERED_BY: dict[str, str | tuple[str, ...]] = {
    "product.access": ("public", "restricted", "internal"),
    "product.releases": ("one", "many"),
    "product.publication_date": DATE,
    "dataset.sector": SECTORS,
    "dataset.source": ("static", "dynamic"),
    "dataset.most_rows_per_person": COUNT,
}
REGISTERED = (
    "product.name",
    "product.description",
    "product.purpose",
    "product.publication_date",
    "dataset.region",
    "curator.organisations",
    "registry.authors",
)
"""The questions without an answer to which there is no entry of a registry."""

_FORM = tomllib.loads(template())
PEOPLE = tuple(name for name, value in _FORM.items() if isinstance(value, list))
"""Lists of tables, one for each person."""

TABLES = tuple(name for name in _FORM if name not in PEOPLE)
OF_A_PERSON = tuple(_FORM[PEOPLE[0]][0])
QUESTIONS = {
    f"{table}.{key}": _ANSWERED_BY.get(f"{table}.{key}", LIST if empty == [] else TEXT)
    for table in TABLES
    for key, empty in _FORM[table].items()
}
"""What answers each of them: one of these choices, or a kind of value."""

LONGEST = 4000
MOST_ITEMS = 50
MOST_ROWS = 1000

Answer = str | int | datetime.date | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Person:
    """One who made or approves a release."""

    name: str
    role: str = ""
    contact: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.name, self.role, self.contact) if part)


@dataclass(frozen=True)
class Deployment:
    """The answers that were given, by the name of the question; an empty answer is none."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    made_by: tuple[Person, ...] = ()
    approved_by: tuple[Person, ...] = ()

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Deployment:
        """Read a file as :func:`dperm.release.template` writes it."""
        return cls.from_dict(toml.read(Path(path)), origin=Path(path).name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, origin: str = "deployment") -> Deployment:
        """From nested dictionaries; ``origin`` is the file to name in errors."""
        _check_keys(origin, data, (*TABLES, *PEOPLE), "table")
        answers: dict[str, Answer] = {}
        for table in TABLES:
            where = f"{origin}, [{table}]"
            given = data.get(table, {})
            _check_keys(where, given, _FORM[table], "key")
            for key, value in given.items():
                answer = _answer(f"{where}, {key}", value, QUESTIONS[f"{table}.{key}"])
                if answer is not None:
                    answers[f"{table}.{key}"] = answer
        return cls(answers, *(_people(origin, name, data.get(name, [])) for name in PEOPLE))

    def text(self, name: str) -> str:
        """The answer in words, or nothing."""
        answer = self.answers.get(name, "")
        return "; ".join(answer) if isinstance(answer, tuple) else str(answer)

    def items(self, name: str) -> tuple[str, ...]:
        answer = self.answers.get(name, ())
        return answer if isinstance(answer, tuple) else ()

    @property
    def most_rows_per_person(self) -> int | None:
        answer = self.answers.get("dataset.most_rows_per_person")
        return answer if isinstance(answer, int) else None

    @property
    def missing_for_registry(self) -> tuple[str, ...]:
        """The keys without which there is no entry of a registry."""
        return tuple(name for name in REGISTERED if name not in self.answers)


def _check_keys(where: str, given: object, known: Iterable[str], what: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where}: a table of keys was expected; got {reprlib.repr(given)}.")
    names = list(known)
    for key in given:
        if key not in names:
            close = get_close_matches(str(key)[:100].lower(), names, 1, cutoff=0.7)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}."
            raise InvalidInput(f"{where}: unknown {what} {reprlib.repr(key)}; {hint}")


def _answer(where: str, value: object, kind: str | tuple[str, ...]) -> Answer | None:
    """The answer of the right kind, or one of the choices; None for an empty one."""
    if value in ("", []):
        return None
    if kind == LIST:
        return _texts(where, value)
    if kind == DATE:
        return _date(where, value)
    if kind == COUNT:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROWS:
            raise InvalidInput(
                f"{where}: a whole number from 1 to {MOST_ROWS} was expected; got {reprlib.repr(value)}."
            )
        return value
    told = _text(where, value)
    if isinstance(kind, tuple) and told not in kind:
        same = get_close_matches(told.lower(), [choice.lower() for choice in kind], 1)
        hint = "".join(f" Did you mean {choice!r}?" for choice in kind if choice.lower() in same)
        raise InvalidInput(f"{where}: one of {', '.join(kind)} was expected; got {reprlib.repr(told)}.{hint}")
    return told or None


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: text in quotation marks was expected; got {reprlib.repr(value)}.")
    if len(value) > LONGEST:
        raise InvalidInput(f"{where}: at most {LONGEST} characters fit; there are {len(value)}.")
    strange = next((letter for letter in value if not (readable(letter) or letter in "\n\t")), None)
    if strange is not None:
        raise InvalidInput(
            f"{where}: the character U+{ord(strange):04X} cannot be seen or turns text around; leave it out."
        )
    return value.strip()


def _texts(where: str, value: object) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or len(values) > MOST_ITEMS:
        raise InvalidInput(f'{where}: a list of texts was expected, as in ["one", "two"].')
    return tuple(told for item in values if (told := _text(where, item))) or None


def _date(where: str, value: object) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        if isinstance(value, str) and len(value) == 10:
            return datetime.date.fromisoformat(value)
    except ValueError:
        pass
    raise InvalidInput(f"{where}: a date was expected, as in 2026-05-31; got {reprlib.repr(value)}.")


def _people(origin: str, name: str, value: object) -> tuple[Person, ...]:
    where = f"{origin}, [[{name}]]"
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise InvalidInput(f"{where}: a table for each person was expected, each under a line [[{name}]].")
    people = []
    for table in value:
        _check_keys(where, table, OF_A_PERSON, "key")
        told = {key: _text(f"{where}, {key}", table.get(key, "")) for key in OF_A_PERSON}
        if any(told.values()):
            if not told["name"]:
                raise InvalidInput(f"{where}: a person needs a name.")
            people.append(Person(**told))
    return tuple(people)
