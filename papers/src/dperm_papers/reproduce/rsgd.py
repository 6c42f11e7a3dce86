"""Figures 1, 2 and 4 of Chen, Lee & Kifer (2019): accuracy and objective over epsilon."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dperm.experiments.spec import ORACLE_MARK, Method
from dperm.experiments.tuning import tuned
from dperm.mechanisms import RSGDAR
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section
from dperm_papers.reproduce.studies import (
    BASELINES,
    Comparison,
    accuracy_section,
    level_checks,
    load_each,
    mean_accuracy,
    objective_section,
    promise_checks,
    refusals,
    write,
)

PAPER = "Chen, Lee & Kifer, Rényi differentially private ERM for smooth objectives (AISTATS 2019)"
DELTA, L2 = 1e-8, 1e-3
OURS, PAPERS, SMALL_STEP = "RSGD-AR, tight", "RSGD-AR", "RSGD-AR, first step 0.5"
BEST = f"RSGD-AR, best settings{ORACLE_MARK}"

METHODS: dict[str, Method] = {
    PAPERS: "rsgd-ar:paper",
    "NSGD": "nsgd:paper",
    "ObjPert": "objective-kst:paper",
    "OutPert-GD": "output-gd:paper",
    "DP-AGD": "dp-agd:paper",
    "SGD-MA": "sgd-ma:paper",
}
"""The methods of the figures with the accounting of their papers."""

METHODS_COMPARED: dict[str, Method] = {
    OURS: "rsgd-ar",
    SMALL_STEP: RSGDAR(step_size=0.5),
    BEST: tuned(
        "oracle",
        RSGDAR(accounting="paper", average_every=5),
        {"epochs": (5, 10, 20), "step_size": (0.5, 2.0, 7.0)},
    ),
    **METHODS,
    "SGD-MA, tight": "sgd-ma",
    **BASELINES,
}

IPUMS_US = (
    "ipums-us: the extract of the US census that the paper used is not available, and has no substitute."
)
DIFFERS = (
    "δ, l2, the batches of 4,000 rows and 20 × 5 folds are the paper's; 20 epochs with an average every 10 are the "
    "defaults of this library, and so is every setting of the other methods.",
    "One relation for all methods, replace-one. The paper's DP-AGD and SGD-MA are priced for add-remove and thus "
    "get half the noise; what a published noise really costs is checked exactly.",
    "The first step of SGD is 4 over the squared norm of a row, a public constant. The paper's 0.5 belongs to code "
    "that divides every batch gradient by its own norm, which the published sensitivity does not allow for: two "
    "neighbours can then move apart by up to the batch size times as far. With plain gradients a first step of 0.5 "
    "is too short to leave the majority label on some of these tables; it is run as a line of its own, and so are the "
    "settings of a grid that are best on test, which is not private and flatters the method.",
    "Rows are bounded with their intercept, scaled by public ranges and really permuted. In the authors' code the "
    "intercept comes after the bound, ranges are taken from the rows and no permutation is applied.",
    "SGD-MA has the exact noise on Poisson batches; its number of steps is a public rule, not the best on test. With "
    "the 32 moments of the paper no noise reaches ε below ln(1/δ)/32 = 0.58, which is where it is skipped.",
    "The minimiser of ObjPert is certified by its gradient, and released with the little noise which that needs.",
    "Adult is the UCI file, encoded by our public schema; the authors' own encoding is not at hand.",
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is run; ``n_rows`` None for all rows."""

    epsilons: tuple[float, ...]
    repeats: int
    folds: int = 5
    n_rows: int | None = None


FULL = Size(epsilons=(0.05, 0.1, 0.2, 0.5, 1.0), repeats=20)
QUICK = Size(epsilons=(0.05, 0.2, 1.0), repeats=1)
KDD_FULL = Size(epsilons=FULL.epsilons, repeats=1, n_rows=250_000)
KDD_QUICK = Size(epsilons=QUICK.epsilons, repeats=1, n_rows=50_000)
CENSUS = ("adult", "bank", "ipums-br")
KDD = ("kddcup99",)
FAMILY = "census"
"""Figure 1 and what goes beyond it train the same models."""


def compare_on(
    datasets: Sequence[str], loss: str, size: Size, bench: Bench, also: Sequence[str] = ()
) -> Report:
    tables: list[pa.Table] = []
    sections: list[Section] = []
    checks: list[Check] = []
    skipped = list(also)
    for name in bench.among(datasets):
        at_hand, missing = load_each([name], size.n_rows)
        skipped += missing
        for records in at_hand:
            comparison = Comparison(
                records=records,
                configurations=METHODS_COMPARED,
                epsilons=size.epsilons,
                delta=DELTA,
                l2=L2,
                loss=loss,
                folds=size.folds,
                repeats=size.repeats,
            )
            results, broken = comparison.run(bench), comparison.broken_promises()
            tables.append(results)
            sections += [accuracy_section(results), objective_section(results)]
            checks += level_checks(results, records)
            checks += [_ordering(results, records.name, broken), _accounting(results, records.name)]
            checks += promise_checks(records.name, broken)
            skipped += refusals(results)
    files = write(tables, bench) if tables else []
    return Report(
        sections=tuple(sections),
        checks=tuple(checks),
        skipped=tuple(skipped),
        results=tuple(tables),
        files=tuple(files),
    )


def _ordering(results: pa.Table, name: str, broken: Container[tuple[str, float]]) -> Check:
    """The paper's claim: its method is above the earlier ones. It has its best settings on test, the others a rule."""
    found = {cell: value for cell, value in mean_accuracy(results).items() if cell not in broken}
    ahead: list[str] = []
    behind: list[str] = []
    for epsilon in sorted({epsilon for _, epsilon in found}):
        mine = [found[label, epsilon] for label in (PAPERS, BEST) if (label, epsilon) in found]
        others = {
            label: found[label, epsilon] for label in METHODS if (label, epsilon) in found and label != PAPERS
        }
        if mine and others:
            best = max(others, key=others.__getitem__)
            lead = max(mine) - others[best]
            (ahead if lead >= 0 else behind).append(f"{epsilon:g} ({lead:+.1f}, {best})")
    return Check(
        claim=f"{name}: RSGD-AR with its best settings on test is above the paper's other methods by their rules, all "
        f"with their papers' accounting, where that keeps its promise [yes at ε = {', '.join(ahead) or 'none'}; no "
        f"at ε = {', '.join(behind) or 'none'}; points to the best other]",
        holds=not behind,
    )


def _accounting(results: pa.Table, name: str) -> Check:
    """Less noise on the same weights: at least as accurate, up to chance."""
    found = mean_accuracy(results)
    gains = {
        epsilon: found[OURS, epsilon] - found[PAPERS, epsilon]
        for epsilon in sorted({epsilon for label, epsilon in found if label == OURS})
        if (PAPERS, epsilon) in found
    }
    shown = ", ".join(f"{gain:+.2f} at {epsilon:g}" for epsilon, gain in gains.items())
    return Check(
        claim=f"{name}: the tight accounting of RSGD-AR does not lose on average over ε [points: {shown}]",
        holds=sum(gains.values()) >= -0.1 * len(gains),
    )


def _figure1(bench: Bench) -> Report:
    return compare_on(CENSUS, "logistic", QUICK if bench.quick else FULL, bench, (IPUMS_US,))


def _figure2(bench: Bench) -> Report:
    return compare_on(CENSUS, "svm", QUICK if bench.quick else FULL, bench, (IPUMS_US,))


def _figure4(bench: Bench) -> Report:
    return compare_on(KDD, "logistic", KDD_QUICK if bench.quick else KDD_FULL, bench)


ITEMS = {
    "rsgd-fig1": Item(
        name="rsgd-fig1",
        title="Logistic regression: accuracy and objective over ε on Adult, BANK and IPUMS-BR",
        paper=f"{PAPER}, figure 1",
        run=_figure1,
        datasets=lambda: CENSUS,
        family=FAMILY,
        differs=DIFFERS,
    ),
    "rsgd-fig2": Item(
        name="rsgd-fig2",
        title="Huberised SVM: accuracy and objective over ε on Adult, BANK and IPUMS-BR",
        paper=f"{PAPER}, figure 2",
        run=_figure2,
        datasets=lambda: CENSUS,
        differs=DIFFERS,
    ),
    "rsgd-fig4": Item(
        name="rsgd-fig4",
        title="Logistic regression: accuracy and objective over ε on KDDCup99",
        paper=f"{PAPER}, figure 4",
        run=_figure4,
        datasets=lambda: KDD,
        differs=(
            *DIFFERS,
            "Rows are a public random sample of the 10 % training file; the full file is not at hand.",
        ),
    ),
}
