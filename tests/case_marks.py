"""Marks that say how many of a test's cases are tests of their own, and how many of those are quick.

``cover(strength)``
    Of a product of parameters the quick tests run a part in which any ``strength`` values still meet: 1 is every value,
    2 every pair of values. The other cases are slow.
``some(number)``
    So many cases, evenly spread, are quick. The others are slow.
``together``
    All cases are one test: they fail for the same reason. A case named by its id still runs alone. Fixtures that a
    test makes anew, but that keep no state, are named: ``together("runner")``.
"""

from collections import Counter
from itertools import combinations

import pytest

FRESH = {"tmp_path", "monkeypatch", "capsys", "capfd", "request"}  # of a test; each case gets its own


APART = (
    "slow",
    "skip",
    "skipif",
    "xfail",
    "system_noise",
)  # a case that is marked so stays a test of its own


def covering(cases, strength):
    """Positions of cases in which any ``strength`` values that meet in some case meet too.

    Greedy, and the same for the same cases.
    """
    meetings = [
        {(factors, tuple(case[i] for i in factors)) for factors in combinations(range(len(case)), strength)}
        for case in cases
    ]
    missing, chosen, used = set().union(*meetings), [], Counter()
    while missing:
        gains = [len(meeting & missing) for meeting in meetings]
        best = min(
            (i for i, gain in enumerate(gains) if gain == max(gains)),
            key=lambda i: sum(used[value] for value in enumerate(cases[i])) if strength == 1 else 0,  # evenly
        )
        chosen.append(best)
        used.update(enumerate(cases[best]))
        missing -= meetings[best]
    return sorted(chosen)


def spread(count, number):
    """So many positions among ``count``, the first and the last with them."""
    if number >= count:
        return list(range(count))
    return sorted({round(i * (count - 1) / max(number - 1, 1)) for i in range(number)})


def thin(items):
    """Mark the cases slow that ``cover`` and ``some`` leave out, and gather those that belong together."""
    functions = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            engines = item.get_closest_marker("engines") is not None
            functions.setdefault((item.parent.nodeid, item.originalname, engines), []).append(item)
    gathered = set()
    for cases in functions.values():
        _slow_unless_chosen(cases)
        alike = [item for item in cases if not any(map(item.get_closest_marker, APART))]
        if cases[0].get_closest_marker("together") and len(alike) > 1:
            _gather(alike)
            gathered.update(alike[1:])
    if gathered:  # so that pytest counts tests, not the cases that they gather
        items[0].config.hook.pytest_deselected(items=[item for item in items if item in gathered])
    items[:] = [item for item in items if item not in gathered]


def _slow_unless_chosen(cases):
    cover, some = (cases[0].get_closest_marker(name) for name in ("cover", "some"))
    if cover:
        ids = [tuple(item.callspec._idlist) for item in cases]
        chosen = covering(ids, min(cover.args[0], len(ids[0])))
    elif some:
        chosen = spread(len(cases), some.args[0])
    else:
        return
    for position in set(range(len(cases))) - set(chosen):
        cases[position].add_marker("slow")


def _gather(cases):
    """Have the first case run all of them. A fixture that it would share with the others must outlive a test."""
    first = cases[0]
    fixtures = {
        name: found[-1]
        for name, found in first._fixtureinfo.name2fixturedefs.items()
        if name not in first.callspec.params
    }
    stale = {name for name, fixture in fixtures.items() if fixture.scope == "function"}
    stale -= FRESH | set(first.get_closest_marker("together").args)
    if stale := sorted(stale | set(first.callspec.params) - _direct_parameters(first)):
        raise pytest.UsageError(f"{first.nodeid}: cases that stand together would share {', '.join(stale)}.")
    first.cases = [(item.callspec.id, item.callspec.params) for item in cases]
    first.name = first.originalname


def _direct_parameters(item):
    names = set()
    for mark in item.iter_markers("parametrize"):
        if not mark.kwargs.get("indirect"):
            named = mark.args[0]
            names.update(part.strip() for part in (named.split(",") if isinstance(named, str) else named))
    return names


def run_cases(item, noise_of):
    """Run all cases of a test, each with noise, folder and monkeypatch of its own, and say which one failed."""
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    skipped = 0
    for number, (name, params) in enumerate(item.cases):
        with pytest.MonkeyPatch.context() as patch, noise_of(name):
            own = {"monkeypatch": patch} if "monkeypatch" in arguments else {}
            if "tmp_path" in arguments:
                own["tmp_path"] = arguments["tmp_path"] / str(number)
                own["tmp_path"].mkdir()
            for capture in {"capsys", "capfd"} & set(arguments):
                arguments[capture].readouterr()
            try:
                item.obj(**arguments | params | own)
            except pytest.skip.Exception:
                skipped += 1
            except BaseException as error:
                error.add_note(f"The case is [{name}].")
                raise
    if skipped == len(item.cases):
        pytest.skip("every case was skipped")
