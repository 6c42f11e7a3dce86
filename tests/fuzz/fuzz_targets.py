"""Everything in dperm that takes input from strangers, as targets of the fuzzer."""

import copy
import functools
import gzip
import io
import json
import math
import os
import random
import re
import sqlite3
import sys
from contextlib import closing, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_harness import (
    DISGUISED,
    SECRET_DATE,
    SECRET_NUMBER,
    SECRET_NUMBERS,
    SECRET_TEXT,
    SECRETS,
    Target,
    check_silence,
    refusals_pass,
)

import dperm
from dperm import (
    Ledger,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PublicEncoder,
)
from dperm.certificate import verify
from dperm.certificate.statement import file_digest, model_digest
from dperm.certificate.words import meaning
from dperm.errors import DataUnavailable, DpermError
from dperm.ledger.history import next_head
from dperm.mechanisms import mechanism_names, resolve
from dperm.models import read_document, read_model, save_model
from dperm.privacy.cost import Cost
from dperm.release import Release, page
from dperm.schema import Schema, check_schema, encode, encode_target, feature_names, read_table
from dperm.schema.drafts import draft_schema, read_codebook
from dperm.schema.readers import column_types
from dperm.strict_json import digest
from mutations import document_value, mutated_bytes, mutated_document, parameter

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(dperm.__file__).parent

TABLE_SCHEMA = {
    "target": {"name": "label", "classes": ["no", "yes"]},
    "file": {"encoding": "utf-8", "sheet": "people"},
    "rows": {"cross": [["town", "age"], ["seen weekday", "rooms"]]},
    "features": {
        "seen": {
            "date": ["2015-01-01", "2025-12-31"],
            "format": "%d.%m.%Y",
            "cycles": ["month", "weekday"],
            "missing": ["?"],
            "indicator": True,
        },
        "age": {"range": [0, 100], "missing": [-1], "indicator": True, "bins": [20, 60]},
        "income": {"range": [0, 1e5], "log": True, "centre": 100.0},
        "town": {"categories": ["north", "south"], "missing": ["?"], "missing_as": "north", "fold": True},
        "rooms": {"categories": [1, 2, 3]},
        "owner": {"categories": [False, True]},
    },
}
RECORDS = {
    "seen": ["31.12.2019", str(SECRET_DATE), "?", None, "2020-02-29 13:30", ""],
    "age": [30.0, -1.0, SECRET_NUMBER, None, 987654321.125, 40.0],
    "income": [0.0, 1e9, SECRET_NUMBER, math.nan, -987654321.125, 5.0],
    "town": ["north", SECRET_TEXT, "?", None, "Only child", f"Input X contains {SECRET_TEXT}"],
    "rooms": [1, 2, 7731, None, 3, 1],
    "owner": [True, False, None, True, True, False],
    "label": ["no", "yes", "no", "yes", "no", "yes"],
    "note": [SECRET_TEXT] * 6,
}
SPOILT_CELLS = [str(secret).replace(",", ";").replace("\n", " ").encode() for secret in SECRETS]


@functools.cache
def schema_texts() -> list[bytes]:
    """The examples of the guide and the bundled schemas that are short enough to be changed in an interesting place."""
    guide = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    texts = [text for text in re.findall(r"```toml\n(.*?)```", guide, re.DOTALL) if "[target]" in text]
    texts += [(SOURCE / "datasets" / "data" / name).read_text("utf-8") for name in ("cps.toml", "adult.toml")]
    return [text.encode() for text in (*texts, Schema.from_dict(TABLE_SCHEMA).to_toml())]


@functools.cache
def schema_documents() -> list[dict[str, Any]]:
    import tomllib

    return [tomllib.loads(text.decode()) for text in schema_texts()]


def csv_text() -> bytes:
    def cell(value: Any) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    lines = [",".join(RECORDS), *(",".join(map(cell, row)) for row in zip(*RECORDS.values(), strict=True))]
    return ("\n".join(lines) + "\n").encode()


def spoilt_csv(rng: random.Random) -> bytes:
    """With a secret in a cell, whatever its column is declared to hold."""
    lines = [line.split(b",") for line in csv_text().splitlines()]
    row = rng.choice(lines[1:])
    row[rng.randrange(len(row))] = rng.choice(SPOILT_CELLS)
    return b"\n".join(map(b",".join, lines)) + b"\n"


def parquet_bytes() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table(RECORDS), buffer)
    return buffer.getvalue()


@functools.cache
def model_texts() -> tuple[bytes, ...]:
    """Saved models of several mechanisms and all estimators."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) / 3
    signs, numbers = (X[:, 0] > 0).astype(int), X[:, 0]
    schema = Schema.from_dict(
        {
            "target": {"name": "y", "classes": [0, 1]},
            "features": {k: {"range": [-1, 1], "spline": 0} for k in "ab"},
        }
    )
    logistic = [
        "output",
        "ssp",
        "rsgd-ar",
        "objective",
        "bolt-on",
        "frank-wolfe",
        "none",
        dperm.mechanisms.DPGD(steps=5),
    ]
    cases: list[tuple[Any, Any]] = [(PrivateLogisticRegression(mechanism=name), signs) for name in logistic]
    cases += [
        (PrivateLogisticRegression(mechanism="output", classes=[0, 1, 2]), np.digitize(numbers, [-0.1, 0.1])),
        (PrivateLinearSVC(mechanism="output:paper", epsilon=0.5), np.where(signs == 1, "yes", "no")),
        (
            PrivateLinearRegression(
                mechanism="adassp", y_range=(-1, 1), neighbours="add-remove", max_rows=70
            ),
            numbers,
        ),
        (
            PrivateLogisticRegression(
                mechanism=dperm.mechanisms.NoisySGD(epochs=2, batch_size=20), random_state=1
            ),
            signs,
        ),
    ]
    texts = []
    path = Path(os.devnull)
    for place, (estimator, y) in enumerate(cases):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            save_model(estimator.fit(X, y), path, schema=schema if place < 3 else None)
            texts.append(path.read_bytes())
    return tuple(texts)


def resealed(document: Any) -> Any:
    """With the digests that fit, as a careful forger would leave them."""
    with suppress(Exception):
        certificate = {key: value for key, value in document["certificate"].items() if key != "digest"}
        certificate["model"]["sha256"] = model_digest(document)
        document["certificate"] = {**certificate, "digest": digest(certificate)}
        document["digest"] = file_digest(document)
    return document


def json_bytes(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


class SchemaFile(Target):
    """TOML text, changed byte by byte."""

    name, share = "schema file", 250

    def make(self, rng: random.Random) -> bytes:
        return mutated_bytes(rng, rng.choice(schema_texts()), schema_texts())

    def run(self, value: bytes) -> None:
        path = self.folder / "schema.toml"
        path.write_bytes(value)
        check_schema_comes_back(Schema.from_toml(path), path)


class SchemaDocument(Target):
    """Nested dictionaries, changed in their structure."""

    name, share = "schema document", 200

    def make(self, rng: random.Random) -> Any:
        return mutated_document(rng, rng.choice(schema_documents()))

    def run(self, value: Any) -> None:
        check_schema_comes_back(Schema.from_dict(value), self.folder / "schema.toml")


def check_schema_comes_back(schema: Schema, path: Path) -> None:
    assert Schema.from_dict(schema.to_dict()) == schema
    path.write_text(schema.to_toml(), encoding="utf-8", newline="")
    assert Schema.from_toml(path) == schema
    assert len(set(feature_names(schema))) == schema.n_columns
    assert schema.settled().blocks == schema.blocks


def check_encoding(table: Any, schema: Schema) -> None:
    rows = encode(table, schema)
    assert np.isfinite(rows).all()
    assert (np.einsum("ij,ij->i", rows, rows) <= 1).all()
    assert set(encode_target(table, schema).tolist()) <= set(schema.classes)


def check_findings(table: Any, schema: Schema) -> None:
    """A comparison of a table with a schema tells counts and never a cell."""
    found = check_schema(table, schema)
    check_silence(str(found) + json.dumps(found.to_dict()))


class CsvFile(Target):
    """CSV text, with a secret where it does not belong or changed byte by byte, read with a schema or without."""

    name, share = "CSV file", 80

    def make(self, rng: random.Random) -> bytes:
        text = csv_text() if rng.random() < 0.6 else spoilt_csv(rng)
        return text if rng.random() < 0.2 else mutated_bytes(rng, text, [csv_text()])

    def run(self, value: bytes) -> None:
        path, schema = self.folder / "table.csv", Schema.from_dict(TABLE_SCHEMA)
        path.write_bytes(value)
        with refusals_pass():  # kinds are guessed here, so either may be refused
            check_encoding(read_table(path), schema)
        with refusals_pass():
            check_findings(read_table(path, schema, as_text=True), schema)
            draft_schema(column_types(path))
        check_encoding(read_table(path, schema), schema)


class CodeBook(Target):
    """Code books, changed byte by byte: what they become is a schema or is refused as one."""

    name, share = "code book", 20
    whole = (
        b"name;type;min;max;categories;missing;unit;format;note\nage;number;0;100;;-1|?;years;;its age\n"
        b"town;category;;;north|south;?;;;\nseen;date;01.01.2015;31.12.2025;;;;%d.%m.%Y;\nowner;bool;;;;;;;\n"
        b"rooms;code;;;1=one, 2=two;9;;;\nnote;text;;;;;;;\nlabel;;;;no,yes;;;;\n"
    )

    columns = ("seen", "age", "town", "rooms", "owner", "note", "label")

    def make(self, rng: random.Random) -> bytes:
        return mutated_bytes(rng, self.whole, [self.whole])

    def run(self, value: bytes) -> None:
        path, draft = self.folder / "book.csv", self.folder / "draft.toml"
        path.write_bytes(value)
        draft.write_text(draft_schema(dict.fromkeys(self.columns), "label", read_codebook(path)), "utf-8")
        check_schema_comes_back(Schema.from_toml(draft), draft)


class ParquetFile(Target):
    name, share = "Parquet file", 30

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.whole = parquet_bytes()

    def make(self, rng: random.Random) -> bytes:
        return mutated_bytes(rng, self.whole, [self.whole])

    def run(self, value: bytes) -> None:
        path, schema = self.folder / "table.parquet", Schema.from_dict(TABLE_SCHEMA)
        path.write_bytes(value)
        check_encoding(read_table(path, schema), schema)


class Columns(Target):
    """Columns of every kind of value in a dictionary, given to a valid or a changed schema."""

    name, share = "columns", 80

    def make(self, rng: random.Random) -> dict[str, Any]:
        columns = dict(copy.deepcopy(RECORDS))
        for name in rng.sample(list(columns), rng.choice((1, 1, 2, 4))):
            columns[name] = self._column(rng, columns[name])
        if rng.random() < 0.1:
            del columns[rng.choice(list(columns))]
        return columns

    def _column(self, rng: random.Random, column: list[Any]) -> Any:
        column = list(column)
        for _ in range(rng.choice((1, 2, 4))):
            odd = (10**30, b"S3CR3T-7731", [SECRET_TEXT], np.datetime64(SECRET_DATE), parameter(rng))
            value = rng.choice(SECRETS if rng.random() < 0.6 else odd)
            column[rng.randrange(len(column))] = value
        match rng.randrange(6):
            case 0:
                return column[: rng.randrange(len(column) + 1)]
            case 1:
                array = np.empty(len(column), dtype=object)
                array[:] = column
                return array
            case 2:
                kind = rng.choice(("f2", "f4", "i4", "c8", "M8[s]", "U9", "S9", "?"))
                with np.errstate(all="ignore"):
                    return np.array([rng.choice(SECRET_NUMBERS)] * len(column)).astype(kind)
            case 3:
                return parameter(rng)
        return column

    def run(self, value: dict[str, Any]) -> None:
        for frame in frames_of(value):
            with refusals_pass():
                check_encoding(frame, Schema.from_dict(TABLE_SCHEMA))
        PublicEncoder(TABLE_SCHEMA).fit(value).transform(value)
        with refusals_pass():
            check_findings(value, Schema.from_dict(TABLE_SCHEMA))
        check_encoding(value, Schema.from_dict(TABLE_SCHEMA))


def frames_of(columns: dict[str, Any]) -> list[Any]:
    """The same columns as frames of other libraries, as far as these accept them."""
    import pandas
    import polars
    import pyarrow

    frames = []
    for kind in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        with suppress(BaseException):  # polars panics with an error of its own
            frames.append(kind(columns))
    return frames


class ModelFile(Target):
    """Saved models, changed byte by byte."""

    name, share = "model file", 130

    def make(self, rng: random.Random) -> bytes:
        return mutated_bytes(rng, rng.choice(model_texts()), list(model_texts()))

    def run(self, value: bytes) -> None:
        path = self.folder / "model.json"
        path.write_bytes(value)
        check_model(path)


class ModelDocument(Target):
    """Saved models, changed in their structure, half of them with digests that fit again."""

    name, share = "model document", 90

    def make(self, rng: random.Random) -> Any:
        document = mutated_document(rng, json.loads(rng.choice(model_texts())))
        return resealed(document) if rng.random() < 0.5 else document

    def run(self, value: Any) -> None:
        path = self.folder / "model.json"
        path.write_bytes(json_bytes(value))
        check_model(path)


def check_model(path: Path) -> None:
    """A model that loads can be used, described and saved, and comes back the same."""
    model, schema = read_model(path)
    predictions = model.predict(np.full((2, model.n_features_in_), 0.5))
    str(model.privacy_)
    save_model(model, path, schema)
    again, _ = read_model(path)
    assert np.array_equal(again.predict(np.full((2, model.n_features_in_), 0.5)), predictions)


class Certificate(Target):
    """Certificates with digests that fit, given to the verifier, which must answer and never raise."""

    name, share = "certificate", 20

    def make(self, rng: random.Random) -> Any:
        document = json.loads(rng.choice(model_texts()))
        changed = mutated_document(rng, document["certificate"])
        return resealed({**document, "certificate": changed})

    def run(self, value: Any) -> None:
        path = self.folder / "model.json"
        path.write_bytes(json_bytes(value))
        document = read_document(path)
        verdict = verify(document)
        str(verdict)
        estimator, _ = read_model(path)
        meaning(estimator.certificate_, verdict)
        page(Release(name=path.name, statement=estimator.certificate_, verdict=verdict, estimator=estimator))


class LedgerFile(Target):
    """Ledgers whose bytes, cells or history were changed: refused and left alone, or used without losing a charge."""

    name, share = "ledger file", 15
    charges = 3

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "budget.db"
        ledger = Ledger.create(self.path, epsilon=2.0, delta=1e-7)
        for mu in (
            0.1,
            0.2,
            0.05,
        ):  # a mixture of kinds would be composed numerically, seconds for every input
            ledger.charge(Cost.gaussian(mu), label="fuzz")
        self.whole = self.path.read_bytes()
        charge = {**ledger.entries()[0].to_dict(), "event": "charge", "status": "open"}
        self.events = [
            charge,
            {"event": "cap", "dataset": "default", "epsilon": 1.5, "delta": 1e-7, "unit": "row"},
            {"event": "partitions", "dataset": "default", "names": ["a", "b"], "fixed_membership": True},
            {"event": "settle", "charge": 1, "status": "void"},
        ]

    def make(self, rng: random.Random) -> bytes | list[Any]:
        if rng.random() < 0.6:
            return mutated_bytes(rng, self.whole, [self.whole, b"SQLite format 3\x00"])
        if rng.random() < 0.3:
            column = rng.choice(("event", "event", "head"))
            return [column, rng.choice((-1.0, 1e400, "", "void", "[]", b"\xff", ascii(document_value(rng))))]
        return ["forged", json_bytes(mutated_document(rng, rng.choice(self.events))).decode("ascii")]

    def run(self, value: bytes | list[Any]) -> None:
        self._put(self.whole)
        before = self._opened_whole()
        self._change(value)
        changed = self.path.read_bytes()
        try:
            opened = Ledger(self.path, epsilon=2.0, delta=1e-7)  # with the caps that it was made with
        except DpermError:
            assert self.path.read_bytes() == changed, "a refused file was changed"
            raise
        if value[0] == "forged":
            # Whoever computes the hashes anew may write what they like after the last anchor.
            opened.to_dict()
            before.spent()
            return
        self._check(opened)
        self._check(before)

    def _opened_whole(self) -> Ledger:
        try:
            return Ledger(self.path)
        except DpermError as error:  # then the inputs after it would all be refused, whatever they hold
            raise AssertionError("an untouched ledger was refused") from error

    def _put(self, data: bytes) -> None:
        for name in ("budget.db-wal", "budget.db-shm", "budget.db-journal"):
            (self.folder / name).unlink(missing_ok=True)
        self.path.write_bytes(data)

    def _change(self, value: bytes | list[Any]) -> None:
        if isinstance(value, bytes):
            self._put(value)
            return
        if len(value) != 2:
            return
        with (
            closing(sqlite3.connect(self.path, isolation_level=None)) as connection,
            suppress(sqlite3.Error, UnicodeError),
        ):
            last = "(SELECT max(id) FROM events)"
            if value[0] == "forged":
                (head,) = connection.execute(f"SELECT head FROM events WHERE id = {last}").fetchone()
                forged = (value[1], next_head(head, value[1]))
                connection.execute("INSERT INTO events (event, head) VALUES (?, ?)", forged)
            else:
                connection.execute(f"UPDATE events SET {value[0]} = ? WHERE id = {last}", (value[1],))

    def _check(self, ledger: Ledger) -> None:
        entries = ledger.entries()
        assert len(entries) >= self.charges, "charges were lost"
        ledger.to_dict()
        spent = ledger.spent()
        ledger.charge(Cost.gaussian(0.01))
        assert len(ledger.entries()) == len(entries) + 1
        assert ledger.spent() >= spent


class CommandLine(Target):
    """Arguments drawn from the commands' own options, then shuffled, dropped, doubled and spoilt."""

    name, share = "command line", 60
    numbers = (
        "0",
        "1",
        "-1",
        "2",
        "0.5",
        "1e-8",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "x",
        "",
        "1e-400",
        "99999999999999999999",
    )
    words = (
        "auto",
        "output",
        "ssp:paper",
        "output:",
        "nosuch",
        "logistic",
        "svm",
        "add-remove",
        "rsgd-ar epochs=2",
        "é",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder / "cli"
        self.folder.mkdir()
        ledger = folder / "small.db"
        Ledger.create(ledger, epsilon=1.0, delta=1e-7)
        self.files = {
            "people.csv": csv_text(),
            "spoilt.csv": spoilt_csv(random.Random(1)),
            "child.csv": csv_text().replace(b"30.0", b"Only child"),
            "people.tsv": csv_text().replace(b",", b"\t"),
            "spoilt.csv.gz": gzip.compress(spoilt_csv(random.Random(2)), mtime=0),
            "broken.xlsx": b"PK\x03\x04",
            "book.csv": CodeBook.whole,
            "people.toml": schema_texts()[-1],
            "people.parquet": parquet_bytes(),
            "model.json": model_texts()[0],
            "three.json": model_texts()[8],
            "budget.db": ledger.read_bytes(),
            "broken.json": b"{",
        }
        self.commands = _without_long_work()

    def make(self, rng: random.Random) -> list[str]:
        path, command = rng.choice(self.commands)
        arguments = list(path)
        for option in command.params:
            if option.param_type_name == "argument":
                arguments += [self._value(rng, option)] * rng.choice((1, 1, 1, 0, 2))
            elif option.required or rng.random() < 0.25:
                arguments.append(rng.choice(option.opts))
                if not option.is_flag or rng.random() < 0.05:
                    arguments.append(self._value(rng, option))
        for _ in range(rng.choice((0, 0, 1, 1, 3))):
            arguments = self._spoilt(rng, arguments)
        return arguments

    def _value(self, rng: random.Random, option: Any) -> str:
        choices = getattr(option.type, "choices", None)
        if choices and rng.random() < 0.9:
            return str(rng.choice(list(choices)))
        if option.type.name in ("float", "integer", "integer range", "float range"):
            return rng.choice(self.numbers if rng.random() < 0.5 else self.numbers[1:6])
        if rng.random() < 0.6:
            return rng.choice((*self.files, "out.json", "out.csv", "no/such", ".", "", "cps"))
        return rng.choice((*self.words, *self.numbers))

    def _spoilt(self, rng: random.Random, arguments: list[str]) -> list[str]:
        place = rng.randrange(len(arguments) + 1)
        head, tail = arguments[:place], arguments[place:]
        match rng.randrange(5):
            case 0:
                return head + tail[1:]
            case 1:
                return head + tail[:1] * 2 + tail[1:]
            case 2:
                return rng.sample(arguments, len(arguments))
            case 3 if tail:
                text = (
                    mutated_bytes(rng, tail[0].encode("utf-8", "surrogateescape"), [b"--x"])
                    .replace(b"/", b"_")
                    .replace(b"\0", b"")
                )
                return [*head, text[:200].decode("utf-8", "surrogateescape"), *tail[1:]]
        return [
            *head,
            rng.choice(("--help", "--", "-", "--nosuch", "--json", "", "\udcff", *self.words)),
            *tail,
        ]

    def run(self, value: list[str]) -> None:
        from dperm.cli.app import run

        for file in self.folder.iterdir():
            if file.is_file():
                file.unlink()
        for name, data in self.files.items():
            (self.folder / name).write_bytes(data)
        before, streams = os.getcwd(), (sys.stdout, sys.stderr)
        shown = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in streams]
        os.chdir(self.folder)
        sys.stdout, sys.stderr = shown
        try:
            code = run(value)
        finally:
            sys.stdout, sys.stderr = streams
            os.chdir(before)
        texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in shown]
        check_silence(*texts)
        assert code in (0, 1, 2), f"exit code {code}"
        assert code == 0 or any(texts), f"exit code {code} without a word"
        assert not any("Traceback" in text for text in texts), "a traceback was shown"
        if code:
            raise _Said(texts[1])


class _Said(DpermError):
    """The command refused; counted like a refusal of the library."""


def _without_long_work() -> list[tuple[tuple[str, ...], Any]]:
    """Every command with its path; what would train for minutes is cut off behind the checks of the arguments."""
    import dperm.cli.app
    import dperm.cli.compare
    import dperm.cli.data
    import dperm.experiments.compare
    import dperm_audit.examination
    import dperm_audit.self_test

    def stop(*args: Any, **settings: Any) -> Any:
        raise DataUnavailable("the work begins here, and the fuzzer stops.")

    small = functools.cache(dperm.cli.data.load_dataset)
    dperm.cli.data.load_dataset = lambda name: small(name) if name == "cps" else stop()
    dperm.experiments.compare.compare = stop
    dperm_audit.examination.audit_all = stop
    dperm_audit.self_test.self_test = stop
    own = dperm.cli.app.cli
    more = {name: own.get_command(None, name) for name in own.list_commands(None) if name not in own.commands}
    if "dperm_papers" in sys.modules:
        papers = sys.modules["dperm_papers.cli.reproduce"], sys.modules["dperm_papers.cli.curvature"]
        papers[0]._reproduce = papers[0]._write_docs = papers[1].load = stop

    def walk(path: tuple[str, ...], command: Any) -> Any:
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk((*path, name), inner)
        if not hasattr(command, "commands"):
            yield path, command

    return [*walk((), own), *(found for name, command in more.items() for found in walk((name,), command))]


ESTIMATORS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)
FAST = ("output", "ssp", "adassp", "auto", "none", "majority", "objective", "output-gd", "rsgd-ar")


def fit_and_predict(estimator: Any, X: Any, y: Any, new: Any) -> None:
    estimator.fit(X, y)
    str(estimator.privacy_)
    assert np.isfinite(getattr(estimator, "best_estimator_", estimator).coef_).all()
    estimator.predict(new)


class Rows(Target):
    """Rows and labels of every shape and kind, to fit, to predict and to score, or to search with."""

    name, share, scikit_learn = "rows", 15, True

    def make(self, rng: random.Random) -> list[Any]:
        kind = rng.choice((*ESTIMATORS, *ESTIMATORS, PrivateSearchCV))
        fast = rng.choice(("adassp", "auto", "output") if kind is PrivateLinearRegression else FAST)
        n, p = rng.choice((1, 2, 3, 6, 6)), rng.choice((1, 2, 3))
        X, new = self._array(rng, (n, p)), self._array(rng, (2, p))
        y = self._labels(rng, n, kind)
        if rng.random() < 0.3:
            y = np.resize([0, 1], n)
        elif rng.random() < 0.5:
            X = np.full((n, p), 0.1)
        settings = {"mechanism": fast, "classes": rng.choice((None, [0, 1], [0, 1, 2]))}
        if kind is PrivateLinearRegression:
            settings = {"mechanism": fast, "y_range": (-1.0, 1.0)}
        elif kind is PrivateSearchCV:
            settings["mechanism"] = "output"
        return [(kind, settings), X, y, new, self._labels(rng, 2, kind)]

    def _array(self, rng: random.Random, shape: tuple[int, ...]) -> Any:
        size = math.prod(shape)
        usual = (0.1, -0.5, 0.0, rng.choice(SECRET_NUMBERS))
        values = np.array([rng.choice(usual) for _ in range(size)]).reshape(shape)
        for _ in range(rng.choice((0, 1, 1, 3))):
            odd = (math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, 1e-310, SECRET_NUMBER, 1e200)
            values.flat[rng.randrange(values.size)] = rng.choice(odd)
        match rng.randrange(16):
            case 0:
                with np.errstate(all="ignore"):
                    return values.astype(
                        rng.choice(("f2", "f4", "i4", "u1", "?", "c16", "g", "M8[s]", "S12", "V4"))
                    )
            case 1:
                return rng.choice((values.astype(str), np.full(shape, rng.choice(DISGUISED))))
            case 2:
                mixed = values.astype(object)
                odd = (None, 10**400, [SECRET_TEXT], {}, b"x", np.datetime64(SECRET_DATE))
                mixed.flat[rng.randrange(mixed.size)] = rng.choice(SECRETS if rng.random() < 0.7 else odd)
                return mixed
            case 3:
                return values.reshape(rng.choice(((-1,), (1, *shape), (*shape[::-1],))))
            case 4:
                return values[: rng.randrange(len(values) + 1)]
            case 5:
                return values.tolist()
            case 6:
                ragged = values.tolist()
                ragged[0] = rng.choice(([], [rng.choice(SECRETS)], SECRET_NUMBER, None, [[SECRET_NUMBER]]))
                return ragged
            case 7:
                import pandas

                cells = values.astype(object)
                if rng.random() < 0.5:
                    cells.flat[rng.randrange(cells.size)] = rng.choice(SECRETS)
                return pandas.DataFrame(
                    cells.tolist(), columns=rng.choice((None, list("abc")[: values[0].size]))
                )
            case 8:
                from scipy.sparse import csr_array

                return csr_array(np.nan_to_num(values))
            case 9:
                return np.ma.masked_greater(values, 1.0)
            case 10:
                return rng.choice(
                    (None, 3, *SECRETS, [], [[]], {}, {"a": [SECRET_NUMBER]}, np.array(SECRET_TEXT), object())
                )
        return values

    def _labels(self, rng: random.Random, n: int, kind: type) -> Any:
        match rng.randrange(8):
            case 0:
                return self._array(rng, (n,))
            case 1:
                return [rng.choice((rng.choice(DISGUISED), "other")) for _ in range(n)]
            case 2:
                return np.array([rng.choice((0, 1, rng.choice(SECRET_NUMBERS))) for _ in range(n)])
            case 3:
                odd = (0, "1", None, rng.choice(SECRETS), b"x", 1.5, True, (1,))
                return [rng.choice(odd) for _ in range(n)]
            case 4:
                return np.resize([[0], [1]], (n, 1))
            case 5:
                return np.resize([0, 1, 2], n + rng.choice((-1, 0, 1)) if n > 1 else n)
        return np.resize([0, 1], n) if kind is not PrivateLinearRegression else np.linspace(-1, 1, n)

    def run(self, value: list[Any]) -> None:
        (kind, settings), X, y, new, labels = (
            value if len(value) == 5 else [(PrivateLinearSVC, {}), *[None] * 4]
        )
        if kind is PrivateSearchCV:
            inner = PrivateLogisticRegression(**settings)
            estimator = PrivateSearchCV(
                inner, {"l2": [0.1, 1.0]}, epsilon=1.0, delta=1e-6, mean_candidates=2.0
            )
        else:
            estimator = kind(**settings)
        fit_and_predict(estimator, X, y, new)
        estimator.score(new, labels)


class Settings(Target):
    """Anything at all as a parameter of an estimator, of a search or as a setting of a mechanism."""

    name, share, scikit_learn = "settings", 10, True

    def make(self, rng: random.Random) -> dict[str, Any]:
        kind = rng.choice((*ESTIMATORS, *ESTIMATORS, PrivateSearchCV))
        value: dict[str, Any] = {"kind": kind}
        if kind is PrivateSearchCV:
            value |= {"epsilon": 1.0, "delta": 1e-6, "mean_candidates": 2.0}
            names = [name for name in kind.__init__.__annotations__ if name not in ("estimator", "return")]
        else:
            value["mechanism"] = rng.choice(("output", "auto", "objective"))
            names = list(kind().get_params(deep=False))
        if rng.random() < 0.5:
            for name in rng.sample(names, rng.choice((1, 1, 2, 3))):
                value[name] = parameter(rng)
        elif kind is not PrivateSearchCV:
            mechanism = resolve(rng.choice(mechanism_names()))
            chosen = rng.sample(fields(mechanism), rng.choice((1, 1, 2)) if len(fields(mechanism)) > 1 else 1)
            value["mechanism"] = mechanism.name
            value["settings"] = {field.name: parameter(rng) for field in chosen}
        return value

    def run(self, value: dict[str, Any]) -> None:
        value = dict(value)
        kind = value.pop("kind", PrivateLogisticRegression)
        X = np.linspace(-0.5, 0.5, 16).reshape(8, 2)
        if "settings" in value:
            value["mechanism"] = replace(resolve(value["mechanism"]), **value.pop("settings"))
        if kind is PrivateSearchCV:
            inner = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
            grid = value.pop("param_grid", {"l2": [0.1, 1.0]})
            value = {"epsilon": 1.0, "delta": 1e-6, **value}
            search = PrivateSearchCV(inner, grid, **value).fit(X, np.resize([0, 1], 8))
            search.predict(X)
        else:
            fit_and_predict(kind(**value), X, np.resize([0, 1], 8), X)


TARGETS: tuple[type[Target], ...] = (
    SchemaFile,
    SchemaDocument,
    CsvFile,
    CodeBook,
    ParquetFile,
    Columns,
    ModelFile,
    ModelDocument,
    Certificate,
    LedgerFile,
    CommandLine,
    Rows,
    Settings,
)
