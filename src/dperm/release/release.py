"""All that is known about one released model, read from its files."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dperm import __version__
from dperm.certificate import Verdict, verify
from dperm.certificate.words import of_persons
from dperm.datasets import Schema
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.ledger import Ledger
from dperm.ledger.history import SEARCH, Anchor
from dperm.models import read_document, read_model
from dperm.release.deployment import Deployment
from dperm.release.judged import check_about, read_judged
from dperm.release.spending import Spending, spending_of

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
    judged = None if evaluation is None else read_judged(evaluation)
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
