"""Links between pages lead somewhere, on a code host as in the built site, and the reference leaves nothing out."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dperm

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *SITE]
NO_PROSE = re.compile(r"^```.*?^```$|\$\$.*?\$\$|\$[^$\n]*\$|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def links(page: Path) -> Iterator[str]:
    prose = NO_PROSE.sub("", page.read_text(encoding="utf-8"))
    return (
        target for target in LINK.findall(prose) if "://" not in target and not target.startswith("mailto:")
    )


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#{1,6} +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken(page: Path) -> list[str]:
    dead = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        goal = page.parent / path if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(page) == []


def test_there_are_links_and_broken_ones_are_noticed(tmp_path):
    assert sum(len(list(links(page))) for page in PAGES) > 100
    page = tmp_path / "page.md"
    page.write_text(
        "# One thing: `a`\n\n[a](#one-thing-a) [b](page.md#one-thing-a) $[c](x)$\n\n```\n[d](y)\n```\n"
    )
    assert broken(page) == []
    page.write_text("# One\n\n[a](#two) [b](other.md) [c](page.md#two) ![d](e.png)\n")
    assert broken(page) == ["#two", "other.md", "page.md#two", "e.png"]


def test_every_page_is_in_the_navigation():
    listed = re.findall(
        r"```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL
    )
    names = {line for line in "\n".join(listed).splitlines() if not line.startswith(":")}
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in SITE}
    assert {name for name in pages if not name.startswith("proofs/")} - names == {"index"}


def test_every_proof_is_in_the_list_of_proofs():
    listed = {target for target in links(DOCS / "proofs" / "README.md") if "/" not in target}
    assert listed == {page.name for page in (DOCS / "proofs").glob("*.md")} - {"README.md"}


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\.\. auto\w+:: (?:dperm\.)?(\w+)$", text, re.MULTILINE))
    assert set(dperm.__all__) - listed == set()
