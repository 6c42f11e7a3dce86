"""The papers' tables and figures, each by its name: what is run, our figures, and the published ones beside them."""

from importlib import import_module

from dperm.errors import InvalidInput
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

MODULES = {
    "rsgd-fig1": "rsgd",
    "rsgd-fig2": "rsgd",
    "rsgd-fig3": "timing",
    "rsgd-fig4": "rsgd",
    "gp-table2": "curvature_tables",
    "gp-fig1": "curvature_tables",
    "gp-table4": "gradient_perturbation",
    "gp-fig2": "gradient_perturbation",
    "report-tables": "report_tables",
    "bounds": "bounds_curves",
    "claims": "claims",
    "frontier": "frontier",
    "defaults": "defaults",
    "rules": "rules",
    "averages": "averages",
    "plan": "expected",
    "scale": "scale",
    "peers": "peers",
    "intervals": "intervals",
}
"""In which module of this package the dict ``ITEMS`` has each item. One line adds an item."""


def item_names() -> tuple[str, ...]:
    return tuple(MODULES)


def find_item(name: str) -> Item:
    """The item of that name; its module is imported only now."""
    if name not in MODULES:
        raise InvalidInput(f"there is nothing named {name!r} to reproduce; choose from {', '.join(MODULES)}.")
    items: dict[str, Item] = import_module(f"{__name__}.{MODULES[name]}").ITEMS
    return items[name]


__all__ = ["MODULES", "Bench", "Check", "Item", "Report", "Section", "find_item", "item_names"]
