"""The directive `commands`: the help of a command and of those below it, folded; without a name, of all that the page
has not shown."""

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dperm.cli.app import cli

WIDTH = 90


def commands(command: click.Command, context: click.Context) -> list[tuple[click.Command, click.Context]]:
    """The command and those below it, each with the context in which its help is printed."""
    found = [(command, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += commands(child, click.Context(child, info_name=name, parent=context))
    return found


def folded(command: click.Command, context: click.Context, opened: bool = False) -> list[nodes.Node]:
    """The help text under a line that opens it."""
    start = f"<details{' open' if opened else ''}><summary>{context.command_path} --help</summary>"
    help_text = command.get_help(context)
    return [
        nodes.raw("", start, format="html"),
        nodes.literal_block(help_text, help_text, language="text"),
        nodes.raw("", "</details>", format="html"),
    ]


class Commands(SphinxDirective):
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        top = click.Context(cli, info_name="dperm", terminal_width=WIDTH, **cli.context_settings)
        shown = self.env.temp_data.setdefault("shown commands", set())
        if self.arguments:
            (name,) = self.arguments
            command = cli.get_command(top, name)
            if command is None:
                raise self.error(f"dperm has no command {name!r}.")
            shown.add(name)
            wanted = commands(command, click.Context(command, info_name=name, parent=top))
            return [node for one in wanted for node in folded(*one)]
        rest = [(cli, top)]
        for name in cli.list_commands(top):
            command = cli.get_command(top, name)
            if name not in shown and command is not None:
                rest += commands(command, click.Context(command, info_name=name, parent=top))
        return [node for one in rest for node in folded(*one, opened=True)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
