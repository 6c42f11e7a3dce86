"""Contenders from the command line: a mechanism, settings of it, or a grid of them."""

from collections.abc import Sequence

from dperm.cli.grammar import read_entrant, read_grid
from dperm.experiments.spec import Contender, Entrant, contenders_of


def parse_entrants(
    mechanisms: Sequence[str], searches: Sequence[str], oracles: Sequence[str]
) -> list[Contender]:
    """The contenders in the order of the options, baselines last."""
    from dperm.experiments.tuning import tuned

    found: list[Entrant] = [_entrant(text) for text in mechanisms]
    for tuning, texts in (("search", searches), ("oracle", oracles)):
        found += [tuned(tuning, *read_grid(text)) for text in texts]
    return sorted(contenders_of(found), key=lambda contender: not contender.candidates[0].private)


def _entrant(text: str) -> Entrant:
    entrant = read_entrant(text)
    if isinstance(entrant, str):
        return entrant
    return Contender(label=" ".join(text.split()), candidates=(entrant,))
