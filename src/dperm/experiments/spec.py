"""What is compared, frozen, with a hash as its identity."""

import dataclasses
import hashlib
import inspect
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import __version__
from dperm.codes import CodedTable
from dperm.engine.sparse.rows import is_sparse
from dperm.errors import InvalidInput
from dperm.experiments import splits
from dperm.experiments.results import NOT_PRIVATE, RULE, TUNINGS, Setup, label
from dperm.mechanisms import Mechanism, resolve

ORACLE_MARK = " (oracle, not private)"
"""How the label of a configuration ends whose settings were chosen on the test rows."""

_FORMAT = 3  # of the parts; a change of their meaning starts anew
_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One line of the tables and figures: a mechanism, its settings, and how they are chosen.

    ``tuning`` is "rule" for settings fixed before data, "search" for a private choice among the candidates
    that is paid from the budget, "oracle" for the candidate that is best on the test rows, which is not private
    and always labelled so.
    """

    label: str
    candidates: tuple[Mechanism, ...]
    tuning: str = RULE

    def __post_init__(self) -> None:
        if self.tuning not in TUNINGS:
            raise InvalidInput(f"tuning must be one of {', '.join(TUNINGS)}; got {self.tuning!r}.")
        if not self.label:
            raise InvalidInput("a configuration needs a label; got an empty text.")
        kinds = {(candidate.name, candidate.accounting) for candidate in self.candidates}
        if len(kinds) != 1 or len(set(self.candidates)) < len(self.candidates):
            raise InvalidInput(
                f"the candidates of {self.label!r} must be different settings of one mechanism and one accounting."
            )
        if self.tuning == RULE and len(self.candidates) != 1:
            raise InvalidInput(f"{self.label!r} has several candidates; say how to choose: search or oracle.")
        if self.tuning == "oracle" and not self.label.endswith(ORACLE_MARK):
            object.__setattr__(self, "label", self.label + ORACLE_MARK)

    @property
    def mechanism(self) -> str:
        return self.candidates[0].name

    @property
    def accounting(self) -> str:
        return self.candidates[0].accounting if self.candidates[0].private else NOT_PRIVATE


Method = str | Mechanism | Configuration
Methods = Sequence[Method] | Mapping[str, Method]


def configurations_of(methods: Methods) -> tuple[Configuration, ...]:
    """The configurations of a list, labelled by mechanism and accounting, or of a dict, labelled by its keys."""
    named: Any = methods.items() if isinstance(methods, Mapping) else ((None, some) for some in methods)
    found = [_configuration(method, name) for name, method in named]
    labels = [configuration.label for configuration in found]
    repeated = next((name for name in labels if labels.count(name) > 1), None)
    if repeated is not None:
        raise InvalidInput(
            f"two of the mechanisms have the same name {repeated!r}; give labels: {{label: mechanism, ...}}."
        )
    return tuple(found)


def _configuration(method: Method, name: str | None) -> Configuration:
    if isinstance(method, Configuration):
        return method if name is None else dataclasses.replace(method, label=name)
    mechanism = resolve(method)
    return Configuration(label=name or label(mechanism.name, mechanism.accounting), candidates=(mechanism,))


@dataclass(frozen=True, kw_only=True)
class Spec(Setup):
    """All that decides the results. Equal specs have equal identities; any other field gives another one.

    ``rows`` is the digest of the rows, the targets and the published test part. ``version`` is that of the library;
    a mechanism from elsewhere counts with the text of its module.
    """

    rows: str
    published_split: bool
    configurations: tuple[Configuration, ...]
    version: str = __version__

    @cached_property
    def document(self) -> dict[str, Any]:
        """The spec in values that JSON knows."""
        plain = {f.name: plain_value(getattr(self, f.name)) for f in dataclasses.fields(self)}
        if self.unit == "row":
            del plain["unit"]  # what was finished before there were persons stays so
        return {"format": _FORMAT, "widest_batch": splits.WIDEST_BATCH, **plain}

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the canonical JSON of the spec, in hexadecimal digits."""
        return hashlib.sha256(canonical_json(self.document).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, numbers as Python prints them exactly."""
    return json.dumps(plain_value(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain_value(value: Any) -> Any:
    """The value in dicts, lists, texts, numbers, True, False and None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Enum):
        return plain_value(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, list | tuple | range):
        return [plain_value(item) for item in value]
    if isinstance(value, Mechanism):
        return {"mechanism": value.name, "code": _code(type(value)), **plain_value(value.settings)}
    if dataclasses.is_dataclass(value):
        found = {f.name: plain_value(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__qualname__, **found}
    raise InvalidInput(
        f"a setting of type {type(value).__name__} cannot be written down, so the comparison has no identity; use "
        "numbers, texts, lists or frozen dataclasses."
    )


def _code(kind: type[Mechanism]) -> str:
    """Where a mechanism's code comes from; outside of this library, a digest of its module as well."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.partition(".")[0] == "dperm":
        return name
    for part in (inspect.getmodule(kind), kind):
        with suppress(OSError, TypeError):  # there is no file, as for what was typed into a prompt
            text = inspect.getsource(part)  # type: ignore[arg-type]
            return f"{name} {hashlib.sha256(text.encode()).hexdigest()}"
    return name


def digest_rows(
    X: Any,
    targets: NDArray[Any],
    held_out: NDArray[np.bool_] | None,
    persons: NDArray[np.int64] | None = None,
) -> str:
    """SHA-256 of shapes, types and values; of sparse and coded rows those of what holds them."""
    digest = hashlib.sha256()
    held: tuple[Any, ...] = (X,)
    if is_sparse(X):
        held = (np.array(X.shape), X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64))
    elif isinstance(X, CodedTable):
        digest.update(f"{X.layout}{X.shape}".encode())
        held = X.rows(0, len(X))
    ids = () if persons is None else (persons,)
    for values in (*held, targets, np.zeros(0, bool) if held_out is None else held_out, *ids):
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        for first in range(0, len(values), _BLOCK):
            digest.update(np.ascontiguousarray(values[first : first + _BLOCK]).data)
    return digest.hexdigest()


def stream_code(mechanism: Mechanism) -> int:
    """The number that a mechanism's noise follows: its name and the settings that are not the usual ones.

    Neither the label nor the accounting counts, so the two accountings of a mechanism differ in their noise
    scale alone.
    """
    usual = {f.name: f.default for f in dataclasses.fields(mechanism)}
    own = {name: value for name, value in mechanism.settings.items() if name != "accounting"}
    own = {name: value for name, value in own.items() if value != usual[name]}
    return splits.text_code(mechanism.name + (canonical_json(own) if own else ""))
