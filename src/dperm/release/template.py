"""A ``deployment.toml`` to fill in: every question, no answer."""

import textwrap

from dperm.release.questions import OF_A_PERSON, PEOPLE, QUESTIONS, TABLES, Kind

_HEAD = """What people know about this release and no file does. Fill in what you can say and leave the rest empty: the
page of `dperm report model.json --html page.html --deployment FILE` shows what was left out, and
`--registry` says what it cannot do without (marked with *). Nothing here may be read off the rows."""


def template() -> str:
    """The text of a file that :meth:`dperm.release.Deployment.from_toml` reads as one without answers."""
    parts = [_comment(_HEAD)]
    for table, about in TABLES.items():
        parts.append(f"\n[{table}]\n{_comment(about)}")
        for question in (question for question in QUESTIONS if question.table == table):
            asks = question.asks + (" *" if question.registered else "")
            if question.choices:
                asks += f" One of: {', '.join(question.choices)}."
            empty = "[]" if question.kind is Kind.LIST else '""'
            parts.append(f"\n{_comment(asks)}{question.key} = {empty}\n")
        if table == "curator":
            parts += [
                f"\n{_comment(asks + ' One such block for each person.')}[[{name}]]\n"
                + "".join(f'{key} = ""\n' for key in OF_A_PERSON)
                for name, asks in PEOPLE.items()
            ]
    return "".join(parts)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(" ".join(text.split()), 98))
