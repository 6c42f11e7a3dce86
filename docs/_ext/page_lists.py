"""What the navigation needs and a code host should not show, and no trouble with a page that is not written yet."""

import re

from sphinx.application import Sphinx

PROOFS = """
```{toctree}
:hidden:
:glob:

*
```
"""


def adapt(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "proofs/README":
        source[0] += PROOFS
    if page == app.config.root_doc:
        written = app.env.found_docs
        source[0] = re.sub(
            r"^```{toctree}\n.*?^```$",
            lambda block: "\n".join(
                line
                for line in block[0].splitlines()
                if not re.fullmatch(r"[\w/-]+", line) or line in written
            ),
            source[0],
            flags=re.MULTILINE | re.DOTALL,
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", adapt)
    return {"parallel_read_safe": True}
