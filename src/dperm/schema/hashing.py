"""A public hash from words to columns and signs: the same on every machine, and without a vocabulary."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidInput

KEY = "dperm"
MOST_COLUMNS = 2**24
REPEATS = 8  # columns to which a projection takes each word
_WORD = re.compile(r"\w\w+")
Entry = tuple[tuple[int, ...], tuple[float, ...]]


@dataclass(frozen=True)
class WordHash:
    r"""Where words go among ``n_columns`` columns, and with which sign, by a keyed BLAKE2b hash.

    With ``repeats`` = 1 that is signed feature hashing (Weinberger et al. 2009): one column for each word. With more it
    is a sparse random projection (Kane and Nelson 2014): the columns are cut into as many parts, and a word goes to one
    column in each with sign and 1 / sqrt(repeats). Both keep inner products in expectation over the key.

    Guarantee
    ---------
    A function of the word, the key and the sizes alone: nothing is learned from any row.
    """

    n_columns: int
    key: str = KEY
    repeats: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.n_columns, bool) or not isinstance(self.n_columns, int | np.integer):
            raise InvalidInput("the number of hashed columns must be a whole number.")
        if not max(2, self.repeats) <= self.n_columns <= MOST_COLUMNS:
            raise InvalidInput(
                f"the number of hashed columns must lie between {max(2, self.repeats)} and {MOST_COLUMNS}; got "
                f"{self.n_columns}."
            )
        if not isinstance(self.key, str):
            raise InvalidInput("the key of the hash must be text; it is public.")

    def __call__(self, word: str) -> Entry:
        """The columns of a word and what it adds there."""
        return _hashed(self, word)

    def of_columns(self, n_features: int) -> sparse.csr_array:
        """The map of ``n_features`` numbered features, as a matrix."""
        return _of_columns(self, n_features)


@lru_cache(maxsize=2**18)
def _hashed(words: WordHash, word: str) -> Entry:
    # A lone surrogate, which text may hold, has bytes too.
    text, key = word.encode(errors="surrogatepass"), hashlib.sha256(words.key.encode()).digest()
    drawn = hashlib.blake2b(text, digest_size=8 * words.repeats, key=key, person=b"dperm words").digest()
    cuts = [words.n_columns * part // words.repeats for part in range(words.repeats + 1)]
    numbers = [int.from_bytes(drawn[8 * r : 8 * r + 8], "big") for r in range(words.repeats)]
    columns = tuple(cuts[r] + (number >> 1) % (cuts[r + 1] - cuts[r]) for r, number in enumerate(numbers))
    size = words.repeats**-0.5
    return columns, tuple(size if number & 1 else -size for number in numbers)


@lru_cache(maxsize=4)
def _of_columns(words: WordHash, n_features: int) -> sparse.csr_array:
    entries = [_hashed.__wrapped__(words, str(j)) for j in range(n_features)]
    columns = np.array([column for own, _ in entries for column in own], np.int32)
    signs = np.array([sign for _, own in entries for sign in own])
    edges = np.arange(n_features + 1) * words.repeats
    return sparse.csr_array((signs, columns, edges), shape=(n_features, words.n_columns))


def words_of(text: str, longest: int = 1) -> Iterator[str]:
    """Runs of at least two letters or digits, in small letters; with ``longest`` above 1 also of neighbours."""
    found = _WORD.findall(text.lower())
    yield from found
    for length in range(2, longest + 1):
        for first in range(len(found) - length + 1):
            yield " ".join(found[first : first + length])


def hashed_rows(bags: Iterable[Mapping[str, float]], words: WordHash) -> sparse.csr_array:
    """One row for each bag of words: the sum of what its words add, times their numbers."""
    data: list[float] = []
    columns: list[int] = []
    edges = [0]
    for bag in bags:
        for word, number in bag.items():
            places, signs = words(word)
            columns.extend(places)
            data.extend(number * sign for sign in signs)
        edges.append(len(columns))
    rows = sparse.csr_array(
        (np.array(data, np.float64), np.array(columns, np.int32), np.array(edges)),
        shape=(len(edges) - 1, words.n_columns),
    )
    rows.sum_duplicates()
    return rows


def bags_of_text(texts: Sequence[Any], longest: int = 1) -> Iterator[Counter[str]]:
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise InvalidInput("a list of texts must hold text and nothing else.")
        yield Counter() if text is None else Counter(words_of(text, longest))


def scaled(rows: sparse.csr_array, bound: float | None, norm: float) -> sparse.csr_array:
    """Rows of at most this norm: all of them exactly as long (``bound`` None), or those beyond the bound cut there.

    A row of zeros stays one. What happens to a row depends on that row alone.
    """
    largest = np.asarray(abs(rows).max(axis=1).todense()).ravel() if rows.nnz else np.zeros(rows.shape[0])
    unit = np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor vanish
    relative: sparse.csr_array = sparse.diags_array(1 / unit) @ rows
    squares = sparse.csr_array((relative.data**2, relative.indices, relative.indptr), shape=rows.shape)
    lengths: NDArray[np.float64] = np.sqrt(np.asarray(squares @ np.ones(rows.shape[1])))
    if bound is None:
        factor = norm / np.where(lengths > 0, lengths, 1.0)
    else:
        share = unit / bound  # of the bound, in units of the largest entry
        factor = norm * np.minimum(share, 1 / np.where(lengths > 0, lengths, 1.0))
    return sparse.csr_array(sparse.diags_array(factor) @ relative)
