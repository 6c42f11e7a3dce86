"""The modules of packages and what they import from them, read from the source without running it."""

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One name that a module takes from the packages: ``from target import name``, or ``import target``."""

    target: str
    name: str | None
    line: int
    for_types_only: bool = False


@dataclass(frozen=True)
class Module:
    name: str
    part: str
    """The part of the whole: ``engine`` for ``dperm.engine.registry``, empty for the root and its ``__main__``.
    A package beside the first one is one part, of its own name."""
    path: Path
    tree: ast.Module = field(repr=False)
    lines: int
    imports: tuple[Import, ...]
    relative: tuple[int, ...]
    """Lines with a relative import."""

    @property
    def package(self) -> str:
        """The package that the module stands in; an ``__init__`` stands in its own."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def read_packages(folders: Sequence[Path]) -> dict[str, Module]:
    """All modules below the folders, by their dotted names."""
    paths = {_dotted(folder, path): path for folder in folders for path in sorted(folder.rglob("*.py"))}
    first = folders[0].name
    return {name: _read(name, _part(name, first), path, paths.keys()) for name, path in paths.items()}


def targets(module: Module) -> set[str]:
    """The modules that this one needs when it runs, be it at its start or later."""
    return {item.target for item in module.imports if not item.for_types_only} - {module.name}


def _dotted(folder: Path, path: Path) -> str:
    parts = [folder.name, *path.relative_to(folder).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _part(name: str, first: str) -> str:
    package, _, inside = name.partition(".")
    return inside.partition(".")[0].replace("__main__", "") if package == first else package


def _read(name: str, part: str, path: Path, known: Set[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = list(_statements(tree))
    return Module(
        name=name,
        part=part,
        path=path,
        tree=tree,
        lines=len(text.splitlines()),
        imports=tuple(item for node, types in found for item in _imports(node, types, known)),
        relative=tuple(node.lineno for node, _ in found if isinstance(node, ast.ImportFrom) and node.level),
    )


def _statements(node: ast.AST, types: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import statement, and whether it stands under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, types
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            yield from _statements(ast.Module(child.body, []), True)
            yield from _statements(ast.Module(child.orelse, []), types)
        else:
            yield from _statements(child, types)


def _imports(node: ast.Import | ast.ImportFrom, types: bool, known: Set[str]) -> Iterator[Import]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            target, name = alias.name, None
        elif f"{node.module}.{alias.name}" in known:
            target, name = f"{node.module}.{alias.name}", None
        else:
            target, name = node.module or "", alias.name
        if target.partition(".")[0] in known and not (isinstance(node, ast.ImportFrom) and node.level):
            yield Import(target, name, node.lineno, types)
