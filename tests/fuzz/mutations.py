"""Random changes to bytes, to nested documents and to parameters. All randomness comes from the generator given."""

import copy
import math
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

_NUMBERS = [
    "0",
    "-1",
    "1e999",
    "-1e-999",
    "1e308",
    "5e-324",
    "NaN",
    "Infinity",
    "9" * 40,
    "0x10",
    "1_0",
    "+1",
    "01",
]
_MARKS = [
    '"',
    "'",
    '"""',
    "[",
    "]",
    "[[",
    "{",
    "}",
    ",",
    ",,",
    ".",
    "=",
    ":",
    "#",
    "\\",
    "\\u0000",
    "\\ud800",
    "\n",
]
_WORDS = [
    "null",
    "true",
    "nan",
    "inf",
    "name",
    "range",
    "target",
    "features",
    "1979-05-27T07:32:00Z",
    "\x00",
    "é",
    "\ufeff",
]
_TOKENS = [word.encode() for word in (*_NUMBERS, *_MARKS, *_WORDS)] + [
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r",
    b"[" * 300,
]

NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    0.5,
    -0.5,
    0.1,
    1e-9,
    1e-300,
    5e-324,
    1e9,
    1e150,
    1.7e308,
    math.inf,
    -math.inf,
    math.nan,
)
INTEGERS = (2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40)
DOCUMENT = (
    None,
    True,
    False,
    "",
    "x",
    "auto",
    "\ud800",
    "1",
    [],
    {},
    [None],
    {"name": 1},
    [[1.0]],
    "a" * 300,
)


def mutated_bytes(rng: Random, data: bytes, others: list[bytes]) -> bytes:
    """One to four changes: bits, bytes, slices cut, doubled or moved, tokens, or a piece of another text."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        data = _one_change(rng, data, others)
    return data


def _one_change(rng: Random, data: bytes, others: list[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + int(rng.expovariate(0.1)))
    head, part, tail = data[:start], data[start:end], data[end:]
    match rng.randrange(9):
        case 0 if tail:
            return head + part + bytes([tail[0] ^ (1 << rng.randrange(8))]) + tail[1:]
        case 1:
            return head + rng.randbytes(rng.randint(1, 4)) + tail
        case 2:
            return head + tail
        case 3:
            return head + part * rng.choice((2, 3, 50)) + tail
        case 4:
            other = rng.choice(others)
            from_ = rng.randrange(len(other) + 1)
            return head + other[from_ : from_ + rng.randint(1, 80)] + tail
        case 5:
            return data[: rng.randrange(len(data) + 1)]
        case 6:
            lines = data.split(b"\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            return b"\n".join(lines)
        case 7:
            lines = data.split(b"\n")
            rng.shuffle(lines)
            return b"\n".join(lines) if rng.random() < 0.3 else b"\n".join(sorted(lines, key=len))
    return head + rng.choice(_TOKENS) + tail


def document_value(rng: Random) -> Any:
    """A value such as JSON or TOML can hold."""
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, INTEGERS, DOCUMENT))))


def parameter(rng: Random) -> Any:
    """Anything a caller may put in place of a parameter."""
    odd = (
        b"x", (), (0, 1), (1, 0), ("a", "b"), {1, 2}, 1 + 2j, Decimal("0.1"), Fraction(1, 3), object(), len, int,
        np.float32(0.5), np.float64(math.nan), np.int64(3), np.bool_(True), np.array(1.0), np.array([1.0, 2.0]),
        np.array(["a"]), np.datetime64("2024-01-01"), range(3), bytearray(b"x"),
    )  # fmt: skip
    return rng.choice(odd) if rng.random() < 0.3 else document_value(rng)


def mutated_document(rng: Random, document: Any) -> Any:
    """A copy with one to four places changed."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        document = _changed(rng, document)
    return document


def _changed(rng: Random, document: Any) -> Any:
    places = list(_places(document))
    if not places:
        return document_value(rng)
    holder, key = rng.choice(places)
    value = holder[key]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("", "x", "name", "\ud800", f"{key}x"))] = value
        case 1:
            holder.insert(rng.randrange(len(holder) + 1), value)
        case 2 if isinstance(value, bool):
            holder[key] = not value
        case 2 if isinstance(value, int | float):
            holder[key] = rng.choice(
                (-value, value + 1, value * 2, value / 2, float(value), str(value), 0.0 * value)
            )
        case 2 if isinstance(value, str):
            holder[key] = rng.choice((value.upper(), value[:-1], value + "\n", value * 2, [value]))
        case 3:
            other, place = rng.choice(places)
            if other is not value and not _inside(value, other):
                holder[key] = copy.deepcopy(other[place])
        case 4:
            holder[key] = [value] if rng.random() < 0.5 else {"x": value}
        case _:
            holder[key] = document_value(rng)
    return document


def _places(document: Any) -> Any:
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])


def _inside(outer: Any, inner: Any) -> bool:
    return any(holder is inner or holder[key] is inner for holder, key in _places(outer))


CLAIMING = (
    *(
        "epsilon",
        "delta",
        "noise_scale",
        "sensitivity",
        "padded_sensitivity",
        "grid_exponent",
        "dimension",
        "count",
    ),
    *(
        "relation",
        "neighbours",
        "unit",
        "budget",
        "guarantee",
        "releases",
        "rows",
        "n_rows",
        "n_units",
        "max_rows",
        "x_norm",
    ),
    *(
        "l2",
        "lipschitz",
        "smoothness",
        "row_norm",
        "private",
        "secure",
        "source",
        "entropy",
        "local",
        "reason",
    ),
    *(
        "rows_per_person",
        "person_loss",
        "persons",
        "bounds",
        "around",
        "assumptions",
        "code",
        "values",
        "mu",
        "share",
        "thresholds",
    ),
    *("cost", "status", "parts", "event", "charge", "strict", "files", "bytes", "sha256", "person", "labels"),
)
"""Keys of what a claim rests on; a forger looks there first."""

WORDS = (
    *(
        "one row",
        "one person",
        "row",
        "person",
        "replace-one",
        "add-remove",
        "mean",
        "sum",
        "declared",
        "auto",
    ),
    *("operating system", "objective", "output", "ssp", "adassp", "dp-gd", "none", "spent", "open", "void"),
    *(
        "logistic",
        "weighted-logistic",
        "squared",
        "softmax",
        "fit",
        "search",
        "evaluate",
        "assumed",
        "not met",
        "caution",
        "",
    ),
    *(
        "assumed",
        "not met",
        "caution",
        "settings",
        "search-grid",
        "public-choice",
        "features",
        "learned-steps",
        "mechanism",
    ),
)


def forged(rng: Random, document: Any, others: list[Any]) -> Any:
    """A copy with one to four changes of somebody who knows the format: numbers, words and parts of other files."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        places = list(_places(document))
        if not places:
            break
        near = [place for place in places if place[1] in CLAIMING]
        document = _forged_at(
            rng, document, *rng.choice(near if near and rng.random() < 0.5 else places), others
        )
    return document


def _forged_at(rng: Random, document: Any, holder: Any, key: Any, others: list[Any]) -> Any:
    value = holder[key]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1:
            found = [
                h[k] for h, k in _places(rng.choice(others)) if k == key
            ]  # the same part of another file
            holder[key] = copy.deepcopy(rng.choice(found)) if found else value
        case 2:
            return _everywhere(document, value, _other_value(rng, value, document))
        case 3 if isinstance(value, list) and value:
            value.insert(rng.randrange(len(value) + 1), copy.deepcopy(rng.choice(value)))
        case 4:
            other, place = rng.choice([*_places(document)])
            if not (_inside(value, other) or _inside(other[place], holder)):
                holder[key], other[place] = other[place], value
        case _:
            holder[key] = _other_value(rng, value, document)
    return document


def _other_value(rng: Random, value: Any, document: Any) -> Any:
    """Something of the same kind, mostly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        factor = rng.choice((0.0, 0.1, 0.5, 0.9, 0.999, 1 - 1e-7, 1 + 1e-7, 1.001, 1.1, 2, 10, 1e6, 1e-6, -1))
        seen = [h[k] for h, k in _places(document) if type(h[k]) is type(value)]
        moved = value * factor
        return rng.choice(
            (moved, int(moved) if isinstance(value, int) else moved, rng.choice(seen), value + 1)
        )
    if isinstance(value, str):
        seen = [h[k] for h, k in _places(document) if isinstance(h[k], str)]
        return rng.choice((rng.choice(WORDS), rng.choice(seen), value[:-1], value + "x"))
    if value is None:
        return document_value(rng)
    return rng.choice((None, [], {}, [value]))


def _everywhere(document: Any, value: Any, other: Any) -> Any:
    """A copy in which a value stands no more: a number that a file tells in several places."""
    if isinstance(document, dict):
        return {key: _everywhere(inner, value, other) for key, inner in document.items()}
    if isinstance(document, list):
        return [_everywhere(inner, value, other) for inner in document]
    return copy.deepcopy(other) if type(document) is type(value) and document == value else document
