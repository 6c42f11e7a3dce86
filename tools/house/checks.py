"""What an import graph must not hold: one function for each rule, one line for each violation."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from house.copies import copied
from house.modules import Module, targets

Modules = Mapping[str, Module]


@dataclass(frozen=True)
class Rules:
    """The table ``[tool.import-graph]`` of pyproject.toml."""

    packages: tuple[str, ...]
    """Folders. The layers name the parts of the first one, and the others as wholes."""
    layers: tuple[frozenset[str], ...]
    """Parts from the bottom to the top: a part may import itself and those of lower layers."""
    longest_module: int
    copied_nodes: int
    own_formulas: tuple[str, ...]
    """Packages that repeat what stands elsewhere on purpose, to check it."""
    public_names_in: tuple[str, ...]
    """Modules that may use the public names of the first package, which lead to any layer."""

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "Rules":
        values: dict[str, object] = dict(table)
        values["layers"] = tuple(map(frozenset, table["layers"]))  # type: ignore[call-overload]
        values |= {key: tuple(table[key]) for key in ("packages", "own_formulas", "public_names_in")}  # type: ignore[arg-type]
        return cls(**values)  # type: ignore[arg-type]

    @property
    def level(self) -> dict[str, int]:
        return {part: level for level, parts in enumerate(self.layers) for part in parts}


def parts_without_layer(modules: Modules, rules: Rules) -> Iterator[str]:
    parts = {module.part for module in modules.values()} - {""}
    yield from (f"{part} stands in no layer" for part in sorted(parts - rules.level.keys()))
    yield from (f"the layers name {part}, which is not there" for part in sorted(rules.level.keys() - parts))


def upward_imports(modules: Modules, rules: Rules) -> Iterator[str]:
    level = rules.level
    for module in modules.values():
        for item in module.imports:
            other = modules[item.target].part if item.target in modules else ""
            here, there = level.get(module.part), level.get(other)
            if here is not None and there is not None and other != module.part and there >= here:
                yield f"{module.name}:{item.line} imports {item.target}, which is not below it"


def uses_of_public_names(modules: Modules, rules: Rules) -> Iterator[str]:
    """``import dperm`` and then ``dperm.summary(...)``: an import from any layer, when it runs."""
    for module in modules.values():
        root = module.name.partition(".")[0]
        if module.part not in rules.level or module.part == root or module.name in rules.public_names_in:
            continue
        if not any(item.target == root for item in module.imports):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == root:
                public = not node.attr.startswith("__") and f"{root}.{node.attr}" not in modules
                if public:
                    yield f"{module.name}:{node.lineno} uses {root}.{node.attr}, whatever layer that is of"


def cycles(modules: Modules, rules: Rules) -> Iterator[str]:
    """Groups of modules of which each needs every other one."""
    reached = {name: _reachable(name, modules) for name in modules}
    told: set[str] = set()
    for name in modules:
        group = {other for other in reached[name] if name in reached[other]}
        if group and name not in told:
            told |= group
            yield " <-> ".join(sorted(group))


def _reachable(start: str, modules: Modules) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        new = {name for name in targets(modules[left.pop()]) if name in modules} - found
        found |= new
        left += new
    return found


def relative_imports(modules: Modules, rules: Rules) -> Iterator[str]:
    for module in modules.values():
        yield from (f"{module.name}:{line} imports relatively" for line in module.relative)


def private_names(modules: Modules, rules: Rules) -> Iterator[str]:
    """A name with a leading underscore is known in the package of its module and below it, and nowhere else."""
    for module in modules.values():
        for item in module.imports:
            used = [item.target, *([item.name] if item.name else [])]
            if _hidden(".".join(used), module):
                yield f"{module.name}:{item.line} takes {used[-1]} from {item.target}"
        bound = _modules_by_local_name(module, modules)
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in bound
            ):
                full = f"{bound[node.value.id]}.{node.attr}"
                if _hidden(full, module):
                    yield f"{module.name}:{node.lineno} uses {full}"


def _hidden(full: str, user: Module) -> bool:
    """Does a dotted name hold a private piece whose package the user does not stand in?"""
    pieces = full.split(".")
    for place, piece in enumerate(pieces):
        if piece.startswith("_") and not piece.startswith("__"):
            holder = ".".join(pieces[:place])
            return not _stands_in(user, holder) and not _stands_in(user, holder.rpartition(".")[0])
    return False


def _stands_in(user: Module, package: str) -> bool:
    return bool(package) and "." in package and f"{user.package}.".startswith(f"{package}.")


def _modules_by_local_name(module: Module, modules: Modules) -> dict[str, str]:
    bound = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if f"{node.module}.{alias.name}" in modules:
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            bound |= {
                alias.asname: alias.name for alias in node.names if alias.asname and alias.name in modules
            }
    return bound


def long_modules(modules: Modules, rules: Rules) -> Iterator[str]:
    for module in modules.values():
        if module.lines > rules.longest_module:
            yield f"{module.name} has {module.lines} lines, more than {rules.longest_module}"


def copies(modules: Modules, rules: Rules) -> Iterator[str]:
    yield from copied(modules.values(), rules.copied_nodes, rules.own_formulas)


CHECKS: dict[str, Callable[[Modules, Rules], Iterator[str]]] = {
    "every part has a layer": parts_without_layer,
    "imports point down": upward_imports,
    "no layer is reached through the public names": uses_of_public_names,
    "no cycles": cycles,
    "no relative imports": relative_imports,
    "no private names from another package": private_names,
    "short modules": long_modules,
    "no logic twice": copies,
}


def violations(modules: Modules, rules: Rules) -> dict[str, list[str]]:
    """What breaks a rule, by the rule's name; rules that are kept are left out."""
    found = {name: list(check(modules, rules)) for name, check in CHECKS.items()}
    return {name: lines for name, lines in found.items() if lines}
