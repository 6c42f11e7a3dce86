"""Settings of the documentation site: `make docs` builds it, with warnings as errors."""

import sys
from pathlib import Path

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
]
exclude_patterns = ["_build"]
suppress_warnings = ["toc.empty_glob"]  # a page that is not written yet does not break the navigation

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Guarantee", "params_style"), ("Assumes", "params_style")]

html_theme = "furo"
html_title = f"dperm {__version__}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["wide.css"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
