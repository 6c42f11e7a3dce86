"""The directive `commands`: one section for every command of dperm, with its help text."""

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dperm.cli.app import cli


def commands(command: click.Command, context: click.Context) -> list[tuple[click.Command, click.Context]]:
    """The command and those below it, each with the context in which its help is printed."""
    found = [(command, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += commands(child, click.Context(child, info_name=name, parent=context))
    return found


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        sections: list[nodes.Node] = []
        top = click.Context(cli, info_name="dperm", terminal_width=90, **cli.context_settings)
        for command, context in commands(cli, top):
            path = context.command_path
            section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
            help_text = command.get_help(context)
            section += nodes.title(path, path)
            section += nodes.literal_block(help_text, help_text, language="text")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
