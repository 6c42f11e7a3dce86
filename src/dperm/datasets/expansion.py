"""What a schema adds to its features by public rules: hats where none are declared, and crossed features."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dperm.datasets.dates import Date
from dperm.datasets.declared import check_list, check_text
from dperm.datasets.features import Categorical, Cross, Leaf
from dperm.datasets.hashed import Hashed
from dperm.datasets.numeric import Numeric
from dperm.errors import InvalidInput

Feature = Numeric | Date | Categorical | Hashed
"""What a schema declares of one column of the table."""

DEFAULT_HATS = 8
MOST_DEFAULT_HATS = 160
FEWEST_HATS = 3
FEWEST_DEFAULT_HATS = 4
MOST_CROSSED = 4096
"""Most columns that all crossed features of a schema may turn into."""


def default_hats(n_numbers: int, n_classes: int = 2) -> int:
    """How many hats each number gets where the schema declares nothing.

    Eight each for up to 20 numbers. More numbers share 160 hats evenly, and where that leaves fewer than four to
    each there are none. With more than two classes every hat has a coefficient for each of them, and they count.
    """
    outputs = n_classes if n_classes > 2 else 1
    share = min(DEFAULT_HATS, MOST_DEFAULT_HATS // max(n_numbers * outputs, 1))
    return share if share >= FEWEST_DEFAULT_HATS else 0


def with_hats(features: Sequence[Feature], spline: int | None, n_classes: int = 2) -> tuple[Feature, ...]:
    """The features, each number with the hats that it gets: its own, those of the schema, or the default."""
    open_to = [f for f in features if isinstance(f, Numeric | Date) and f.spline is None and not f.bins]
    hats = default_hats(len(open_to), n_classes) if spline is None else spline
    names = {feature.name for feature in open_to}
    return tuple(
        replace(feature, spline=hats)
        if isinstance(feature, Numeric | Date) and feature.name in names
        else feature
        for feature in features
    )


def parts_of(features: Sequence[Feature]) -> tuple[Leaf, ...]:
    """The blocks of the features: a date has several."""
    return tuple(
        part for feature in features for part in (feature.parts if isinstance(feature, Date) else (feature,))
    )


def check_cross(value: object) -> tuple[tuple[str, str], ...]:
    """Pairs of different names, no pair twice."""
    pairs: list[tuple[str, str]] = []
    for pair in check_list("cross", value):
        names = [check_text("cross", name) for name in check_list("cross", pair)]
        if len(names) != 2 or names[0] == names[1]:
            raise InvalidInput(f"cross must list pairs of two features; got {reprlib.repr(pair)}.")
        pairs.append((names[0], names[1]))
    if len({frozenset(pair) for pair in pairs}) != len(pairs):
        raise InvalidInput("cross must not hold a pair of features twice.")
    return tuple(pairs)


def crossed(parts: Sequence[Leaf], pairs: Sequence[tuple[str, str]]) -> tuple[Cross, ...]:
    """The blocks of all pairs of levels."""
    known: Mapping[str, Leaf] = {part.name: part for part in parts}
    blocks, total = [], 0
    for pair in pairs:
        for name in pair:
            if name not in known:
                raise InvalidInput(f"cross names {reprlib.repr(name)}, which is not a feature.")
            if not known[name].levels:
                raise InvalidInput(
                    f"cross needs categories or bins, which {reprlib.repr(name)} does not have."
                )
        block = Cross(left=known[pair[0]], right=known[pair[1]])
        total += block.n_columns
        if total > MOST_CROSSED:
            raise InvalidInput(
                f"cross turns into more than {MOST_CROSSED} columns with {reprlib.repr(block.name)}, which has "
                f"{block.n_columns}. Leave it out, or give one of the two fewer categories or bins."
            )
        blocks.append(block)
    return tuple(blocks)
