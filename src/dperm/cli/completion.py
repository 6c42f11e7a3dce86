"""What a shell offers when a word is completed; docs/cli.md says how to switch it on."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from dperm.datasets import dataset_names
from dperm.mechanisms import mechanism_names, resolve

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def starting_with(names: Callable[[], Iterable[str]]) -> Complete:
    """Those of the names that begin as the word does."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names() if name.startswith(begun)]

    return complete


def mechanisms(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names with their titles."""
    return [
        CompletionItem(name, help=resolve(name).title) for name in mechanism_names() if name.startswith(begun)
    ]


def files(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type="file")]


def folders(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type="dir")]


def data(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Data sets by name, and files."""
    return [*starting_with(dataset_names)(ctx, parameter, begun), *files(ctx, parameter, begun)]
