"""What an item found, as a part of its HTML page: verdicts, what was skipped and why, tables, what differs."""

from base64 import b64encode
from html import escape

from dperm_papers.reproduce.item import Item, Report, Section


def verdicts(report: Report) -> str:
    """What holds, what does not, and what was skipped and why; every text is escaped."""
    checks = [("yes" if check.holds else "no", check.verdict, check.claim) for check in report.checks]
    skipped = [("skipped", "skipped", reason) for reason in report.skipped]
    lines = [
        f'<li><span class="verdict {kind}">{verdict}</span> <span>{escape(text)}</span></li>'
        for kind, verdict, text in (*checks, *skipped)
    ]
    return _card("Verdicts", f"<ul class=verdicts>{''.join(lines)}</ul>") if lines else ""


def tables(item: Item, report: Report) -> str:
    """The tables of the item, and what differs from the paper."""
    ours = _card("Tables", "".join(map(_table, report.sections)))
    differs = "".join(f"<li>{escape(line)}</li>" for line in item.differs)
    return ours + _card("What differs from the paper", f"<ul>{differs}</ul>" if differs else "")


def pictures(report: Report) -> str:
    """The figures of an item that has no curves to draw, inside of the page."""
    if any(len(table) for table in report.results):
        return ""
    shown = [
        f'<img class=picture alt="{escape(file.stem)}" src="data:image/png;base64,'
        f'{b64encode(file.read_bytes()).decode()}">'
        for file in report.files
        if file.suffix == ".png"
    ]
    return _card("Figure", "".join(shown))


def _table(section: Section) -> str:
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in section.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(text, place) for place, text in enumerate(row)) + "</tr>"
        for row in section.rows
    )
    return (
        f"<h3>{escape(section.title)}</h3><div class=scroll tabindex=0><table class=plain>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(text: str, place: int) -> str:
    return f"<th scope=row>{escape(text)}</th>" if place == 0 else f"<td>{escape(text)}</td>"


def _card(title: str, content: str) -> str:
    """A card of the page, none where it would be empty."""
    return f"<section class=card><h2>{escape(title)}</h2>{content}</section>\n" if content else ""
