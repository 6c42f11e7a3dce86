"""Links between pages lead somewhere, on a code host as in the built site, and the reference leaves nothing out."""

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest

import dperm
from dperm.mechanisms.registry import catalogue, resolve

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), *SITE]
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


@pytest.mark.together
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


def crowded(text: str) -> list[str]:
    """Displayed formulas that lack an empty line before or after them: the site shows those as plain text."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        formula
        for before, formula, after in re.findall(r"([^\n]*\n)(\$\$.*?\$\$)(\n[^\n]*)", prose, re.DOTALL)
        if before.strip() or after.strip()
    ]


@pytest.mark.together
@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(DOCS)))
def test_displayed_formulas_stand_alone(page):
    assert crowded(page.read_text(encoding="utf-8")) == []


def test_a_formula_within_a_paragraph_is_noticed():
    assert crowded("so that\n\n$$ a $$\n\nand\n") == []
    assert crowded("so that\n$$ a $$\n\nand\n") == crowded("so\n\n$$ a $$\nand\n") == ["$$ a $$"]


def test_every_page_is_in_the_navigation():
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in SITE}
    names = set()
    for index in (DOCS / "index.md", DOCS / "results" / "index.md"):
        listed = re.findall(r"```\{toctree\}\n(.*?)^```$", index.read_text(), re.MULTILINE | re.DOTALL)
        patterns = [line for line in "\n".join(listed).splitlines() if line and not line.startswith(":")]
        here = index.parent.relative_to(DOCS)
        names |= {name for name in pages for line in patterns if fnmatch(name, (here / line).as_posix())}
    assert {name for name in pages if not name.startswith("proofs/")} - names == {"index"}


def test_every_proof_is_in_the_list_of_proofs():
    listed = {target for target in links(DOCS / "proofs" / "README.md") if "/" not in target}
    assert listed == {page.name for page in (DOCS / "proofs").glob("*.md")} - {"README.md"}


def documented(text: str) -> dict[str, set[str]]:
    """The names with an entry of their own in the reference, by the module that they are imported from."""
    found: dict[str, set[str]] = {}
    module = ""
    for kind, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", text, re.MULTILINE):
        if kind == "currentmodule":
            module = name
        elif kind in ("autoclass", "autofunction", "autoexception"):
            home, _, short = name.rpartition(".")
            found.setdefault(home or module, set()).add(short)
    return found


def test_the_reference_has_every_public_name_and_no_other():
    names = documented((DOCS / "api.md").read_text(encoding="utf-8"))
    assert names["dperm"] == {name for name in dperm.__all__ if not ismodule(getattr(dperm, name))}
    for module, listed in names.items():
        assert listed <= set(dir(import_module(module)))


def test_the_reference_has_the_modules_among_the_public_names():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    modules = re.findall(r"^\.\. (?:auto|current)module:: dperm\.(\w+)$", text, re.MULTILINE)
    assert {name for name in dperm.__all__ if ismodule(getattr(dperm, name))} <= set(modules)


@pytest.mark.together
@pytest.mark.parametrize("module", ["dperm.schema", "dperm.datasets", "dperm.certificate"])
def test_what_the_reference_takes_from_a_package_is_in_its_list(module):
    names = documented((DOCS / "api.md").read_text(encoding="utf-8"))
    assert names[module] <= set(import_module(module).__all__)


def test_the_reference_groups_the_mechanisms_by_family():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    groups = re.findall(r"^\.\. rubric:: (.*)\n((?:\n?\.\. autoclass:: \w+\n)+)", text, re.MULTILINE)
    listed = [set(re.findall(r":: (\w+)", group)) for _, group in groups]
    families: dict[str, set[str]] = {}
    for entry in catalogue():
        families.setdefault(entry.family, set()).add(type(resolve(entry.name)).__name__)
    assert families.pop("auto") == {"Auto"}
    assert listed == list(families.values())
