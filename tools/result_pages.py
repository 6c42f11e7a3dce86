"""Write the tables of the documentation from the data of docs/data, between the markers of the pages.

``python tools/result_pages.py`` says which pages are not what the data say, ``--write`` writes them. A page marks a
table with ``<!-- table FILE NAME -->`` and the line on its run with ``<!-- data FILE -->``, each up to ``<!-- / -->``.
"""

import re
import sys
from pathlib import Path

import result_data

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^<!-- (table|data) (\S+)(?: (\S+))? -->\n(.*?)^<!-- / -->\n", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


def written(text: str, folder: Path = result_data.DATA) -> str:
    """The page as the data have it."""

    def fill(found: re.Match[str]) -> str:
        kind, file, name = found[1], found[2], found[3]
        tables, run = result_data.read(file, folder)
        if kind == "table" and name not in tables:
            raise SystemExit(f"docs/data/{file}.parquet has no table {name!r}; it has {', '.join(tables)}.")
        body = tables[name].as_markdown() if kind == "table" else run.in_words(file) + "\n"
        first = found[0].partition("\n")[0]
        return f"{first}\n\n{body}\n<!-- / -->\n"  # blank lines: Markdown ends a table there

    return BLOCK.sub(fill, text)


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--write"]):
        raise SystemExit("usage: python tools/result_pages.py [--write]")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found = written(text)
        if found != text:
            print(f"docs/{page.name}: {'written' if arguments else 'is not what the data say'}")
            if arguments:
                page.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
