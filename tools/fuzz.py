"""Throw broken input at everything in dperm that reads input from strangers.

Run from the repository root: ``python tools/fuzz.py --inputs 100000``. Prints a table of what was refused and
accepted, and every crash with a small input that causes it; exits with 1 if there is one. ``--replay NUMBER`` runs
one input of the same seed again and lets its error through.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fuzz"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", metavar="TARGET", help="may be repeated")
    parser.add_argument("--replay", type=int, metavar="NUMBER")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dperm-fuzz-", dir=shared) as folder:
        if chosen.replay is not None:
            return replay(Path(folder), chosen.only, chosen.seed, chosen.replay)
        return fuzz(Path(folder), chosen.only, chosen.inputs, chosen.seed, chosen.seconds, chosen.processes)


def targets_in(folder: Path, only: Sequence[str] | None) -> list[Any]:
    from fuzz_targets import TARGETS

    folder.mkdir(exist_ok=True)
    kinds = [kind for kind in TARGETS if not only or kind.name in only]
    if not kinds:
        raise SystemExit(f"the targets are {', '.join(kind.name for kind in TARGETS)}.")
    return [kind(folder) for kind in kinds]


def replay(folder: Path, only: Sequence[str] | None, seed: int, number: int) -> int:
    from fuzz_harness import input_of

    target, value = input_of(targets_in(folder, only), seed, number)
    print(f"{target.name}: {value!r}")
    target.run(value)
    return 0


def fuzz(
    folder: Path, only: Sequence[str] | None, inputs: int, seed: int, seconds: float, processes: int
) -> int:
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
            running[place] = (context.Process(target=work, args=(log, only, numbers, seed, end)), log)
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
                at = lines[-1]["next"] if lines and "next" in lines[-1] else None
                death = {"error": "Death", "place": f"exit status {process.exitcode}", "message": "", "input": "?"}
                records.append({"number": at, "target": "?", "seconds": 0.0, "refused": False, "crash": death})
                if at is not None:
                    places[place] = at + processes
    return report(records, seed, time.perf_counter() - started)


def work(log: Path, only: Sequence[str] | None, numbers: range, seed: int, end: float) -> None:
    """Run the inputs; say before each which one it is, and after it what came of it."""
    from fuzz_harness import attempt, input_of, limit_memory, smaller

    targets = targets_in(log.with_suffix(""), only)
    for target, number in [(target, number) for target in targets for number in range(2)]:
        _, value = input_of([target], seed, number)
        attempt(target, value, 600.0, 600.0)  # what is compiled or cached once is not the input's fault
    limit_memory()
    seen: set[str] = set()
    with log.open("w") as file:
        for number in numbers:
            if time.time() > end:
                break
            file.write(json.dumps({"next": number}) + "\n")
            file.flush()
            target, value = input_of(targets, seed, number)
            outcome = attempt(target, value)
            crash = outcome.crash and {**asdict(outcome.crash), "input": "the same bug"}
            if crash and outcome.crash.signature not in seen:
                seen.add(outcome.crash.signature)
                crash["input"] = repr(smaller(target, value, outcome.crash))[:1500]
            line = {"number": number, "target": target.name, "seconds": outcome.seconds, "refused": outcome.refused}
            file.write(json.dumps({**line, "crash": crash}) + "\n")


def report(records: list[dict[str, Any]], seed: int, seconds: float) -> int:
    """Print the table and each bug once; the exit status."""
    print(f"{'target':<17}{'inputs':>9}{'refused':>9}{'accepted':>10}{'crashes':>9}{'mean':>10}{'slowest':>10}")
    names = list(dict.fromkeys(record["target"] for record in sorted(records, key=lambda r: r["target"])))
    for name in [*names, "all"]:
        rows = [record for record in records if name in (record["target"], "all")]
        refused, crashed = sum(row["refused"] for row in rows), sum(row["crash"] is not None for row in rows)
        slowest = max((row["seconds"] for row in rows), default=0.0)
        mean = 1e3 * sum(row["seconds"] for row in rows) / max(1, len(rows))
        accepted = len(rows) - refused - crashed
        print(f"{name:<17}{len(rows):>9,}{refused:>9,}{accepted:>10,}{crashed:>9,}{mean:>7.1f} ms{slowest:>8.2f} s")
    bugs: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["crash"] is not None:
            crash = record["crash"]
            bugs.setdefault(f"{record['target']}: {crash['error']} at {crash['place']}", []).append(record)
    print(f"seed {seed}, {seconds:.0f} s, {len(bugs)} bugs")
    for title, cases in bugs.items():
        first = min(cases, key=lambda case: (case["crash"]["input"] == "the same bug", len(case["crash"]["input"])))
        print(f"\n{title} ({len(cases)} inputs; --seed {seed} --replay {first['number']})")
        print(f"  message: {first['crash']['message'][:300]!r}\n  input: {first['crash']['input']}")
    return int(bool(bugs))


if __name__ == "__main__":
    sys.exit(main())
