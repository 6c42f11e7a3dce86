"""Draw the import graph of the packages and check what ``[tool.import-graph]`` in pyproject.toml asks of it.

``python tools/import_graph.py`` prints the layers and every violation, and ends with 1 if there is one.
``--dot FILE`` writes all modules for Graphviz, ``--svg FILE`` a drawing of the parts.
"""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from house import drawing
from house.checks import CHECKS, Rules, violations
from house.modules import Module, read_packages, targets

ROOT = Path(__file__).resolve().parents[1]


def read_rules(root: Path) -> Rules:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return Rules.from_table(settings["tool"]["import-graph"])


def read_modules(root: Path, rules: Rules) -> dict[str, Module]:
    return read_packages([root / folder for folder in rules.packages])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="a folder with a pyproject.toml")
    parser.add_argument("--dot", type=Path, help="write the graph of all modules for Graphviz")
    parser.add_argument("--svg", type=Path, help="write a drawing of the parts")
    options = parser.parse_args(arguments)

    rules = read_rules(options.root)
    modules = read_modules(options.root, rules)
    if options.dot:
        options.dot.write_text(drawing.dot(modules), encoding="utf-8")
    if options.svg:
        options.svg.write_text(drawing.svg(modules, rules), encoding="utf-8")

    lengths = [module.lines for module in modules.values()]
    edges = sum(len(targets(module) & modules.keys()) for module in modules.values())
    print(drawing.text(modules, rules), end="\n\n")
    for folder in rules.packages:
        own = [m.lines for name, m in modules.items() if name.partition(".")[0] == Path(folder).name]
        print(f"{folder}: {len(own)} modules, {sum(own):,} lines.")
    print(f"{edges} imports, {median(lengths):g} lines at the median, {max(lengths)} at most.")
    found = violations(modules, rules)
    for rule, lines in found.items():
        print(f"\n{rule}: {len(lines)} violated", *lines, sep="\n  ")
    print(f"Kept: {', '.join(rule for rule in CHECKS if rule not in found)}.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
