"""Feed one input to a target and judge what happened; make a failing input smaller; keep count.

A target may succeed or refuse: with an error that dperm raises on purpose or, for estimators, with scikit-learn's
own. Anything else is a crash. So is a message that quotes a planted record, in the error itself or in any that it
leads to, hidden by ``from None`` or not; and so is taking too long.
"""

import datetime
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dperm.errors import BudgetExceeded, DpermError

SECRET_TEXT = "S3CR3T-7731"
SECRET_NUMBER = 773100.25
SECRET_DATE = datetime.date(1987, 6, 15)
# Cells in the words of messages that are known to be harmless, so that no rule about messages takes them for one.
DISGUISED = (
    "Only child",
    f"Only {SECRET_TEXT}",
    f"Expected {SECRET_TEXT}",
    f"Expected 2D array, got 1D array instead: {SECRET_TEXT}",
    f"Input X contains {SECRET_TEXT}",
    f"Input X contains NaN. {SECRET_TEXT}",
    f"This {SECRET_TEXT}",
    f"Unknown label type: {SECRET_TEXT}",
    f"Found input variables with inconsistent numbers of samples: [1, 2] {SECRET_TEXT}",
    f"The feature names should match those that were passed during fit.\n- {SECRET_TEXT}\n",
    f"Reshape your data {SECRET_TEXT}",
    f"In CSV column #1: {SECRET_TEXT}",
    f"1987-06-15 {SECRET_TEXT}",
)
SECRET_NUMBERS = (SECRET_NUMBER, 987654321.125, -987654321.125)
SECRETS = (SECRET_TEXT, SECRET_NUMBER, SECRET_DATE, *DISGUISED, *SECRET_NUMBERS)
_SECRETS = (
    *("S3CR3T", "Only child", "773100", "7.7310", "987654321", "9.8765"),  # numbers also as NumPy prints them
    *("1987-06-15", "1987, 6, 15"),
)
_ATTEMPTS = 300


class Target:
    """Something that takes input from strangers. ``share`` says how many of a thousand inputs it gets."""

    name: ClassVar[str]
    share: ClassVar[int]
    cpu_seconds: ClassVar[float] = 10.0  # of the processor, so that a busy machine raises no false alarm
    wall_seconds: ClassVar[float] = 90.0
    warm_ups: ClassVar[int] = 2  # what is compiled or cached once is not the fault of an input
    scikit_learn: ClassVar[bool] = False  # its own ValueError and TypeError are refusals too

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, rng: random.Random) -> Any:
        raise NotImplementedError

    def run(self, value: Any) -> None:
        raise NotImplementedError


class Hang(BaseException):
    """The time of one input is over."""


class Leak(Exception):
    """A message quotes a record."""


@dataclass(frozen=True)
class Crash:
    """What went wrong and where; two crashes with the same ``signature`` are one bug."""

    error: str
    place: str
    message: str

    @property
    def signature(self) -> str:
        return f"{self.error} at {self.place}"


@dataclass(frozen=True)
class Outcome:
    seconds: float
    refused: bool = False
    crash: Crash | None = None


def attempt(target: Target, value: Any, patience: float = 1.0) -> Outcome:
    """Run one input within ``patience`` times its time."""
    started = time.perf_counter()
    refused, crash = False, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _time_limit(patience * target.cpu_seconds, patience * target.wall_seconds):
                target.run(value)
            for warning in caught:
                check_chain(warning.message)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            refused = _is_refusal(target, error)
            if not refused:
                crash = _crash(error)
            elif quoted := _quoted(error):
                crash = Crash("Leak", _place(error), quoted)
    return Outcome(time.perf_counter() - started, refused and crash is None, crash)


def check_silence(*texts: str) -> None:
    """Raise if a text that a user or a log will see quotes the planted record."""
    for text in texts:
        if any(secret in text for secret in _SECRETS):
            raise Leak(text[-300:])


def input_of(targets: Sequence[Target], seed: int, number: int) -> tuple[Target, Any]:
    """The input with this number: it depends on the seed and the number alone."""
    rng = random.Random(f"{seed}:{number}")
    (target,) = rng.choices(targets, [target.share for target in targets])
    return target, target.make(rng)


def smaller(target: Target, value: Any, crash: Crash, seconds: float = 20.0) -> Any:
    """Leave out pieces of the input as long as the same crash stays."""
    if crash.error == "Hang":
        return value
    end, left = time.perf_counter() + seconds, _ATTEMPTS
    pieces = len(value) if isinstance(value, bytes | str | list | dict) else 0
    while pieces >= 1:
        for start in range(0, len(value), pieces):
            if time.perf_counter() > end or (left := left - 1) < 0:
                return value
            shorter = _without(value, start, pieces)
            found = attempt(target, shorter).crash
            if found is not None and found.signature == crash.signature:
                value = shorter
                break
        else:
            pieces //= 2
        pieces = min(pieces, len(value))
    return value


def _without(value: Any, start: int, count: int) -> Any:
    if isinstance(value, dict):
        return {
            key: item for place, (key, item) in enumerate(value.items()) if not start <= place < start + count
        }
    return value[:start] + value[start + count :]


def _is_refusal(target: Target, error: BaseException) -> bool:
    if isinstance(error, DpermError | BudgetExceeded):
        return True
    own = isinstance(error, ValueError | TypeError) and any(
        "sklearn" in frame.filename for frame in _frames(error)
    )
    return target.scikit_learn and own


def check_chain(error: BaseException) -> None:
    """Raise if the error, or any that hangs on it, quotes the planted record in its words, arguments or notes."""
    seen: list[BaseException] = []
    left = [error]
    while left:
        error = left.pop()
        if any(error is other for other in seen):
            continue
        seen.append(error)
        check_silence(str(error), repr(error), repr(error.args), *getattr(error, "__notes__", ()))
        inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        left += [other for other in (error.__cause__, error.__context__, *inner) if other is not None]


@contextmanager
def refusals_pass() -> Iterator[None]:
    """A refusal of dperm is fine in this block, as long as it quotes nothing."""
    try:
        yield
    except DpermError as error:
        check_chain(error)


def _quoted(error: BaseException) -> str | None:
    """What an error of the chain quotes of the record."""
    try:
        check_chain(error)
    except Leak as leak:
        return str(leak)
    return None


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)


def _crash(error: BaseException) -> Crash:
    return Crash(type(error).__name__, _place(error), str(error)[:300])


def _place(error: BaseException) -> str:
    """The last line of the library, or else of anything, that the error passed through."""
    frames = [frame for frame in _frames(error) if frame.filename != __file__]
    ours = [frame for frame in frames if "dperm" in Path(frame.filename).parts] or frames
    return f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else "nowhere"


@contextmanager
def _time_limit(cpu_seconds: float, wall_seconds: float) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Hang("too slow")

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, wall_seconds, wall_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


def limit_memory(gibibytes: int = 8) -> None:
    """An input that asks for more address space gets a MemoryError, which is a crash."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (gibibytes << 30, gibibytes << 30))
