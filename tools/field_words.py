"""Find words of our own where the field has one, as ``[tool.field-words]`` in pyproject.toml lists them.

The table ``names`` holds words that no module, public function, class or parameter may have as a part of its name;
the table ``prose`` words that no message, documentation page or README may use. Both give the word to use instead.
``python tools/field_words.py`` prints every use, and ends with 1 if there is one.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\$[^$\n]*\$", re.DOTALL)


def parts(name: str) -> set[str]:
    """The words that a name in snake or camel case is made of."""
    return {part.lower() for part in _PART.findall(name)}


def public_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Classes, functions, methods and their parameters, those with an underscore in front left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.lineno, node.name
            if isinstance(node, ast.FunctionDef):
                given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                yield from ((item.lineno, item.arg) for item in given)


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Text of more than one word that is no docstring, but those of commands, which are their help."""
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            commands = [ast.unparse(item) for item in getattr(node, "decorator_list", ())]
            if not any(".command(" in item or ".group(" in item for item in commands):
                hidden.add(node.body[0].value)
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and node not in hidden else None
        if isinstance(text, str) and " " in text:
            yield node.lineno, text


def uses(root: Path, words: Mapping[str, Mapping[str, str]], ignored: frozenset[str]) -> Iterator[str]:
    """Every use of a listed word, with its place and the word to use instead."""
    prose = {
        word: re.compile(rf"(?<![\w\\-]){re.escape(word)}(?![\w-])", re.IGNORECASE) for word in words["prose"]
    }

    def in_prose(place: str, text: str) -> Iterator[str]:
        for word, pattern in prose.items():
            if pattern.search(text):
                yield f"{place}: {word!r}; the field says {words['prose'][word]}"

    def in_names(place: str, name: str) -> Iterator[str]:
        for word in sorted(parts(name) & words["names"].keys()):
            yield f"{place}: {name}; {word!r} is called {words['names'][word]}"

    for path in sorted((root / "src").rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place in ignored:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from in_names(place, path.stem)
        for line, name in public_names(tree):
            yield from in_names(f"{place}:{line}", name)
        for line, text in messages(tree):
            yield from in_prose(f"{place}:{line}", text)
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        place = path.relative_to(root).as_posix()
        if place in ignored:
            continue
        text = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), path.read_text(encoding="utf-8"))
        for line, words_of_line in enumerate(text.splitlines(), 1):
            yield from in_prose(f"{place}:{line}", words_of_line)


def main(root: Path = ROOT) -> int:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["field-words"]
    found = list(dict.fromkeys(uses(root, settings, frozenset(settings["ignored"]))))
    print(*found, sep="\n")
    print(f"{len(settings['names'])} names and {len(settings['prose'])} words: {len(found)} uses left.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
