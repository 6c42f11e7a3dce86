"""Does the audit notice mistakes? Break the library in known ways and audit every mechanism that is touched.

Each audit runs in a process of its own, so that no mistake leaks into another one.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from types import ModuleType
from typing import Any

from dperm.errors import DpermError, InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms import mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.processors import processors_shared_by
from dperm_audit.examination import RUNS, audit
from dperm_audit.results import BROKEN, INCONCLUSIVE, STANDS

# A small task and a budget on which a probe can plan and run.
EXAMPLE = Problem(loss=Logistic(), l2=0.1, x_norm=1.0, n_rows=24, n_features=3, intercept=0.5)
EXAMPLE_BUDGET = Budget(0.2, 1e-6)  # a small epsilon is priced sooner


@dataclass(frozen=True, eq=False, kw_only=True)
class Mutation:
    """A mistake that breaks a guarantee, as a patch of functions.

    Parameters
    ----------
    name, what_is_wrong : str
    touches : tuple of str
        The registered mechanisms whose guarantee it breaks: an audit of each must notice.
    changes : mapping
        From where a function stands, such as "dperm.problem.Problem.row_norm", to what makes a broken one of it.
        A function of a module is replaced in every loaded module, of library and audit, that imported it, as if its
        source had been edited. What is compiled already, or kept in a closure, is not reached.
    probe : callable
        Something that the library computes, which comes out otherwise with the mistake than without it.
    """

    name: str
    what_is_wrong: str
    touches: tuple[str, ...]
    changes: Mapping[str, Callable[[Any], Any]] = field(repr=False)
    probe: Callable[[], object] = field(repr=False)

    @contextmanager
    def apply(self) -> Iterator[None]:
        """The library with the mistake, as long as the context lasts."""
        swaps: list[tuple[Any, str, Any, Any]] = []
        try:
            for path, change in self.changes.items():
                owner, name = _owner(path)
                sound = vars(owner)[name]
                swaps.append((owner, name, sound, change(sound)))
                _swap(*swaps[-1])
            forget()
            yield
        finally:
            for owner, name, sound, broken in reversed(swaps):
                _swap(owner, name, broken, sound)
            forget()


def every_private(*, but: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of all private mechanisms, or of all but some."""
    return tuple(name for name in mechanism_names() if resolve(name).private and name not in but)


def _owner(path: str) -> tuple[Any, str]:
    """The module or class that holds what the path names, and its name there."""
    *names, last = path.split(".")
    for length in range(len(names), 0, -1):
        try:
            owner: Any = import_module(".".join(names[:length]))
        except ModuleNotFoundError:
            continue
        for name in names[length:]:
            owner = vars(owner).get(name)
        if owner is None or last not in vars(owner):
            break
        return owner, last
    raise InvalidInput(f"the library has no function {path!r} to change; name one as it is now.")


def _swap(owner: Any, name: str, old: Any, new: Any) -> None:
    if not isinstance(owner, ModuleType):
        setattr(owner, name, new)
        return
    for module in (*_modules("dperm"), *_modules("dperm_audit")):
        for other, value in list(vars(module).items()):
            if value is old:
                setattr(module, other, new)


def forget() -> None:
    """Empty the caches of prices and samplers."""
    for module in (*_modules("dperm.privacy"), *_modules("dperm.mechanisms")):
        for value in list(vars(module).values()):
            parts = list(vars(value).values()) if isinstance(value, type) else [value]
            for part in parts:
                if callable(clear := getattr(part, "cache_clear", None)):
                    clear()


def _modules(package: str) -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and (name == package or name.startswith(package + "."))
    ]


REFUSED, CRASHED = "refused", "crashed"
_LOADED_LATE = ("dperm.engine.dense.engine", "dperm.engine.base.vertices", "dperm.privacy._integer_kernels")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The audit of one mechanism under one mutation; without one no fault may be found.

    ``verdict`` is that of the audit, "refused" where the broken library raised one of its own errors, or "crashed".
    """

    mutation: str | None
    mechanism: str
    verdict: str
    faults: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the audit did its work: caught the mistake, or found none where there is none."""
        expected = (STANDS, INCONCLUSIVE) if self.mutation is None else (BROKEN, REFUSED)
        return self.verdict in expected


def default_folder() -> Path:
    """Where a source checkout keeps the mutations."""
    return Path(__file__).resolve().parents[2] / "tests" / "mutations"


def load_mutations(folder: str | Path | None = None) -> tuple[Mutation, ...]:
    """The mutations of all Python files of a folder: each file names its own in ``MUTATIONS``.

    Raises
    ------
    InvalidInput
        If there is no such folder, or nothing in it, or two mutations have one name.
    """
    place = default_folder() if folder is None else Path(folder)
    if not place.is_dir():
        raise InvalidInput(
            f"there is no folder {place} of mutations. They come with the source, not with an installed package: run "
            "from a checkout of it, or name a folder with --mutations."
        )
    found = [mutation for file in sorted(place.glob("*.py")) for mutation in _mutations_of(file)]
    names = [mutation.name for mutation in found]
    if not found or len(set(names)) < len(names):
        problem = "is named twice" if found else "was found"
        raise InvalidInput(
            f"a mutation {problem} in {place}; each file defines MUTATIONS, with names of their own."
        )
    return tuple(found)


def self_test(
    folder: str | Path | None = None,
    *,
    mechanisms: Sequence[str] | None = None,
    mutations: Sequence[str] | None = None,
    runs: int = RUNS,
    seed: int = 0,
    processes: int = 2,
) -> Iterator[Trial]:
    """Audit every mechanism as it is, and under every mutation that touches it; results come as they are ready.

    As it is, a mechanism gets a tenth of the runs: ``audit_all`` makes them all.

    ``mechanisms`` and ``mutations`` restrict the test to some of them.
    """
    known = load_mutations(folder)
    _check_known("mutation", mutations, [mutation.name for mutation in known])
    _check_known("private mechanism", mechanisms, every_private())
    chosen = [mutation for mutation in known if mutations is None or mutation.name in mutations]
    wanted = every_private() if mechanisms is None else tuple(mechanisms)
    pairs: list[tuple[str | None, str]] = [(None, name) for name in wanted]
    pairs += [(each.name, name) for each in chosen for name in each.touches if name in wanted]
    with processors_shared_by(processes), ThreadPoolExecutor(processes) as threads:
        tasks = [
            threads.submit(_in_fresh_process, folder, *pair, runs if pair[0] else max(100, runs // 10), seed)
            for pair in pairs
        ]
        for task in as_completed(tasks):
            yield task.result()


def trial(folder: str | Path | None, mutation: str | None, mechanism: str, runs: int, seed: int) -> Trial:
    """Audit one mechanism in this process, under the mutation of that name or none."""
    found = None
    if mutation is not None:
        found = next((each for each in load_mutations(folder) if each.name == mutation), None)
        if found is None:
            raise InvalidInput(f"there is no mutation {mutation!r}.")
    started = time.perf_counter()
    try:
        with nullcontext() if found is None else found.apply():
            result = audit(mechanism, runs=runs, seed=seed, stop_at_first=found is not None)
            verdict, faults = result.verdict, result.faults
    except DpermError as error:
        verdict, faults = REFUSED, (f"{type(error).__name__}: {error}",)
    except Exception as error:
        verdict, faults = CRASHED, (f"{type(error).__name__}: {error}",)
    return Trial(
        mutation=mutation,
        mechanism=mechanism,
        verdict=verdict,
        faults=faults,
        seconds=time.perf_counter() - started,
    )


def _in_fresh_process(
    folder: str | Path | None, mutation: str | None, mechanism: str, runs: int, seed: int
) -> Trial:
    with ProcessPoolExecutor(1, mp_context=_fresh()) as process:
        return process.submit(trial, folder, mutation, mechanism, runs, seed).result()


def _fresh() -> BaseContext:
    """Where the system can, processes are copies of one that has imported everything and run nothing."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__, *_LOADED_LATE])
    return context


def _mutations_of(file: Path) -> tuple[Mutation, ...]:
    spec = importlib.util.spec_from_file_location(f"dperm_mutations_{file.stem}", file)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "MUTATIONS", ())
    if not all(isinstance(mutation, Mutation) for mutation in found):
        raise InvalidInput(f"MUTATIONS of {file.name} must hold Mutation objects only.")
    return tuple(found)


def _check_known(kind: str, asked: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in asked or ():
        if name not in known:
            raise InvalidInput(f"no {kind} is named {name!r}; choose from {', '.join(known)}.")
