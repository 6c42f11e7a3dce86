"""The table of extras in docs/install.md, from pyproject.toml: ``python tools/extras_table.py [--write]``."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "install.md"
BLOCK = re.compile(r"(?<=<!-- extras -->\n).*?(?=<!-- /extras -->\n)", re.DOTALL)
BRINGS = {
    "cli": "the command `dperm`, figures",
    "excel": "`.xlsx` files in `dperm fit` and the others",
    "onnx": "`dperm export` to ONNX",
    "registry": "the YAML of the deployments registry, checked against its schema",
    "dask": "rows on a [Dask](dask.md) cluster",
    "spark": "rows in [Spark](spark.md); needs a Java on the machine",
    "gpu": "rows on a [GPU](gpu.md)",
}
"""What a user gets of an extra; extras for development are not listed."""
FOR_DEVELOPMENT = ("test", "bench", "docs", "dev")


def table() -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    unknown = set(extras) - set(BRINGS) - set(FOR_DEVELOPMENT)
    if unknown:
        raise SystemExit(f"say in tools/extras_table.py what {', '.join(sorted(unknown))} brings.")
    lines = ["| extra | what it brings | packages |", "| --- | --- | --- |"]
    for name in BRINGS:
        if name in extras:
            packages = ", ".join(re.split(r"[<>=!~]", package)[0] for package in extras[name])
            lines.append(f"| `{name}` | {BRINGS[name]} | {packages} |")
    return "\n" + "\n".join(lines) + "\n\n"


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        PAGE.write_text(BLOCK.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif arguments:
        raise SystemExit("usage: python tools/extras_table.py [--write]")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
