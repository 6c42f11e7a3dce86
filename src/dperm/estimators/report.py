"""What stays of a fit: its privacy report, and a record that nothing done to the estimator afterwards changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dperm.certificate import bind
from dperm.certificate.assumptions import Assumption, Status, read_assumptions, with_status
from dperm.certificate.statement import plain
from dperm.certificate.threshold import summed, total, tuned_words
from dperm.errors import InvalidInput
from dperm.ledger import Ledger
from dperm.mechanisms.base import noise_on
from dperm.mechanisms.plan_words import for_persons, rows_counted
from dperm.mechanisms.standardising import MEAN, MOMENTS
from dperm.render.html import Html, bullets, folded, notebook_cell, paragraph, table
from dperm.render.numbers import short


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """What a person who signs off a release wants to see. ``guarantee`` is None when there is none.

    It is read off ``statement``, which says the same and more for machines (docs/certificate.md).

    Attributes
    ----------
    guarantee : dict or None
        The epsilon and delta that hold for all that was learned from the rows, thresholds included; None for a model
        without a claim and for one of which an assumption is NOT MET.
    epsilon, delta : float
        What all noise was planned for, that of the fit and of every threshold that was tuned, added up. They are those
        of ``guarantee``, where there is one.
    budget : dict
        Epsilon and delta of the fit by itself, or of the search.
    thresholds : tuple of dict
        All that were tuned, the last of which is in force. Each was paid for.
    unit : {"one row", "one person"}
        Whom they protect.
    n_rows : int
        The number of rows, or of persons; under add-remove its bound, ``max_rows``.
    claim : dict or None
        The epsilon and delta that this fit by itself claims; None with the ``reason`` why.
    assumptions : tuple of Assumption
        All that is taken for granted, each with its ``code``, ``status`` and ``text``.
    not_met, cautions : tuple of Assumption
        Those of them that do not hold, as far as the fit could see; and what makes the guarantee worth little.
    """

    claim: Mapping[str, float] | None
    reason: str | None
    mechanism: str
    accounting: str
    accountant: str
    settings: Mapping[str, Any]
    budget: Mapping[str, float]
    neighbours: str
    unit: str
    n_rows: int
    n_coefficients: int
    loss: str
    l2: float
    x_norm: float
    row_norm: float
    lipschitz: float
    smoothness: float
    noise_on: str | None
    releases: int
    sensitivity: float | None
    noise_scale: float | None
    grid_exponent: int | None
    standardisation: str | None
    entropy: str
    assumptions: tuple[Assumption, ...]
    statement: Mapping[str, Any] = field(repr=False)
    thresholds: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, statement: Mapping[str, Any]) -> PrivacyReport:
        """The human view of a statement."""
        problem, planned, mechanism = (statement[name] for name in ("problem", "planned", "mechanism"))
        releases = statement["releases"]
        return cls(
            claim=statement["guarantee"],
            reason=statement["reason"],
            mechanism=mechanism["asked"]["name"],
            accounting=mechanism["asked"]["settings"]["accounting"],
            accountant=statement["accountant"],
            settings=mechanism["used"],
            budget=statement.get("search", statement["budget"]),
            neighbours=statement["relation"],
            unit=statement["unit"],
            n_rows=problem["n_units"],
            n_coefficients=problem["n_coefficients"],
            loss=problem["loss"],
            l2=problem["l2"],
            x_norm=problem["x_norm"],
            row_norm=problem["row_norm"],
            lipschitz=problem["lipschitz"],
            smoothness=problem["smoothness"] * problem["row_norm"] ** 2 + problem["l2"],
            noise_on=noise_on(mechanism["family"], problem["n_coefficients"], planned["releases"]),
            releases=planned["releases"],
            sensitivity=planned["sensitivity"],
            noise_scale=planned["noise_scale"],
            grid_exponent=releases[-1]["grid_exponent"] if releases else None,
            standardisation=_standardisation(releases),
            entropy=statement["entropy"]["source"],
            assumptions=read_assumptions("assumptions", statement["assumptions"]),
            statement=statement,
        )

    def beside(self, threshold: Mapping[str, Any]) -> PrivacyReport:
        """The report with one more threshold that was tuned after the fit: what all cost adds up."""
        return replace(self, thresholds=(*self.thresholds, threshold))

    @property
    def epsilon(self) -> float:
        return summed(self.budget, self.thresholds)["epsilon"]

    @property
    def delta(self) -> float:
        return summed(self.budget, self.thresholds)["delta"]

    @property
    def guarantee(self) -> Mapping[str, float] | None:
        return None if self.not_met else total(self.claim, self.thresholds)

    @property
    def not_met(self) -> tuple[Assumption, ...]:
        """Assumptions that do not hold, as far as the fit could see."""
        return with_status(self.assumptions, Status.NOT_MET)

    @property
    def cautions(self) -> tuple[Assumption, ...]:
        """What keeps the guarantee true and makes it worth little."""
        return with_status(self.assumptions, Status.CAUTION)

    @property
    def inference(self) -> str | None:
        """What was released for intervals, and with what noise; None where nothing was."""
        if "inference" not in self.statement:
            return None
        last = self.statement["releases"][-1]
        return f"{last['name']}, noise scale {last['noise_scale']:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, ready for JSON.

        ``guarantee``, ``epsilon`` and ``delta`` are what holds for fit and thresholds together: null where an
        assumption is NOT MET or nothing is claimed. ``claim`` is what the fit by itself claims, and ``budget`` what its
        noise was planned for.
        """
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "statement"}
        holds: Mapping[str, float | None] = self.guarantee or {"epsilon": None, "delta": None}
        return {
            "guarantee": self.guarantee,
            **shown,
            **holds,
            "budget": dict(self.budget),
            "thresholds": list(self.thresholds),
            **{
                name: [one.to_dict() for one in getattr(self, name)]
                for name in ("not_met", "cautions", "assumptions")
            },
            **({} if self.inference is None else {"inference": self.inference}),
        }

    def _repr_html_(self) -> str:
        """The guarantee in a line, the facts behind it and the assumptions below."""
        return notebook_cell(
            self.paragraph,
            folded("How it is reached", table(None, self.facts)),
            folded("What is assumed", bullets(self.assumptions)),
        )

    @property
    def paragraph(self) -> Html:
        """The headline for a web page."""
        return paragraph(self.headline, "bad" if self.guarantee is None else "good")

    @property
    def headline(self) -> str:
        """The guarantee in a line, or that there is none."""
        protected = f"{for_persons(self.unit)}, {self.neighbours} neighbours"
        if self.claim is None:
            return f"NOT PRIVATE: {self.reason}"
        if self.not_met:
            covered = "this fit and its thresholds alone" if self.thresholds else "this fit alone"
            return (
                "NOT PRIVATE AS A WHOLE: an assumption is not met, so "
                f"({self.epsilon:g}, {self.delta:g}){protected}, covers {covered}"
            )
        if self.guarantee is None:
            return "NOT PRIVATE: a threshold was tuned with predictable noise."
        return f"({self.epsilon:g}, {self.delta:g})-differentially private{protected}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """How the guarantee is reached: names and what they are."""
        chosen = "why" in self.settings
        settings = {
            name: value
            for name, value in self.settings.items()
            if not (chosen and name in ("mechanism", "why"))
        }
        name = (
            f"{self.settings['mechanism']}, chosen by auto: {self.settings['why']}"
            if chosen
            else self.mechanism
        )
        found = [
            ("mechanism", name),
            ("settings", ", ".join(f"{name}={short(value)}" for name, value in settings.items())),
            ("accountant", self.accountant),
            *self._rows(),
            ("loss", f"{self.loss}, slope at most {self.lipschitz:g}, l2 = {self.l2:g}"),
        ]
        if self.sensitivity is not None and self.noise_scale is not None:
            found += [
                ("noise on", str(self.noise_on)),
                ("sensitivity", f"{self.sensitivity:.6g} in the Euclidean norm"),
                ("noise", f"scale {self.noise_scale:.6g} on each number"),
                ("entropy", self.entropy),
            ]
        if self.standardisation is not None:
            found.append(("rows seen", self.standardisation))
        if self.inference is not None:
            found.append(("intervals", self.inference))
        return [*found, *(("threshold", tuned_words(threshold)) for threshold in self.thresholds)]

    def __str__(self) -> str:
        facts = (f"  {name:12} {told}" for name, told in self.facts)
        return "\n".join([self.headline, *facts, "  assumed", *(f"    - {one}" for one in self.assumptions)])

    def _rows(self) -> list[tuple[str, str]]:
        bounds = f"feature norm at most {self.x_norm:g}, whole row {self.row_norm:.6g}"
        persons = self.statement.get("persons")
        if persons is None:
            return [("rows", f"{self.n_rows}, {bounds}")]
        return [("persons", f"{self.n_rows}, {rows_counted(**persons)}"), ("rows", bounds)]


def _standardisation(releases: Sequence[Mapping[str, Any]]) -> str | None:
    """What was released before training, and with what noise."""
    first = [release for release in releases if release["name"] in (MEAN, MOMENTS)]
    told = (f"{release['name']}, noise scale {release['noise_scale']:.6g}" for release in first)
    return "; ".join(told) or None


HANDLES = ("ledger", "dataset")  # on another file; a saved model does not have them


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """Parameters and certificate of one fit, as text, and the ledger that it was charged to.

    ``fit`` and ``load_model`` make it, and every later act reads it or the report that was made with it: parameters
    that are set afterwards are those of the next fit.

    Attributes
    ----------
    stored : str
        The parameters, as a model file holds them.
    unstorable : str or None
        Why a model file cannot hold them, if it cannot.
    bound : str
        The certificate, bound to the numbers that were released.
    """

    stored: str
    unstorable: str | None
    bound: str
    ledger: Ledger | None

    @classmethod
    def of(cls, estimator: Any, certificate: Mapping[str, Any] | None = None) -> FitRecord:
        """Of an estimator that was just fitted, or of one that was read with its ``certificate``."""
        if certificate is None:
            entry = getattr(estimator, "ledger_entry_", None)
            certificate = bind(estimator.privacy_.statement, released_numbers(estimator), entry)
        values = estimator.get_params(deep=False)
        parameters, unstorable = {}, None
        for name in (name for name in values if name not in HANDLES):
            try:
                parameters[name] = _as_stored(name, values[name])
            except InvalidInput as error:
                unstorable = unstorable or str(error)
        return cls(
            stored=json.dumps(parameters),
            unstorable=unstorable,
            bound=json.dumps(certificate),
            ledger=values["ledger"] if isinstance(values["ledger"], Ledger) else None,
        )

    @property
    def certificate(self) -> dict[str, Any]:
        return dict(json.loads(self.bound))

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the fit, in the form of a model file."""
        if self.unstorable is not None:
            raise InvalidInput(self.unstorable)
        return dict(json.loads(self.stored))


def released_numbers(estimator: Any) -> dict[str, Any]:
    """What a model file holds of a release: for one output a row of coefficients, otherwise rows.

    A number that is not finite, or a label that a file cannot hold, is given as text; ``save_model`` refuses both.
    """
    coefficients, intercept = np.asarray(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if coefficients.ndim == 2 and len(coefficients) == 1:
        coefficients = coefficients[0]
    released = {
        "coefficients": coefficients,
        "intercept": intercept[0] if len(intercept) == 1 else intercept,
        "classes": getattr(estimator, "classes_", None),
        "feature_names": getattr(estimator, "feature_names_in_", None),
        "row_map": estimator.row_map_.to_dict(),
    }
    if estimator._told is not None:
        released["inference"] = estimator._told
    return {name: plain(name, value, strict=False) for name, value in released.items()}


def _as_stored(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, Mapping):  # keys of an object would be text
        return [[plain(name, label), float(weight)] for label, weight in value.items()]
    return plain(name, value)
