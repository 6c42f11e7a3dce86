"""The named data sets: two bundled with the package, the others read from files or fetched."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dperm.datasets import download, sources
from dperm.datasets.dataset import Dataset
from dperm.datasets.mnist import mnist_schema, read_mnist
from dperm.datasets.schema import Schema
from dperm.errors import DataUnavailable, InvalidInput


def _read_parquet(content: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(content))


def _read_ipums(content: bytes) -> Any:
    """Columns c00 to c51 and y; every value is an integer below 256."""
    import pyarrow as pa

    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        by_column, labels = archive["X"].T.astype(np.uint8), archive["y"]
    return pa.table({**{f"c{j:02d}": column for j, column in enumerate(by_column)}, "y": labels})


@dataclass(frozen=True, kw_only=True)
class _Entry:
    file: str
    sha256: str
    n_rows: int
    source: str
    licence: str
    read: Callable[[bytes], Any] = _read_parquet
    fetch: Callable[[], Any] | None = None
    bundled: bool = False


_UCI = "CC BY 4.0 (UCI Machine Learning Repository)"

_ENTRIES = {
    "cps": _Entry(
        file="cps.parquet",
        sha256="588d3c539d06884b3b55057fd3a5455fac8165b061ed4b5f23de0aa3c0ab6c80",
        n_rows=61_395,
        source="US Current Population Survey, March 2005 (Bureau of Labor Statistics and Census Bureau); "
        "CPSSW8 of the R package AER, after Stock and Watson, Introduction to Econometrics (2007)",
        licence="work of the US government, public domain in the United States",
        bundled=True,
    ),
    "adult": _Entry(
        file="adult.parquet",
        sha256="f921192cdbd7576aa1cb3b8ad85609a13baff3ad6dc8c7cfa050680198d2e765",
        n_rows=48_842,
        source="UCI Adult (Census Income), training and test file joined; Becker and Kohavi (1996), "
        "https://doi.org/10.24432/C5XW20",
        licence=_UCI,
        bundled=True,
    ),
    "bank": _Entry(
        file="bank_full.parquet",
        sha256="914e474f32dd2672c95a8bd3edf5e7027b42975968d7b3b5d7cfabb0af9a0df2",
        n_rows=45_211,
        source="UCI Bank Marketing, bank-full.csv (Moro, Laureano and Cortez 2011)",
        licence=_UCI,
        fetch=download.bank,
    ),
    "ipums-br": _Entry(
        file="dpagd_ipums_br.npz",
        sha256="2deedb4ef76b5b08dfb94f7976750cdc9c99f52fe49b13679d46c37a0650822c",
        n_rows=38_000,
        source="IPUMS-International extract of the Brazilian census, as prepared by Lee and Kifer (KDD 2018)",
        licence="IPUMS terms of use: the records must not be passed on",
        read=_read_ipums,
    ),
    "kddcup99": _Entry(
        file="kddcup99_10_percent.parquet",
        sha256="1e91b00bd4a20203f96b9712809e41329005e0d589c98456d63182eaee7fd206",
        n_rows=494_021,
        source="KDD Cup 1999, 10 % training file",
        licence=_UCI,
        fetch=download.kddcup99,
    ),
    "mnist": _Entry(
        file="mnist.npz",
        sha256="58c05ffd9880e3b6ddfe8c74b89ccc40c0da6f6152f4c5203a7c6a12919c2344",
        n_rows=70_000,
        source="MNIST (LeCun, Cortes and Burges), training and test images joined",
        licence="usually given as CC BY-SA 3.0",
        read=read_mnist,
        fetch=download.mnist,
    ),
}

_BUNDLED = " or ".join(repr(name) for name, entry in _ENTRIES.items() if entry.bundled)


def dataset_names() -> tuple[str, ...]:
    """Names that :func:`load_dataset` knows. The first two, cps and adult, are always available."""
    return tuple(_ENTRIES)


def _entry(name: str) -> _Entry:
    if name not in _ENTRIES:
        raise InvalidInput(f"There is no data set {name!r}; choose one of {', '.join(_ENTRIES)}.")
    return _ENTRIES[name]


def _packaged(file: str) -> Path:
    return Path(__file__).parent / "data" / file


def dataset_schema(name: str) -> Schema:
    """The schema of a named data set, without its records."""
    _entry(name)
    return mnist_schema() if name == "mnist" else Schema.from_toml(_packaged(f"{name}.toml"))


def dataset_rows(name: str) -> int:
    """The published number of rows of a named data set."""
    return _entry(name).n_rows


def load_dataset(name: str, *, fetch: bool = True, spline: int | None = None) -> Dataset:
    """Load a named data set.

    Parameters
    ----------
    name : str
        One of :func:`dataset_names`.
    fetch : bool
        Whether a data set that is not found as a file may be fetched from the internet.
    spline : int, optional
        Hats for every number, 0 for none. Without it the schema decides, see ``docs/schema.md``.

    Raises
    ------
    DataUnavailable
        When the records are not at hand; the message says how to get them.
    InvalidInput
        When a file is found whose checksum is not the published one.
    """
    entry = _entry(name)
    schema = dataset_schema(name).with_spline(spline)
    path = _packaged(entry.file) if entry.bundled else sources.find(entry.file)
    if path is not None:
        table, source = entry.read(sources.read_checked(path, entry.sha256)), entry.source
    else:
        table, source = _fetch(name, entry, fetch), f"{entry.source}; fetched, not checked by checksum"
    return Dataset(name=name, table=table, schema=schema, source=source, licence=entry.licence)


def _fetch(name: str, entry: _Entry, allowed: bool) -> Any:
    advice = f"Put {entry.file} into a folder and set {sources.FOLDER_VARIABLE} to it"
    if entry.fetch is None or not allowed:
        raise DataUnavailable(
            f"The records of {name!r} were not found. {advice}, or use {_BUNDLED}, which are bundled."
        )
    try:
        table = entry.fetch()
    except Exception as error:  # whatever the network, the cache or a missing pandas may throw
        raise DataUnavailable(
            f"The records of {name!r} were not found and could not be fetched ({type(error).__name__}). "
            f"{advice}, try again with a network connection and pandas installed, or use {_BUNDLED}, which "
            "are bundled."
        ) from error
    if table.num_rows != entry.n_rows:
        raise DataUnavailable(
            f"The fetched {name!r} does not have the {entry.n_rows} published rows. {advice}."
        )
    return table


def load_cps() -> Dataset:
    """US Current Population Survey, bundled: hourly earnings above 16 dollars or not."""
    return load_dataset("cps")


def load_adult() -> Dataset:
    """UCI Adult, bundled: yearly income above 50,000 dollars or not, published in parts ``train`` and ``test``."""
    return load_dataset("adult")


def load_bank(*, fetch: bool = True) -> Dataset:
    """UCI Bank Marketing: whether a client subscribed to a term deposit."""
    return load_dataset("bank", fetch=fetch)


def load_ipums_br() -> Dataset:
    """Brazilian census extract with unnamed columns; never fetched, since it must not be passed on."""
    return load_dataset("ipums-br")


def load_kddcup99(*, fetch: bool = True) -> Dataset:
    """KDD Cup 1999, 10 % file: normal network connections against attacks of any kind."""
    return load_dataset("kddcup99", fetch=fetch)


def load_mnist(*, fetch: bool = True) -> Dataset:
    """MNIST: ten classes of digits, published in parts ``train`` and ``test``; ``binary(3, 8)`` takes two."""
    return load_dataset("mnist", fetch=fetch)
