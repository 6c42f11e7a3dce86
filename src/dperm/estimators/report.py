"""The privacy report of a fitted model: what is guaranteed, by what means, and what was assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dperm.certificate.statement import NOT_MET
from dperm.certificate.threshold import summed, total, tuned_words
from dperm.estimators._shown import report_html
from dperm.mechanisms.plan_words import for_persons, noise_on, rows_counted
from dperm.mechanisms.standardising import MEAN, MOMENTS


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
    not_met : tuple of str
        Assumptions that do not hold, as far as the fit could see.
    assumptions : tuple of str
        All that is taken for granted.
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
    assumptions: tuple[str, ...]
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
            assumptions=tuple(statement["assumptions"]),
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
    def not_met(self) -> tuple[str, ...]:
        """Assumptions that do not hold, as far as the fit could see."""
        return tuple(line for line in self.assumptions if line.startswith(NOT_MET))

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
            "not_met": list(self.not_met),
            "assumptions": list(self.assumptions),
            **({} if self.inference is None else {"inference": self.inference}),
        }

    def _repr_html_(self) -> str:
        return report_html(self)

    def __str__(self) -> str:
        protected = for_persons(self.unit)
        if self.claim is None:
            head = f"NOT PRIVATE: {self.reason}"
        elif self.guarantee is None and not self.not_met:
            head = "NOT PRIVATE: a threshold was tuned with predictable noise."
        elif self.not_met:
            head = (
                "NOT PRIVATE AS A WHOLE: an assumption is not met, so "
                f"({self.epsilon:g}, {self.delta:g}){protected}, {self.neighbours} neighbours, covers this fit"
                + (" and its thresholds alone" if self.thresholds else " alone")
            )
        else:
            head = (
                f"({self.epsilon:g}, {self.delta:g})-differentially private{protected}, {self.neighbours} "
                "neighbours"
            )
        chosen = {"mechanism", "why"} if "why" in self.settings else set()
        used = ", ".join(
            f"{name}={_short(value)}" for name, value in self.settings.items() if name not in chosen
        )
        name = (
            f"{self.settings['mechanism']}, chosen by auto: {self.settings['why']}"
            if chosen
            else self.mechanism
        )
        lines = [
            head,
            f"  mechanism    {name}",
            f"  settings     {used}",
            f"  accountant   {self.accountant}",
            *self._rows(),
            f"  loss         {self.loss}, slope at most {self.lipschitz:g}, l2 = {self.l2:g}",
        ]
        if self.sensitivity is not None and self.noise_scale is not None:
            lines += [
                f"  noise on     {self.noise_on}",
                f"  sensitivity  {self.sensitivity:.6g} in the Euclidean norm",
                f"  noise        scale {self.noise_scale:.6g} on each number",
                f"  entropy      {self.entropy}",
            ]
        if self.standardisation is not None:
            lines.append(f"  rows seen    {self.standardisation}")
        if self.inference is not None:
            lines.append(f"  intervals    {self.inference}")
        lines += [f"  threshold    {tuned_words(threshold)}" for threshold in self.thresholds]
        lines += ["  assumed"] + [f"    - {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

    def _rows(self) -> list[str]:
        bounds = f"feature norm at most {self.x_norm:g}, whole row {self.row_norm:.6g}"
        persons = self.statement.get("persons")
        if persons is None:
            return [f"  rows         {self.n_rows}, {bounds}"]
        return [f"  persons      {self.n_rows}, {rows_counted(**persons)}", f"  rows         {bounds}"]


def _standardisation(releases: Sequence[Mapping[str, Any]]) -> str | None:
    """What was released before training, and with what noise."""
    first = [release for release in releases if release["name"] in (MEAN, MOMENTS)]
    told = (f"{release['name']}, noise scale {release['noise_scale']:.6g}" for release in first)
    return "; ".join(told) or None


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
