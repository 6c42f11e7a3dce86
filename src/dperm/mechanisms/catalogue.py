"""What every registered mechanism is, in one row each: for the command line and the README."""

from dataclasses import dataclass

from dperm.errors import InvalidInput
from dperm.losses import Loss, example_losses
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.registry import mechanism_names, resolve
from dperm.neighbours import Neighbours
from dperm.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One mechanism, at its default settings, on a problem with l2 > 0 and an intercept.

    ``accountings`` is empty for baselines, which have no guarantee to account for.
    """

    name: str
    family: str
    title: str
    losses: tuple[str, ...]
    relations: tuple[str, ...]
    released: str
    accountings: tuple[str, ...]
    source: str
    private: bool


def catalogue() -> list[Entry]:
    """All registered mechanisms, grouped by family; families of other packages come last."""
    return [_entry(resolve(name)) for name in mechanism_names()]


def model_losses() -> tuple[Loss, ...]:
    """One instance of every registered loss that makes a model."""
    return tuple(loss for loss in example_losses() if loss.is_model)


def _entry(mechanism: Mechanism) -> Entry:
    covered = [
        (loss.name, relation.value) for loss, relation in _cases() if _covers(mechanism, loss, relation)
    ]
    return Entry(
        name=mechanism.name,
        family=mechanism.family,
        title=mechanism.title,
        losses=tuple(dict.fromkeys(loss for loss, _ in covered)),
        relations=tuple(dict.fromkeys(relation for _, relation in covered)),
        released=mechanism.released,
        accountings=tuple(kind for kind in ("tight", "paper") if _accepts(mechanism, kind)),
        source=mechanism.source,
        private=mechanism.private,
    )


def _cases() -> list[tuple[Loss, Neighbours]]:
    return [(loss, relation) for loss in model_losses() for relation in Neighbours]


def _covers(mechanism: Mechanism, loss: Loss, relation: Neighbours) -> bool:
    """What the mechanism itself says of a plain problem with this loss and relation."""
    problem = Problem(
        loss=loss, l2=1e-3, x_norm=1.0, n_rows=10_000, n_features=10, intercept=0.3, neighbours=relation
    )
    return mechanism.misfit(problem) is None


def _accepts(mechanism: Mechanism, accounting: str) -> bool:
    if not mechanism.private:
        return False
    try:
        type(mechanism)(accounting=accounting)
    except InvalidInput:
        return False
    return True
