"""Settings of the documentation site: `make docs` builds it, with warnings as errors."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

from dperm import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dperm"
author = "the dperm authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "command_line",
    "local_mathjax",
    "page_lists",
    "table_cells",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "attrs_block", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

mathjax3_config = {"svg": {"scale": 0.92}}

add_module_names = False
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantee", "Assumes"]

html_theme = "furo"
html_title = f"dperm {__version__}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "code-font-size": "76%",
    },
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["wide.css"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def show_init(app: Sphinx, what: str, name: str, item: Any, options: Any, shown: str, returns: str) -> Any:
    """The settings of an estimator stand in ``__init__``; its ``__new__`` only makes for better messages."""
    if what != "class" or item.__new__ is object.__new__ or "*args" not in (shown or ""):
        return None
    _self, *settings = inspect.signature(item.__init__).parameters.values()
    return stringify_signature(inspect.Signature(settings), show_annotation=False), returns


def keep_underscores(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """An attribute that ends in an underscore is not a reference."""
    lines[:] = [re.sub(r"^(:(?:ivar|vartype) \w+)_:", r"\1\_:", line) for line in lines]


def setup(app: Sphinx) -> None:
    app.add_lexer("csv", TextLexer)
    app.connect("autodoc-process-signature", show_init)
    app.connect("autodoc-process-docstring", keep_underscores, priority=900)  # behind napoleon
