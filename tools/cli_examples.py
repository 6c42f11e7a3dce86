"""What the examples of docs/cli.md print: ``python tools/cli_examples.py [--write]``.

Runs every ``sh`` block below the heading of the reference, in order, in a folder with a small table of people, and
puts what it printed into the ``text`` block that follows it. Without ``--write``, says which blocks have another shape:
numbers differ from run to run, because noise does.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEADING = "## Commands by example\n"
TERMINAL = {"TERM": "dumb", "TTY_COMPATIBLE": "1", "COLUMNS": "80"}
EXAMPLE = re.compile(
    r"(?P<before>^```sh\n(?P<commands>.*?)^```\n\n```text\n)(?P<printed>.*?)(?=^```$)",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
_HASH = re.compile(r"\b[0-9a-f]{12,}\b")
_CURVE = re.compile(r"[▁-█]+")
_STAR = re.compile(r" \*(?= |$)")
_MAY_DIFFER = 0.2


def people(folder: Path) -> None:
    """The files that pages call the reader's own."""
    for seed, (name, size) in enumerate({"people.csv": 300, "test_people.csv": 1000}.items()):
        ages = np.random.default_rng(seed).integers(18, 90, size=size)
        rows = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
        (folder / name).write_text("\n".join(["age,retired", *rows]) + "\n")
    patients = [f"{age},{ward}" for age, ward in zip(ages, np.resize(["A", "B"], size), strict=True)]
    (folder / "patients.csv").write_text("\n".join(["age,ward", *patients]) + "\n")
    (folder / "new_people.csv").write_text("age\n30\n70\n")
    (folder / "people.toml").write_text(
        '[target]\nname = "retired"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )


def printed_by(commands: str) -> str:
    """What dperm prints for these lines, on the terminal's two channels as they come."""
    from dperm.cli.app import run

    kept = io.BytesIO()
    screen = io.TextIOWrapper(kept, encoding="utf-8", newline="", write_through=True)
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
                code = run(words[1:])
            if code != 0:
                raise SystemExit(f"{line}\nends with {code}:\n{kept.getvalue().decode()}")
    lines = kept.getvalue().decode().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines).strip("\n") + "\n"


def shape(printed: str) -> list[str]:
    """What stays the same from run to run, roughly: the lines with numbers, digests and small curves masked."""
    lines = (_STAR.sub("", _CURVE.sub("c", line)) for line in printed.splitlines())
    masked = (_NUMBER.sub("0", _HASH.sub("h", line)) for line in lines)
    return [" ".join(line.split()) for line in masked if line.strip()]


def alike(one: str, other: str) -> bool:
    """Whether the lines of each occur in the other, but for a fifth, or one of three: a prediction may flip."""
    first, second = set(shape(one)), set(shape(other))
    most = max(len(first), len(second))
    return most - len(first & second) <= max(_MAY_DIFFER * most, int(most > 2))


def examples(page: str) -> Iterator[tuple[str, str, bool]]:
    """Commands, what the page says that they print, and whether a test may run them."""
    for found in EXAMPLE.finditer(page, page.index(HEADING)):
        slow = page[: found.start()].rstrip().endswith("-->")
        yield found["commands"], found["printed"], not slow


@contextlib.contextmanager
def at_the_readers() -> Iterator[None]:
    """In a folder with the reader's files, before a terminal that is no wider than the pages."""
    here, before = Path.cwd(), {name: os.environ.get(name) for name in TERMINAL}
    with tempfile.TemporaryDirectory() as folder:
        people(Path(folder))
        os.chdir(folder)
        os.environ.update(TERMINAL)
        try:
            yield
        finally:
            os.chdir(here)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def written(page: str) -> str:
    start = page.index(HEADING)
    with at_the_readers():
        filled = EXAMPLE.sub(lambda found: found["before"] + printed_by(found["commands"]), page[start:])
    return page[:start] + filled


def main(arguments: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if arguments == ["--write"]:
        PAGE.write_text(written(page), encoding="utf-8")
    elif arguments:
        raise SystemExit("usage: python tools/cli_examples.py [--write]")
    else:
        with at_the_readers():
            for commands, printed, _ in examples(page):
                if not alike(printed, printed_by(commands)):
                    print(f"prints something else now:\n{commands}")


if __name__ == "__main__":
    main(sys.argv[1:])
