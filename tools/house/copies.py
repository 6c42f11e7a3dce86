"""Functions whose bodies say the same thing in two modules, whatever their variables are called."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy

from house.modules import Module

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[Module, Function]


def copied(modules: Iterable[Module], nodes: int, on_purpose: Sequence[str]) -> Iterator[str]:
    """One line for each body of more than ``nodes`` syntax nodes that stands in two modules.

    Packages named in ``on_purpose`` may repeat what stands outside of them, but nothing twice among themselves.
    """
    same: dict[str, list[Place]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                body = _body(node)
                if sum(1 for statement in body for _ in ast.walk(statement)) > nodes:
                    same[_meaning(node, body)].append((module, node))
    for places in same.values():
        apart = [place for place in places if _inside(place[0], on_purpose)]
        for group in (apart, [place for place in places if place not in apart]):
            if len({module.name for module, _ in group}) > 1:
                where = sorted(f"{module.name}.{node.name} (line {node.lineno})" for module, node in group)
                yield f"one function body in {len(where)} places: {', '.join(where)}"


def _inside(module: Module, packages: Sequence[str]) -> bool:
    return any(f"{module.name}.".startswith(f"{package}.") for package in packages)


def _body(function: Function) -> list[ast.stmt]:
    """All but the docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _meaning(function: Function, body: list[ast.stmt]) -> str:
    """The body without annotations, its local names numbered in the order in which they come."""
    body = deepcopy(body)
    walked = [node for statement in body for node in ast.walk(statement)]
    names = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    names += [node.arg for node in walked if isinstance(node, ast.arg)]
    names += [node.id for node in walked if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    numbers = {name: f"local {place}" for place, name in enumerate(dict.fromkeys(names))}
    for node in walked:
        if isinstance(node, ast.Name):
            node.id = numbers.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = numbers[node.arg], None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return "\n".join(map(ast.dump, body))
