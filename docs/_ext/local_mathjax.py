"""Formulas without a network: MathJax from an installed package, in one file, next to the pages."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

SCRIPT = "tex-svg.js"


def copy_script(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        package = find_spec("sphinx-mathjax-offline")
        assert package is not None
        assert package.origin is not None
        source = Path(package.origin).parent / "static" / "mathjax" / SCRIPT
        shutil.copyfile(source, app.outdir / "_static" / SCRIPT)


def setup(app: Sphinx) -> dict[str, bool]:
    app.config.mathjax_path = SCRIPT
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True}
