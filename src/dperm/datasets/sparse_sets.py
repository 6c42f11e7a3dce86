"""Data sets of text: RCV1 as published vectors, a made one, and files in the LIBSVM format."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.datasets.registry import FOLDER_VARIABLE, find, read_checked
from dperm.errors import DataUnavailable, InvalidInput
from dperm.schema.hashing import WordHash, bags_of_text, hashed_rows, scaled

_FILES = {
    "rcv1_X.npz": "643cb09e71f0f1ccb22e851cf36d522efef53ce3afcc8b804ebdefc72597af35",
    "rcv1_y.parquet": "36d2003ebd827bb24a20af47daae3f7bd22efed89b91cdd9d5d801a5d7a67bf4",
}
SUFFIXES = (".svm", ".libsvm", ".svmlight")
_NORM = 1 - 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseDataset:
    """Rows in a wide sparse matrix, or texts, with two or more labels.

    Attributes
    ----------
    name, source, licence : str
    rows : sparse array of shape (n, p), or list of str
    y : array of shape (n,)
    """

    name: str
    rows: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    source: str
    licence: str

    def hashed(self, n_columns: int) -> sparse.csr_array:
        """The rows hashed to so many columns and scaled to norm 1, as ``PublicHasher`` does."""
        words = WordHash(n_columns)
        if isinstance(self.rows, list):
            return scaled(hashed_rows(bags_of_text(self.rows), words), None, _NORM)
        return scaled(sparse.csr_array(self.rows @ words.of_columns(self.rows.shape[1])), None, _NORM)

    @property
    def X(self) -> sparse.csr_array:
        """The rows as they are, scaled to norm 1. Texts have columns only once they are hashed."""
        if isinstance(self.rows, list):
            raise InvalidInput(f"{self.name} holds texts: say to how many columns they are to be hashed.")
        return scaled(self.rows, None, _NORM)


def sparse_names() -> tuple[str, ...]:
    """Names that :func:`load_sparse` knows."""
    return "rcv1", "made-topics"


def load_sparse(name: str | os.PathLike[str]) -> SparseDataset:
    """A named set of text, or a file in the LIBSVM format."""
    if Path(name).suffix in SUFFIXES:
        return read_libsvm(name)
    loaders = {"rcv1": load_rcv1, "made-topics": made_topics}
    if name not in loaders:
        raise InvalidInput(f"there is no sparse data set {str(name)!r}; choose one of {', '.join(loaders)}.")
    return loaders[str(name)]()


def load_rcv1() -> SparseDataset:
    """27,695 newswire stories as cosine-normalised TF-IDF vectors of 47,236 words; the label is topic CCAT or not.

    The published vectors were weighed with document counts of the whole corpus, so their making is not part of any
    guarantee here: treat the vectors as the records.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = {}
    for file, digest in _FILES.items():
        path = find(file)
        if path is None:
            raise DataUnavailable(
                f"The records of 'rcv1' were not found. Put {' and '.join(_FILES)} into a folder and set "
                f"{FOLDER_VARIABLE} to it, or use 'made-topics', which is made when it is asked for."
            )
        content[file] = read_checked(path, digest)
    vectors, labels = content.values()
    return SparseDataset(
        name="rcv1",
        rows=sparse.csr_array(sparse.load_npz(io.BytesIO(vectors))),
        y=pq.read_table(pa.BufferReader(labels))["y_ccat"].to_numpy().astype(np.int64),
        source="RCV1-v2 (Lewis et al. 2004), the topic subsets 1 to 5 of LIBSVM and Mulan joined",
        licence="vectors freely distributed for research; cite Lewis et al. 2004",
    )


def made_topics(n_rows: int = 20_000, seed: int = 0) -> SparseDataset:
    """Texts that nobody wrote: words by Zipf's law, a tenth of them by the topic of the text, ten topics, two classes.

    A text has about 80 words of 30,000. Each topic prefers its own 300 words; five topics are class 1. Every number was
    chosen for a plain picture of text, and the same seed gives the same texts.
    """
    rng = np.random.default_rng(seed)
    n_words, n_topics, own = 30_000, 10, 300
    weight = 1 / (np.arange(n_words) + 10.0)
    usual = np.cumsum(weight / weight.sum())
    theirs = np.cumsum(weight[:own] / weight[:own].sum())
    favourites = rng.permuted(np.tile(np.arange(n_words), (n_topics, 1)), axis=1)[:, :own]
    topics = rng.integers(n_topics, size=n_rows)
    texts = []
    for topic in topics:
        length = 5 + rng.poisson(75)
        words = np.searchsorted(usual, rng.random(length)).clip(max=n_words - 1)
        special = rng.random(length) < 0.1
        drawn = np.searchsorted(theirs, rng.random(int(special.sum()))).clip(max=own - 1)
        words[special] = favourites[topic][drawn]
        texts.append(" ".join(f"w{word}" for word in words))
    return SparseDataset(
        name="made-topics",
        rows=texts,
        y=(topics >= n_topics // 2).astype(np.int64),
        source="made by dperm.datasets.sparse_sets.made_topics; nobody wrote these texts",
        licence="that of dperm",
    )


def read_libsvm(path: str | os.PathLike[str]) -> SparseDataset:
    """Rows ``label index:value ...`` with indices from 1; the highest index that occurs is the number of columns.

    That number tells of a row, so it is for evaluation; hashed rows do not depend on it.
    """
    from sklearn.datasets import load_svmlight_file

    file = Path(path)
    if not file.is_file():
        raise DataUnavailable(f"{file.name}: there is no such file.")
    try:
        rows, y = load_svmlight_file(str(file), zero_based=False)
    except Exception:
        rows = None  # its message may quote a row, so it is left behind here
    if rows is None or not np.isfinite(rows.data).all():
        raise InvalidInput(
            f"{file.name}: this is not a readable file in the LIBSVM format with indices from 1."
        )
    return SparseDataset(
        name=file.stem, rows=sparse.csr_array(rows), y=y, source=file.name, licence="as the file's owner says"
    )
