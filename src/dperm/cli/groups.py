"""Groups of commands that list them in their order and ask what an unknown one was meant to be."""

import click

from dperm.cli.suggest import did_you_mean


class Ordered(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-") or name in self.commands):
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, self.commands)}")
        return super().resolve_command(ctx, args)
