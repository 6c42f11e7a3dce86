"""All that is known about one released model, read from its files; what its evaluation and its ledger say of it too."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dperm import __version__
from dperm.certificate import Verdict, verify
from dperm.certificate.words import of_persons
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.evaluation import Evaluation, read_evaluation
from dperm.evaluation.model import evaluated_model
from dperm.evaluation.verification import alike, model_facts, stated_facts
from dperm.ledger import Ledger
from dperm.ledger.history import SEARCH, Anchor, Entry
from dperm.models import read_document, read_model
from dperm.privacy import Budget
from dperm.privacy.cost import compose
from dperm.release.deployment import Deployment
from dperm.schema import Schema

NOT_PRIVATE = (
    "These figures are NOT private: they were computed from rows without noise that protects, for the eyes of the "
    "data's owner. Do not publish this page with them."
)


def is_private(evaluation: Evaluation) -> bool:
    """Exact figures are not, nor are those with a seed."""
    return bool(evaluation.private) and not evaluation.local


def check_about(
    evaluation: Evaluation, statement: Mapping[str, Any], estimator: PrivateLinearModel, name: str
) -> None:
    """Refuse the evaluation of another model, and one that says other things of this one than it does itself."""
    if evaluation.model != statement["model"]["sha256"]:
        raise InvalidInput(
            f"the evaluation is not of {name}: it is about the model {evaluation.model[:12]}..., and this one is "
            f"{statement['model']['sha256'][:12]}... Evaluate this model, or leave --evaluation out."
        )
    stated = stated_facts(evaluation.to_dict())
    held = model_facts(evaluated_model(estimator))
    others = [key for key, value in stated.items() if not alike(value, held[key])]
    if others:
        raise InvalidInput(
            f"the evaluation says of {name} what is not true of it ({others[0]}). If the threshold was tuned since, "
            "evaluate the model again, or leave --evaluation out."
        )


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Epsilons at the delta of the cap, of all charges together up to a point of the history."""

    file: str
    ledger: str
    head: str
    dataset: str
    unit: str
    cited: tuple[int, ...]
    cap: Budget
    before: float
    alone: float
    after: float
    now: float
    remaining: float
    charges: tuple[tuple[Entry, float], ...]

    @property
    def later(self) -> int:
        """How many charges came after those of this release."""
        return sum(entry.id > self.cited[-1] for entry, _ in self.charges)


def spending_of(ledger: Ledger, citation: str, besides: Sequence[str] = ()) -> Spending:
    """Of the charge of a fit, and of those ``besides`` that were made to the same dataset.

    Raises if the ledger's history does not hold a charge that is cited of it.
    """
    own = [citation, *(other for other in besides if Anchor.of(other).ledger == ledger.id)]
    for anchor in own:
        ledger.check(anchor)
    ids = {Anchor.of(anchor).charge for anchor in own}
    paid = next(entry for entry in ledger.entries() if entry.id == Anchor.of(citation).charge)
    cap = ledger.cap(paid.dataset)
    counted = [entry for entry in ledger.entries(paid.dataset) if entry.counts]
    cited = [entry for entry in counted if entry.id in ids]
    parts = {entry.partition for entry in counted} - {None} if paid.partition is None else {paid.partition}

    def spent(last: int) -> float:
        """Of a row that is in the part where most was spent, or in that of the model."""
        told = [entry for entry in counted if entry.id <= last]
        totals = [
            compose(entry.cost for entry in told if entry.partition in (None, part))
            for part in parts or {None}
        ]
        found = max(total.epsilon(cap.delta) for total in totals)
        return min(found, cap.epsilon) if all(total.fits(cap) for total in totals) else found

    return Spending(
        file=ledger.path.name,
        ledger=ledger.id,
        head=ledger.head,
        dataset=paid.dataset,
        unit=ledger.unit(paid.dataset),
        cited=tuple(entry.id for entry in cited),
        cap=cap,
        before=spent(cited[0].id - 1),
        alone=compose(entry.cost for entry in cited).epsilon(cap.delta),
        after=spent(cited[-1].id),
        now=ledger.spent(paid.dataset),
        remaining=ledger.remaining(paid.dataset),
        charges=tuple((entry, entry.cost.epsilon(cap.delta)) for entry in counted),
    )


PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """A statement and its verdict, and around them whatever was given.

    ``statement`` has the form of a certificate, and its words may be hostile. ``evaluation`` is one of
    ``dperm.evaluation``.
    """

    name: str
    statement: Mapping[str, Any]
    verdict: Verdict
    estimator: PrivateLinearModel | None = None
    schema: Schema | None = None
    deployment: Deployment = field(default_factory=Deployment)
    deployed: bool = False
    evaluation: Any = None
    spending: Spending | None = None
    file_sha256: str | None = None
    today: datetime.date = field(default_factory=datetime.date.today)
    library: str = __version__

    @property
    def holds(self) -> bool:
        return self.verdict.ok

    @property
    def title(self) -> str:
        return self.deployment.text("product.name") or self.name

    @property
    def problem(self) -> Mapping[str, Any]:
        return dict(self.statement["problem"])

    @property
    def hides_count(self) -> bool:
        """Whether the number of rows, or of persons, is part of what is hidden."""
        return bool(self.statement["relation"] == "add-remove")

    @property
    def thresholds(self) -> tuple[Mapping[str, Any], ...]:
        """All that were tuned after the fit, and paid for beside it."""
        return () if self.estimator is None else self.estimator.privacy_.thresholds

    @property
    def unit(self) -> str:
        """Whom the guarantee is about, in a word."""
        return "person" if of_persons(self.statement) else "row"


def read_release(
    model: PathLike,
    *,
    deployment: PathLike | None = None,
    evaluation: PathLike | None = None,
    ledger: PathLike | None = None,
) -> Release:
    """Read a model file and what belongs to it; anything that does not belong to it is refused.

    Raises
    ------
    InvalidInput
        If a file cannot be read, the evaluation is of another model, or the ledger is not the one that paid.
    """
    path = Path(model)
    told = None if deployment is None else Deployment.from_toml(deployment)
    judged = None if evaluation is None else read_evaluation(evaluation)
    estimator, schema = read_model(path)
    document = read_document(path)
    statement = estimator.certificate_
    if judged is not None:
        check_about(judged, statement, estimator, path.name)
    return Release(
        name=path.name,
        statement=statement,
        verdict=verify(document),
        estimator=estimator,
        schema=schema,
        deployment=told or Deployment(),
        deployed=told is not None,
        evaluation=judged,
        spending=None if ledger is None else _paid(Path(ledger), estimator, path.name),
        file_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _paid(path: Path, estimator: PrivateLinearModel, name: str) -> Spending:
    statement, thresholds = estimator.certificate_, estimator.privacy_.thresholds
    citation = statement["model"]["ledger_entry"]
    if citation is None:
        raise InvalidInput(
            f"{name} cites no ledger, so {path.name} did not pay for it. Fit with a ledger, or leave --ledger out."
        )
    besides = [one["ledger_entry"] for one in thresholds if one["ledger_entry"] is not None]
    try:
        found = spending_of(Ledger(path), citation, besides)
    except InvalidInput as error:
        raise InvalidInput(f"{path.name} is not the ledger that paid for {name}: {error}") from None
    claim = statement["guarantee"]
    paid = next(entry for entry, _ in found.charges if entry.id == Anchor.of(citation).charge)
    if (
        claim is not None
        and paid.kind == SEARCH
        and paid.cost.epsilon(claim["delta"]) > 1.001 * claim["epsilon"]
    ):
        raise InvalidInput(
            f"{path.name} charged a private search for {name}, which cost more than this file claims: a model that a "
            "search chose has the guarantee of the whole search."
        )
    return found
