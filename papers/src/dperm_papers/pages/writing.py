"""Write the pages of a documentation folder: its data and figures from finished items, then what the data say."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path

from dperm.errors import InvalidInput
from dperm.models.atomic import atomic_path
from dperm_papers.pages.files import Results, holds_results, read
from dperm_papers.pages.markers import Source, filled, marked
from dperm_papers.pages.reports import FILE

# Figures small enough for a repository.

MOST_BYTES, COLOURS = 150_000, 64
MOST_WIDTH, LEAST_WIDTH = 1800, 200


def shrunk(path: Path) -> bytes:
    """A PNG of few colours, and narrower as long as it is too large."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width = min(picture.width, MOST_WIDTH)
    while True:
        height = round(picture.height * width / picture.width)
        small = picture.resize((width, height), Image.Resampling.LANCZOS)
        made = BytesIO()
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
        if made.tell() <= MOST_BYTES or width < LEAST_WIDTH:
            return made.getvalue()
        width = int(width * min(0.95, (MOST_BYTES / made.tell()) ** 0.5))


DATA, FIGURES = "data", "results/figures"


def pages_in(docs: Path) -> list[Path]:
    """The pages with markers."""
    if not docs.is_dir():
        raise InvalidInput(f"{docs} is not a folder; --write-docs takes the folder of the documentation.")
    written = (page for page in sorted(docs.rglob("*.md")) if "_build" not in page.relative_to(docs).parts)
    found = [page for page in written if marked(page.read_text(encoding="utf-8"))]
    if not found:
        raise InvalidInput(
            f"{docs} has no page to write: none of its .md files has a marker such as <!-- table FILE NAME -->."
        )
    return found


def finished_in(out: Path, names: Iterable[str] | None = None) -> dict[str, Path]:
    """The folders of finished items by name; of all of them without names."""
    there = {path.parent.name: path.parent for path in sorted(out.glob(f"*/{FILE}"))}
    if not there:
        raise InvalidInput(f"{out} has no finished item, which would be a folder NAME with {FILE}.")
    return there if names is None else {name: there[name] for name in names if name in there}


def filled_pages(docs: Path, finished: Mapping[str, Path] | None = None) -> dict[Path, str]:
    """The text of every page with markers, as the data have it; data of finished items go before those of docs."""
    taken = {name: folder / FILE for name, folder in (finished or {}).items()}

    @cache
    def results(name: str) -> Results:
        return read(taken.get(name, docs / DATA / f"{name}.parquet"))

    def names() -> list[str]:
        there = {path.stem for path in (docs / DATA).glob("*.parquet") if holds_results(path)}
        return sorted(there | set(taken))

    texts = {}
    for page in pages_in(docs):
        way = Path(os.path.relpath(docs / DATA, page.parent)).as_posix()
        try:
            texts[page] = filled(page.read_text(encoding="utf-8"), Source(results, names), way)
        except InvalidInput as error:
            raise InvalidInput(f"{page.relative_to(docs)}: {error}") from error
    return texts


def write_docs(docs: Path, finished: Mapping[str, Path] | None = None) -> list[Path]:
    """Take finished items into the folder and write its pages; the files that are not as they were.

    Of the figures those are taken that a page shows: ``figure.png`` as ``NAME.png``, others as ``NAME-STEM.png``.
    Nothing is written if a marker cannot be filled.
    """
    texts = filled_pages(docs, finished)
    contents = {page: text.encode() for page, text in texts.items()}
    for name, folder in (finished or {}).items():
        contents[docs / DATA / f"{name}.parquet"] = (folder / FILE).read_bytes()
        for drawn in sorted(folder.glob("*.png")):
            shown = f"{name}.png" if drawn.stem == "figure" else f"{name}-{drawn.stem}.png"
            if any(f"figures/{shown}" in text for text in texts.values()):
                contents[docs / FIGURES / shown] = shrunk(drawn)
    changed = [path for path, made in contents.items() if not path.is_file() or path.read_bytes() != made]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as unfinished:
            unfinished.write_bytes(contents[path])
    return changed
