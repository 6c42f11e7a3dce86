"""Draw the pictures of docs/gallery.md from the code on the page: ``python tools/gallery.py [NAME ...]``.

Without names, all of them. The blocks run in order and in one namespace, in a folder that is thrown away; what they
write as NAME.png goes to docs/_static/gallery.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "_static" / "gallery"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWN = re.compile(r'"([\w-]+)\.png"')
SHOWN = re.compile(r"!\[[^\]]+\]\(_static/gallery/([\w-]+)\.png\)")


def blocks() -> list[str]:
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def drawn_by(block: str) -> list[str]:
    return DRAWN.findall(block)


def main(names: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    here, namespace = Path.cwd(), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks():
                drawn = drawn_by(block)
                if not names or not drawn or set(drawn) & set(names):
                    exec(compile(block, str(PAGE), "exec"), namespace)
        finally:
            os.chdir(here)
        for picture in Path(folder).glob("*.png"):
            shutil.copyfile(picture, PICTURES / picture.name)
            print(f"docs/_static/gallery/{picture.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
