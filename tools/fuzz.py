"""Throw broken input at everything in dperm that reads input from strangers.

Run from the repository root: ``python tools/fuzz.py --inputs 100000``. Prints a table of what was refused and
accepted, and every crash with a small input that causes it; exits with 1 if there is one. ``--replay NUMBER`` runs
one input of the same seed again and lets its error through.

``python tools/fuzz.py --edits 20000`` edits every kind of file that states a claim (models, their certificates,
evaluations, means, ledgers, manifests of shards), most of them with digests and hashes computed anew, and counts the
edits that are accepted with a smaller claim; exits with 1 if there is one.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from runpy import run_path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fuzz"))

Choice = tuple[str | None, Sequence[str] | None]  # a file with targets, and the names of those to run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument(
        "--edits", type=int, metavar="COUNT", help="edit files that state a claim, each so often"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", metavar="TARGET", help="may be repeated")
    parser.add_argument("--replay", type=int, metavar="NUMBER")
    parser.add_argument("--targets", metavar="FILE", help="a Python file with TARGETS of your own")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dperm-fuzz-", dir=shared) as folder:
        choice = (chosen.targets, chosen.only)
        if chosen.edits is not None:
            return edit(Path(folder), chosen.only, chosen.edits, chosen.seed, chosen.processes)
        if chosen.replay is not None:
            return replay(Path(folder), choice, chosen.seed, chosen.replay)
        return fuzz(Path(folder), choice, chosen.inputs, chosen.seed, chosen.seconds, chosen.processes)


def targets_in(folder: Path, choice: Choice) -> list[Any]:
    file, only = choice
    if file is None:
        from fuzz_targets import TARGETS as every
    else:
        every = run_path(file)["TARGETS"]
    folder.mkdir(exist_ok=True)
    kinds = [kind for kind in every if not only or kind.name in only]
    if len(kinds) < len(only or "x"):
        raise SystemExit(f"the targets are {', '.join(kind.name for kind in every)}.")
    return [kind(folder) for kind in kinds]


def replay(folder: Path, choice: Choice, seed: int, number: int) -> int:
    from fuzz_harness import input_of

    target, value = input_of(targets_in(folder, choice), seed, number)
    print(f"{target.name}: {value!r}")
    target.run(value)
    return 0


def fuzz(folder: Path, choice: Choice, inputs: int, seed: int, seconds: float, processes: int) -> int:
    """Workers take every ``processes``-th input. One that dies is started again behind the input that killed it."""
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    end = time.time() + seconds
    places = {place: place for place in range(processes)}  # of a worker: the input to begin with
    records: list[dict[str, Any]] = []
    running: dict[int, Any] = {}
    while places or running:
        for place, first in list(places.items()):
            numbers = range(first, inputs, processes)
            log = folder / f"{place}-{first}.jsonl"
            running[place] = (context.Process(target=work, args=(log, choice, numbers, seed, end)), log)
            running[place][0].start()
            del places[place]
        for place, (process, log) in list(running.items()):
            process.join(0.2)
            if process.is_alive():
                continue
            del running[place]
            lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
            records += [line for line in lines if "number" in line]
            if process.exitcode:
                last = {"target": "?", "next": None, **(lines[-1] if lines else {})}
                crash = {"error": "Death", "place": f"exit status {process.exitcode}", "message": ""}
                crash["input"] = "run it again, alone, to see it"
                facts = {"number": last["next"], "target": last["target"]}
                records.append({**facts, "seconds": 0.0, "refused": False, "crash": crash})
                if last["next"] is not None:
                    places[place] = last["next"] + processes
    return report(records, seed, time.perf_counter() - started)


def work(log: Path, choice: Choice, numbers: range, seed: int, end: float) -> None:
    """Run the inputs; say before each which one it is, and after it what came of it."""
    from fuzz_harness import attempt, input_of, limit_memory, smaller

    targets = targets_in(log.with_suffix(""), choice)
    for target in targets:
        for number in range(target.warm_ups):
            attempt(*input_of([target], seed, number), patience=60.0)
    limit_memory()
    seen: set[str] = set()
    with log.open("w") as file:
        for number in numbers:
            if time.time() > end:
                break
            print(json.dumps({"next": number}), file=file, flush=True)
            target, value = input_of(targets, seed, number)
            print(json.dumps({"next": number, "target": target.name}), file=file, flush=True)
            outcome = attempt(target, value)
            crash = outcome.crash and {**asdict(outcome.crash), "input": "the same bug"}
            if crash and outcome.crash.signature not in seen:
                seen.add(outcome.crash.signature)
                crash["input"] = repr(smaller(target, value, outcome.crash))[:1500]
            facts = {"number": number, "target": target.name}
            line = {**facts, "seconds": outcome.seconds, "refused": outcome.refused, "crash": crash}
            print(json.dumps(line), file=file)


def edit(folder: Path, only: Sequence[str] | None, edits: int, seed: int, processes: int) -> int:
    """A table of what became of the edits of each kind of file, and those that claim less; the exit status."""
    from claims import CRASHED, KINDS, OUTCOMES, SMALLER

    kinds = [kind.name for kind in KINDS if not only or kind.name in only]
    if len(kinds) < len(only or "x"):
        raise SystemExit(f"the kinds of files are {', '.join(kind.name for kind in KINDS)}.")
    started, bad, told = time.perf_counter(), 0, []
    print(f"{'file':<12}{'edits':>9}" + "".join(f"{name:>11}" for name in OUTCOMES))
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name in kinds:
            parts = [(folder, name, seed, range(first, edits, processes)) for first in range(processes)]
            results = pool.starmap(edited, parts)
            counts = {outcome: sum(counted[outcome] for counted, _ in results) for outcome in OUTCOMES}
            bad += counts[SMALLER] + counts[CRASHED]
            told += [line for _, found in results for line in found]
            print(
                f"{name:<12}{sum(counts.values()):>9,}"
                + "".join(f"{count:>11,}" for count in counts.values())
            )
    print(f"seed {seed}, {time.perf_counter() - started:.0f} s")
    print(*told[:40], sep="\n")
    return int(bad > 0)


def edited(folder: Path, name: str, seed: int, numbers: range) -> Any:
    """One worker's share of the edits of a kind."""
    import warnings

    from claims import KINDS, tried

    warnings.simplefilter("ignore")
    (kind,) = [kind for kind in KINDS if kind.name == name]
    return tried(kind(Path(tempfile.mkdtemp(dir=folder))), seed, numbers)


def report(records: list[dict[str, Any]], seed: int, seconds: float) -> int:
    """Print the table and each bug once; the exit status."""
    print(
        f"{'target':<17}{'inputs':>9}{'refused':>9}{'accepted':>10}{'crashes':>9}{'mean':>10}{'slowest':>10}"
    )
    names = list(dict.fromkeys(record["target"] for record in sorted(records, key=lambda r: r["target"])))
    for name in [*names, "all"]:
        rows = [record for record in records if name in (record["target"], "all")]
        refused, crashed = sum(row["refused"] for row in rows), sum(row["crash"] is not None for row in rows)
        slowest = max((row["seconds"] for row in rows), default=0.0)
        mean = 1e3 * sum(row["seconds"] for row in rows) / max(1, len(rows))
        accepted = len(rows) - refused - crashed
        print(
            f"{name:<17}{len(rows):>9,}{refused:>9,}{accepted:>10,}{crashed:>9,}{mean:>7.1f} ms{slowest:>8.2f} s"
        )
    bugs: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["crash"] is not None:
            crash = record["crash"]
            bugs.setdefault(f"{record['target']}: {crash['error']} at {crash['place']}", []).append(record)
    print(f"seed {seed}, {seconds:.0f} s, {len(bugs)} bugs")
    for title, cases in bugs.items():
        first = min(
            cases, key=lambda case: (case["crash"]["input"] == "the same bug", len(case["crash"]["input"]))
        )
        print(f"\n{title} ({len(cases)} inputs; --seed {seed} --replay {first['number']})")
        print(f"  message: {first['crash']['message'][:300]!r}\n  input: {first['crash']['input']}")
    return int(bool(bugs))


if __name__ == "__main__":
    sys.exit(main())
