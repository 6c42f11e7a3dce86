"""What published noise really costs: as the papers print it, and as their code had it."""

from collections.abc import Sequence
from pathlib import Path

from dperm.mechanisms import NSGD
from dperm.neighbours import Neighbours
from dperm_papers.reproduce import rsgd
from dperm_papers.reproduce.claims_code import CHOICE, Mistake, every_mistake, right_sign, seen
from dperm_papers.reproduce.claims_drawing import draw
from dperm_papers.reproduce.claims_printed import AT, EPSILONS, SETTING, Printed, every_printed
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

DRAWS = {True: 60, False: 400}
"""Simulated losses for the prices of the course report, by whether the size is quick."""


def _run(bench: Bench) -> Report:
    progress = bench.progress("prices")
    progress(0, 2)
    printed = every_printed()
    progress(1, 2)
    mistakes = every_mistake(DRAWS[bench.quick])
    progress(2, 2)
    return report_on(printed, mistakes, bench.folder)


def report_on(printed: Sequence[Printed], mistakes: Sequence[Mistake], folder: Path) -> Report:
    figure = folder / "figure.png"
    draw(printed, mistakes, figure)
    return Report(
        sections=(printed_section(printed), mistakes_section(mistakes)),
        checks=(*promises(printed), *claims(mistakes), *controls()),
        files=(figure,),
    )


def printed_section(printed: Sequence[Printed]) -> Section:
    return Section(
        title="printed noise: the ε that it costs where so much is claimed, and how much more noise it is than needed",
        columns=(
            "method",
            "printed for",
            *(f"claimed {epsilon:g}" for epsilon in EPSILONS),
            f"claimed {AT:g}, row replaced",
            "noise over needed",
        ),
        rows=tuple(
            (
                one.label,
                one.relation.value,
                *("not reached" if cost is None else f"{cost:.3f}" for cost in one.costs.values()),
                f"{one.replaced:.3f}",
                f"{one.surplus:.2f}",
            )
            for one in printed
        ),
    )


def mistakes_section(mistakes: Sequence[Mistake]) -> Section:
    return Section(
        title="code and conditions: what is claimed, and what it costs",
        columns=("what was done", "in", "claimed ε", "δ", "costs ε", "caught by"),
        rows=tuple(
            (one.name, one.where, f"{one.claimed:.3g}", _power(one.delta), one.shown, one.caught_by)
            for one in mistakes
        ),
    )


def _power(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def promises(printed: Sequence[Printed]) -> list[Check]:
    """Whether printed noise is enough: for the relation that it is printed for, and when a row is replaced."""
    found = [
        Check(
            claim=f"{one.label}: the printed noise keeps its promise under {one.relation.value}",
            holds=one.keeps_its_promise,
        )
        for one in printed
    ]
    found += [
        Check(claim=f"{one.label}: some noise reaches every ε [none reaches {_listed(missing)}]", holds=False)
        for one in printed
        if (missing := [claim for claim, cost in one.costs.items() if cost is None])
    ]
    found += [
        Check(
            claim=f"{one.label}: it keeps it when a row is replaced, too [claimed {AT:g}, costs {one.replaced:.2f}]",
            holds=one.replaced <= AT,
        )
        for one in printed
        if one.relation is Neighbours.ADD_REMOVE
    ]
    return found


def _listed(epsilons: Sequence[float]) -> str:
    return " and ".join(f"{epsilon:g}" for epsilon in epsilons)


def claims(mistakes: Sequence[Mistake]) -> list[Check]:
    return [
        Check(
            claim=f"{one.name}: costs no more than is claimed [{one.claimed:.3g}, costs {one.shown}]",
            holds=one.kept,
        )
        for one in mistakes
    ]


def controls() -> list[Check]:
    """The same calculations without the mistake must find none."""
    plain, subtracted = seen(NSGD), right_sign(CHOICE)
    return [
        Check(
            claim=f"Control: plain gradients on the same two tables show no more than is claimed [1, show {plain:.2f}]",
            holds=plain <= AT,
        ),
        Check(
            claim="Control: the exponential mechanism in its place costs no more than is claimed "
            f"[{CHOICE.epsilon:g}, costs {subtracted:.2f}]",
            holds=subtracted <= CHOICE.epsilon,
        ),
    ]


ITEMS = {
    "claims": Item(
        name="claims",
        title="What published noise really costs, as printed and as the code had it",
        paper="Chen, Lee & Kifer (2019), Yu et al. (2020), a course report, lecture notes, and methods that they use",
        run=_run,
        published="The claimed ε is the published figure.",
        differs=(
            f"One public setting for all: {SETTING.n_rows:,} rows, logistic loss, l2 = {SETTING.l2:g} and "
            f"δ = {_power(rsgd.DELTA)} unless the table says otherwise, and the default settings of every mechanism. "
            "No data are read.",
            "Costs are upper bounds that are proved; those above a claim are attained up to a few per cent. ≥ marks "
            "what two tables show, ≈ an estimate. Of DP-AGD with a row replaced only the gradients are counted.",
            "Code is modelled by one mistake at a time on top of the printed noise. Mistakes that have no price, such "
            "as a bound taken from the rows, are not in the table.",
        ),
    ),
}
