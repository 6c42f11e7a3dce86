"""The import graph as text, as DOT (every module) and as SVG (the parts, layer by layer)."""

from collections import defaultdict
from collections.abc import Mapping
from html import escape

from house.checks import Rules
from house.modules import Module, targets

Modules = Mapping[str, Module]
BOX_WIDTH, BOX_HEIGHT, GAP, STEP = 118, 34, 20, 66


def part_edges(modules: Modules) -> dict[str, set[str]]:
    """Which parts a part imports, itself left out."""
    edges: dict[str, set[str]] = {module.part: set() for module in modules.values() if module.part}
    for module in modules.values():
        if module.part:
            used = {modules[name].part for name in targets(module) if name in modules}
            edges[module.part] |= used - {module.part, ""}
    return edges


def direct_edges(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the edges that a longer way makes needless to draw."""
    below: dict[str, set[str]] = {}

    def reach(part: str, above: frozenset[str]) -> set[str]:
        if part not in below:
            new = edges[part] - above
            below[part] = new.union(*(reach(other, above | {part}) for other in new))
        return below[part]

    return {
        part: {
            other for other in used if not any(other in reach(third, frozenset()) for third in used - {other})
        }
        for part, used in edges.items()
    }


def text(modules: Modules, rules: Rules) -> str:
    """One line for each layer, the highest first, with the number of modules and lines of each part."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for module in modules.values():
        sizes[module.part].append(module.lines)
    rows = [
        "   ".join(
            f"{part} ({len(sizes[part])} modules, {sum(sizes[part]):,} lines)" for part in sorted(layer)
        )
        for layer in reversed(rules.layers)
    ]
    return "\n".join(rows)


def dot(modules: Modules) -> str:
    """All modules, one cluster for each part; `dot -Tsvg` draws it."""
    parts: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        parts[module.part].append(module.name)
    lines = ["digraph imports {", "  rankdir=TB;", "  node [shape=box, fontsize=10];"]
    for part, names in sorted(parts.items()):
        lines.append(f'  subgraph "cluster_{part or "root"}" {{ label="{part or "root"}";')
        lines += [f'    "{name}";' for name in sorted(names)]
        lines.append("  }")
    for module in modules.values():
        lines += [f'  "{module.name}" -> "{name}";' for name in sorted(targets(module)) if name in modules]
    return "\n".join([*lines, "}"]) + "\n"


def svg(modules: Modules, rules: Rules) -> str:
    """The parts as boxes, the lowest layer at the bottom, with the edges that no longer way implies."""
    widest = max(map(len, rules.layers))
    width = widest * (BOX_WIDTH + GAP) + GAP
    height = len(rules.layers) * STEP + GAP
    corner = {}
    for row, layer in enumerate(reversed(rules.layers)):
        left = (width - len(layer) * (BOX_WIDTH + GAP) + GAP) / 2
        for column, part in enumerate(sorted(layer)):
            corner[part] = (left + column * (BOX_WIDTH + GAP), GAP + row * STEP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13" text-anchor="middle">',
        "<title>Which part of the package imports which: lines lead down</title>",
    ]
    for part, used in sorted(direct_edges(part_edges(modules)).items()):
        for other in sorted(used):
            if part in corner and other in corner:
                (x1, y1), (x2, y2) = corner[part], corner[other]
                start, end = f"{x1 + BOX_WIDTH / 2:g} {y1 + BOX_HEIGHT:g}", f"{x2 + BOX_WIDTH / 2:g} {y2:g}"
                lines.append(f'<path d="M {start} L {end}" stroke="#8a97a8" fill="none"/>')
    for part, (x, y) in sorted(corner.items()):
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="#e9f0f9" '
            'stroke="#1f5fa8"/>'
            f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + 22:g}">{escape(part)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"
