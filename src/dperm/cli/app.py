"""The ``dperm`` command, and the one place where errors become messages and exit codes."""

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from dperm import __version__
from dperm.cli.account import account
from dperm.cli.compare import compare, plot
from dperm.cli.convert import convert
from dperm.cli.evaluate import evaluate, means
from dperm.cli.fit import fit
from dperm.cli.ledger import ledger
from dperm.cli.mechanisms import mechanisms
from dperm.cli.options import Ordered
from dperm.cli.output import warn
from dperm.cli.plan import plan
from dperm.cli.report import report
from dperm.cli.saved_models import export, predict, show
from dperm.cli.schema import schema
from dperm.cli.verify import verify
from dperm.errors import BudgetExceeded, DpermError, PrivacyWarning, UtilityWarning

ENTRY_POINTS = "dperm.commands"
"""The group of entry points by which an installed package adds commands of its own."""

ADDED_BY = {"audit": "audit", "reproduce": "papers", "curvature": "papers"}
"""The distribution beside this one that has a command, for whoever has not installed it: dperm-audit, dperm-papers."""

COMPLETION = (
    "A shell completes names of commands, options, mechanisms, losses, relations and data sets after: eval "
    '"$(_DPERM_COMPLETE=bash_source dperm)"; for other shells see the page on the command line.'
)

_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # of newer releases of click
"""What is raised where a group of commands is called without a word; its message is the help."""


class WithInstalled(Ordered):
    """Our own commands, then those of installed packages. One that does not load is left out with a warning."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in ADDED_BY and name not in self.list_commands(ctx) and not ctx.resilient_parsing:
            ctx.fail(
                f"The command {name!r} comes with dperm-{ADDED_BY[name]}. Install it with: pip install "
                f"dperm-{ADDED_BY[name]} (from a checkout: pip install ./{ADDED_BY[name]})."
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in _installed() if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        entry = _installed().get(cmd_name)
        try:
            command = None if entry is None else entry.load()
        except Exception as error:
            warnings.warn(
                f"the command {cmd_name!r} could not be loaded: {error}", RuntimeWarning, stacklevel=2
            )
            return None
        return command if isinstance(command, click.Command) else None


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@click.group(
    cls=WithInstalled,
    epilog=COMPLETION,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="dperm")
def cli() -> None:
    """Train linear models with differential privacy: of classes, and of numbers.

    Differential privacy is a guarantee for everyone in a table: whatever your row says, every published
    result is about as likely as with any other row in its place, within a factor e^ε and up to a small
    probability δ. Smaller ε means more privacy and more noise.

    \b
    Examples:
      dperm compare
      dperm plan --n 20000 --features 40 --epsilon 0.5
      dperm account --n 50000 --epsilon 0.5 --delta 1e-8
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --output model.json
      dperm predict model.json new_people.csv
      dperm evaluate model.json test_people.csv --epsilon 0.5
      dperm verify model.json
      dperm report model.json --html report.html
      dperm mechanisms
    """


for command in (
    compare,
    plot,
    plan,
    account,
    schema,
    convert,
    fit,
    predict,
    show,
    export,
    evaluate,
    means,
    verify,
    report,
    mechanisms,
    ledger,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 1 refused or failed, 2 usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε shows a question mark
    try:
        with _warnings_in_one_line():
            code = cli.main(arguments, prog_name="dperm", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        return _fail("interrupted.", 130)
    except click.ClickException as error:
        if not isinstance(error, _HELP):
            return _fail(_in_one_line(error), error.exit_code)
        error.show()
        return click.UsageError.exit_code
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except (DpermError, BudgetExceeded) as error:
        return _fail(str(error), 1)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What the library warns of is said to whoever runs the command, without a line of source code."""
    with warnings.catch_warnings():
        elsewhere = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, PrivacyWarning | UtilityWarning):
                warn(str(message))
            else:
                elsewhere(message, category, *place, **more)

        for kind in (PrivacyWarning, UtilityWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


def _in_one_line(error: click.ClickException) -> str:
    """What was wrong with a call, and where to look it up."""
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message} See {context.command_path} --help."


def _fail(message: str, code: int) -> int:
    click.echo(f"dperm: {message}", err=True)
    return code
