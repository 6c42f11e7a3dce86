"""Write the stubs that tell type checkers which names ``dperm`` and ``dperm.mechanisms`` export (``make names``).

At run time the names follow from registration. ``--check`` only compares, and exits 1 where a stub is out of date.
"""

import sys
from pathlib import Path

import dperm
from dperm import mechanisms

SOURCE = Path(dperm.__file__).parent
HEAD = "# Written by tools/names.py (make names).\n"


def mechanism_stub() -> str:
    homes = {kind.__name__: kind.__module__ for kind in mechanisms.registered()}
    homes = {name: home for name, home in homes.items() if home.startswith("dperm.")}
    lines = [f"from {home} import {name} as {name}" for name, home in homes.items()]
    shared = {"dperm.mechanisms.base": "Job Mechanism Outcome Plan"}
    shared["dperm.mechanisms.registry"] = "mechanism_names register registered resolve"
    for home, names in shared.items():
        lines += [f"from {home} import {name} as {name}" for name in names.split()]
    return HEAD + "\n".join(sorted(lines)) + "\n"


def package_stub() -> str:
    lines = [f"from {home} import {name} as {name}" for name, home in dperm._HOME.items()]
    lines += [f"from dperm import {module} as {module}" for module in dperm._MODULES]
    return HEAD + "\n".join(sorted(lines)) + "\n\n__version__: str\n"


STUBS = {SOURCE / "mechanisms" / "__init__.pyi": mechanism_stub, SOURCE / "__init__.pyi": package_stub}


def stale() -> list[Path]:
    return [path for path, text in STUBS.items() if not path.exists() or path.read_text() != text()]


def main() -> int:
    out_of_date = stale()
    if "--check" in sys.argv[1:]:
        for path in out_of_date:
            print(f"{path.relative_to(SOURCE.parent)} is out of date: run make names")
        return 1 if out_of_date else 0
    for path in out_of_date:
        path.write_text(STUBS[path]())
        print(f"wrote {path.relative_to(SOURCE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
