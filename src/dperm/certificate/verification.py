"""Check a model file's certificate: recompute its guarantee independently, then plan the fit once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.certificate.accountant import Price
from dperm.certificate.assumptions import Status, read_assumptions, with_status
from dperm.certificate.constants import Facts, unproven
from dperm.certificate.recomputation import (
    check_constants,
    check_plan,
    check_price,
    recomputed_price,
    releases_checked,
    stated_route,
    unchecked,
)
from dperm.certificate.released import check_row_map, check_told
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.statement import check_digests
from dperm.certificate.structure import check_claim, check_file, check_parameters
from dperm.certificate.threshold import Threshold, check_thresholds, price_with, thresholds_in, total
from dperm.certificate.verdict import (
    FORMULA,
    REPLANNED,
    SECOND,
    STRUCTURE,
    Examination,
    Requirements,
    Verdict,
)


def verify(
    document: Mapping[str, Any],
    *,
    max_epsilon: float | None = None,
    max_delta: float | None = None,
    unit: str | None = None,
) -> Verdict:
    """Whether a model file claims a guarantee that follows from the constants that it states.

    Parameters
    ----------
    document : mapping
        As :func:`dperm.models.read_document` gives it.
    max_epsilon, max_delta : float, optional
        The largest guarantee that is ``ok``.
    unit : {"row", "person"}, optional
        Whom the guarantee must protect.

    Guarantee
    ---------
    Of an accepted file with a guarantee: the stated noise costs at most the stated epsilon and delta, with the
    sensitivities that the proofs give for the stated constants, those named in ``not_checked`` excepted; numbers,
    schema and certificate belong together.

    Assumes
    -------
    That the file tells what was done. Who writes a false statement that is consistent in itself is not found out:
    no file can show that noise was really drawn, or that rows were really bounded.
    """
    requirements = Requirements(max_epsilon=max_epsilon, max_delta=max_delta, unit=unit)
    examination = _Examination()
    statement = examination.run("shape of the file", STRUCTURE, lambda: check_file(document))
    if statement is None:
        return examination.verdict(requirements)
    examination.statement = statement
    examination.run("digests", STRUCTURE, lambda: check_digests(document))
    examination.run("claim", STRUCTURE, lambda: check_claim(statement))
    computed = FORMULA if statement["standardisation"] is not None else STRUCTURE
    examination.run("map of the rows", computed, lambda: check_row_map(document, statement))
    if "inference" in document or "inference" in statement:
        examination.run("numbers for intervals", STRUCTURE, lambda: check_told(document, statement))
    examination.run("parameters of the estimator", STRUCTURE, lambda: check_parameters(document, statement))
    if "thresholds" in document and examination.sound:
        examination.run("thresholds", SECOND, lambda: check_thresholds(document, statement))
    if "thresholds" in document and examination.sound:
        examination.thresholds = thresholds_in(document)
    computable = statement["guarantee"] is not None and not unproven(statement)
    if computable and examination.sound:
        examination.run("constants", FORMULA, lambda: check_constants(statement))
    if computable and examination.sound:
        examination.recompute(statement)
    if examination.sound:
        examination.run(
            "the whole plan", REPLANNED, lambda: check_plan(statement, document["parameters"]["l2"])
        )
    return examination.verdict(requirements)


class _Examination(Examination):
    """The checks made so far, and the price that they found."""

    def __init__(self) -> None:
        super().__init__()
        self.statement: Mapping[str, Any] | None = None
        self.thresholds: tuple[Threshold, ...] = ()
        self.price: Price | None = None
        self.not_checked: tuple[str, ...] = ()

    def recompute(self, statement: Mapping[str, Any]) -> None:
        """Sensitivities by the formulas of the proof page, then the price by the second accountant."""
        route = stated_route(statement)
        if route is None:
            return
        evidence = Evidence(statement, Facts.of(statement))

        def releases() -> str:
            self.price = recomputed_price(route, evidence)
            self.not_checked = unchecked(evidence)
            return releases_checked(evidence)

        self.run("releases", FORMULA, releases)
        price = self.price
        if price is not None and self.sound:
            self.run("epsilon at delta", SECOND, lambda: check_price(price, evidence))

    def verdict(self, requirements: Requirements) -> Verdict:
        statement = self.statement or {"guarantee": None, "reason": None, "unit": "", "relation": ""}
        assumed = read_assumptions("certificate, assumptions", statement.get("assumptions", ()))
        claim = total(statement["guarantee"], [one.to_dict() for one in self.thresholds])
        return Verdict(
            checks=tuple(self.checks),
            claim=claim,
            reason=statement["reason"]
            or (None if claim else "a threshold was tuned with predictable noise."),
            unit=statement["unit"],
            relation=statement["relation"],
            price=price_with(self.price, self.thresholds) if self.sound else None,
            unmet=with_status(assumed, Status.NOT_MET),
            unproven=() if self.statement is None else unproven(self.statement),
            cautions=with_status(assumed, Status.CAUTION),
            not_checked=self.not_checked,
            requirements=requirements,
        )
