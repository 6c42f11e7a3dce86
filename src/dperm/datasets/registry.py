"""The named data sets: two bundled with the package, the others read from checked files or fetched.

Files are accepted only when their checksum is the published one. What scikit-learn fetches it checks itself, but the
rows may come in another order than in the checked files.
"""

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable
from dperm.errors import DataUnavailable, InvalidInput
from dperm.schema.encoding import encode, encode_codes, encode_target
from dperm.schema.features import Numeric, Target
from dperm.schema.schema import Schema
from dperm.schema.values import Category

FOLDER_VARIABLE = "DPERM_DATA"


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A named table of records with a public schema.

    Attributes
    ----------
    name : str
    table : pyarrow.Table
        The records as published, before any encoding.
    schema : Schema
    source, licence : str
        Where the records came from and on what terms.
    """

    name: str
    table: Any = field(repr=False)
    schema: Schema = field(repr=False)
    source: str
    licence: str

    @cached_property
    def X(self) -> NDArray[np.float64]:
        """Encoded rows, each of norm at most 1. Made at the first use, then kept."""
        return encode(self.table, self.schema)

    @cached_property
    def coded(self) -> CodedTable:
        """The same rows as codes and a few floats: a tenth of the size, and faster to train on."""
        return encode_codes(self.table, self.schema)

    @cached_property
    def y(self) -> NDArray[Any]:
        """Labels, one of :attr:`classes` each."""
        return encode_target(self.table, self.schema)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The declared labels; of two, the second is the positive one."""
        return self.schema.classes

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def part(self, name: str) -> "Dataset":
        """The rows of one part of a published split, usually ``train`` or ``test``."""
        import pyarrow.compute as pc

        if "split" not in self.table.column_names:
            raise InvalidInput(f"Dataset {self.name!r} was published without a split into parts.")
        rows = self.table.filter(pc.equal(self.table["split"], name))
        if rows.num_rows == 0:
            raise InvalidInput(
                f"Dataset {self.name!r} has no part {name!r}; the usual parts are train and test."
            )
        return replace(self, table=rows)

    def binary(self, negative: Category, positive: Category) -> "Dataset":
        """The rows of two of the declared classes, as a two-class dataset."""
        import pyarrow as pa
        import pyarrow.compute as pc

        target = self.schema.target
        if target.rest or negative == positive or not {negative, positive} <= set(target.classes):
            raise InvalidInput("binary needs two different classes that the schema lists by value.")
        column = self.table[target.name]
        wanted = pc.is_in(column, value_set=pa.array([negative, positive], type=column.type))
        schema = replace(self.schema, target=replace(target, classes=(negative, positive)))
        return replace(self, table=self.table.filter(wanted), schema=schema)


def data_folders() -> list[Path]:
    """Where data files are looked for: the folder named by ``DPERM_DATA``, or else ``shared/data`` in or
    beside the working directory and the source checkout."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return [Path(named)]
    checkout = Path(__file__).resolve().parents[3]
    roots = [Path.cwd(), checkout] if (checkout / "pyproject.toml").is_file() else [Path.cwd()]
    return [place / "shared" / "data" for root in roots for place in (root, root.parent)]


def find(file: str) -> Path | None:
    """The data file of this name, if one of the folders has it."""
    return next((folder / file for folder in data_folders() if (folder / file).is_file()), None)


def read_checked(path: Path, sha256: str) -> bytes:
    """The content of a file whose checksum is known."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidInput(
            f"{path.name} is not the published file: its sha256 differs from the expected {sha256}. "
            "Fetch the file again."
        )
    return content


BANK_COLUMNS = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month",
    "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip


def download_bank() -> Any:
    """OpenML 1461, which calls the columns V1 to V16 and the classes 1 and 2."""
    import pyarrow as pa
    from sklearn.datasets import fetch_openml

    frame = fetch_openml(data_id=1461, as_frame=True).frame.set_axis(list(BANK_COLUMNS), axis=1)
    frame["y"] = frame["y"].astype(str).map({"1": "no", "2": "yes"})
    return pa.Table.from_pandas(frame, preserve_index=False)


def download_kddcup99() -> Any:
    """The 10 % file of the original data, which scikit-learn fetches itself, text as bytes."""
    import pyarrow as pa
    from sklearn.datasets import fetch_kddcup99

    frame = fetch_kddcup99(percent10=True, as_frame=True).frame.rename(columns={"labels": "label"})
    columns = {}
    for name in frame.columns:
        text = name in ("protocol_type", "service", "flag", "label")
        columns[name] = frame[name].str.decode("ascii") if text else frame[name].astype(np.float64)
    return pa.table(columns)


def download_mnist() -> Any:
    """OpenML 554: 60,000 training images, then 10,000 test images."""
    from sklearn.datasets import fetch_openml

    pixels, digits = fetch_openml(data_id=554, as_frame=False, return_X_y=True)
    return mnist_table(pixels.astype(np.uint8), digits.astype(np.uint8))


PIXELS = [f"pixel{i}" for i in range(1, 785)]
TRAINING_IMAGES = 60_000


def mnist_schema() -> Schema:
    """Grey values from 0 to 255, with black, the background, moved to 0.

    Ink covers a small part of an image: a row has about a third of the norm of an image all white.
    """
    return Schema(
        target=Target(name="digit", classes=tuple(range(10))),
        features=tuple(Numeric(name=name, range=(0, 255), centre=0) for name in PIXELS),
        norm_share=1 / 3,
    )


def mnist_table(pixels: NDArray[np.uint8], digits: NDArray[np.uint8]) -> Any:
    """Columns ``pixel1`` to ``pixel784``, ``digit`` and ``split`` from images in the published order."""
    import pyarrow as pa

    by_pixel = np.ascontiguousarray(pixels.T)
    columns = dict(zip(PIXELS, map(pa.array, by_pixel), strict=True))
    split = np.where(np.arange(len(digits)) < TRAINING_IMAGES, "train", "test")
    return pa.table({**columns, "digit": digits, "split": split})


def read_mnist(content: bytes) -> Any:
    """The table in an ``.npz`` archive of the training and test images."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        pixels, digits = (np.concatenate([archive[f"{k}_train"], archive[f"{k}_test"]]) for k in "Xy")
    return mnist_table(pixels, digits)


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
        fetch=download_bank,
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
        fetch=download_kddcup99,
    ),
    "mnist": _Entry(
        file="mnist.npz",
        sha256="58c05ffd9880e3b6ddfe8c74b89ccc40c0da6f6152f4c5203a7c6a12919c2344",
        n_rows=70_000,
        source="MNIST (LeCun, Cortes and Burges), training and test images joined",
        licence="usually given as CC BY-SA 3.0",
        read=read_mnist,
        fetch=download_mnist,
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
        Splines for every number, 0 for none. Without it the schema decides, see ``docs/schema.md``.

    Raises
    ------
    DataUnavailable
        When the records are not at hand; the message says how to get them.
    InvalidInput
        When a file is found whose checksum is not the published one.
    """
    entry = _entry(name)
    schema = dataset_schema(name).with_spline(spline)
    path = _packaged(entry.file) if entry.bundled else find(entry.file)
    if path is not None:
        table, source = entry.read(read_checked(path, entry.sha256)), entry.source
    else:
        table, source = _fetch(name, entry, fetch), f"{entry.source}; fetched, not checked by checksum"
    return Dataset(name=name, table=table, schema=schema, source=source, licence=entry.licence)


def _fetch(name: str, entry: _Entry, allowed: bool) -> Any:
    advice = f"Put {entry.file} into a folder and set {FOLDER_VARIABLE} to it"
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
