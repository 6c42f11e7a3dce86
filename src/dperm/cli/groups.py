"""Groups of commands that list them in their order and ask what an unknown one was meant to be."""

import warnings
from importlib.metadata import EntryPoint, entry_points

import click

from dperm.cli.output import did_you_mean

ENTRY_POINTS = "dperm.commands"
"""The group of entry points by which an installed package adds commands of its own."""

ADDED_BY = {"audit": "audit", "reproduce": "papers", "curvature": "papers"}
"""The distribution beside this one that has a command, for whoever has not installed it: dperm-audit, dperm-papers."""


class Ordered(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if not (ctx.resilient_parsing or name.startswith("-") or name in known):
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


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
