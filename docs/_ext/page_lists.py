"""Lists of pages that the navigation needs and a code host should not show."""

from sphinx.application import Sphinx

PROOFS = """
```{toctree}
:hidden:
:glob:

*
```
"""


def add_list(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "proofs/README":
        source[0] += PROOFS


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_list)
    return {"parallel_read_safe": True}
