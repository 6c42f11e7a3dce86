"""What a release needs to say that no model file knows: the questions of ``deployment.toml``, asked once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What an answer is made of."""

    TEXT = "text"
    LIST = "a list of texts"
    DATE = "a date, as in 2026-05-31"
    COUNT = "a whole number from 1 on"


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
ACCESS = ("public", "restricted", "internal")
RELEASES = ("one", "many")
SOURCES = ("static", "dynamic")


@dataclass(frozen=True)
class Question:
    """One key of a table; ``choices`` are the only answers to it where there are any."""

    table: str
    key: str
    asks: str
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    registered: bool = False

    @property
    def name(self) -> str:
        return f"{self.table}.{self.key}"


TABLES = {
    "product": "The model that is released.",
    "dataset": "The table that it was trained on, and the people in it.",
    "curator": "Who answers for both.",
    "privacy": "Why this guarantee is enough, and what could undermine it.",
    "registry": "For `dperm report --registry` only.",
}

QUESTIONS = (
    Question("product", "name", "What the model is called.", registered=True),
    Question("product", "description", "What it predicts, in a sentence.", registered=True),
    Question("product", "version", "Of the model, if it has one."),
    Question("product", "purpose", "What it is meant to be used for.", registered=True),
    Question("product", "audience", "Who will see it or its predictions."),
    Question("product", "access", "Who may have the model file.", choices=ACCESS),
    Question(
        "product", "releases", "Published once, or again and again from these people.", choices=RELEASES
    ),
    Question(
        "product", "future", "Plans for further releases about the same people, and how they are paid for."
    ),
    Question(
        "product", "publication_date", "When it is published, YYYY-MM-DD.", kind=Kind.DATE, registered=True
    ),
    Question("dataset", "name", "What the table is called."),
    Question("dataset", "description", "What a row is, and which people are in the table."),
    Question("dataset", "region", "Where the people are, or whose law applies.", registered=True),
    Question("dataset", "sector", "The domain.", choices=SECTORS),
    Question("dataset", "source", "Is the table finished, or do rows keep coming?", choices=SOURCES),
    Question(
        "dataset",
        "most_rows_per_person",
        "Most rows that one person can have; known from how the table is made, not counted.",
        kind=Kind.COUNT,
    ),
    Question("dataset", "collection", "How the data were collected, and what the people were told."),
    Question("curator", "organisations", "Who publishes the model.", kind=Kind.LIST, registered=True),
    Question("curator", "contact", "Where questions and complaints go."),
    Question("privacy", "justification", "Why this epsilon and delta were chosen, and by whom."),
    Question(
        "privacy",
        "preprocessing",
        "What was done with the rows before the fit, and how settings were chosen; was any of it paid for?",
    ),
    Question("privacy", "actors", "Who sees what, and whom the people in the table have to trust."),
    Question("privacy", "security", "How the rows are kept, and who can get at them."),
    Question("privacy", "other_releases", "What else was published from the same people."),
    Question("registry", "authors", "Who wrote the entry.", kind=Kind.LIST, registered=True),
    Question("registry", "sources", "Papers, pages or reports about the release.", kind=Kind.LIST),
    Question("registry", "notes", "Anything else."),
)

PEOPLE = {"made_by": "Who made the model.", "approved_by": "Who decides about its release."}
"""Lists of tables, one for each person."""

OF_A_PERSON = ("name", "role", "contact")
