"""The command line. Needs the ``cli`` extra; everything else in dperm works without it."""

import sys


def main() -> None:
    """Entry point of the ``dperm`` command; leaves with 0 (done), 1 (refused or failed) or 2 (usage)."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as missing:
        print(
            f"dperm: the command line needs {missing.name}. Install it with: pip install 'dperm[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from dperm.cli.app import run

    sys.exit(run())
