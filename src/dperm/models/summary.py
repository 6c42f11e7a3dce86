"""A fitted model in the units of its table: what each feature adds, and how far the noise may have moved that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import loss_of
from dperm.datasets import Schema
from dperm.datasets.features import Categorical, Cross
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import as_told, is_turned, told_classes, turned_words
from dperm.models.deviations import AT_LEAST, EXACT, deviations
from dperm.models.files import parts_of
from dperm.models.format import check_columns
from dperm.models.intervals.confidence import feature_names, summary_intervals
from dperm.models.intervals.table import Interval
from dperm.models.terms import CURVE, MEAN, POINT, Term, column_terms, schema_terms

INTERCEPT = "intercept"
_SCORES = (1.0, 2.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """One number that the model says.

    Attributes
    ----------
    feature : str
        The feature, or ``intercept``.
    level : str
        Of categories, bins and missing values: which.
    per : str
        What the change is per, from what to what, or against what.
    output : str or None
        The class whose score changes, where there are more than two.
    change : float
        What is added to the score, or for a regression to the prediction, in its unit.
    noise : float or None
        Standard deviation of what the noise of privacy adds to it, as ``Summary.noise`` says; None if not known.
    interval : Interval or None
        Of a model fitted with ``inference=True``: estimate, standard error and interval of the change.
    curve : tuple of (value, change, noise)
        Of a number that bends: the change from the low end of its range to a few values.
    kind : str
        ``number``, ``curve``, ``level``, ``column`` or ``intercept``.
    """

    feature: str
    kind: str
    per: str
    level: str = ""
    output: str | None = None
    change: float
    noise: float | None
    interval: Interval | None = None
    curve: tuple[tuple[float | str, float, float | None], ...] = ()

    @property
    def within_noise(self) -> bool:
        """Whether the change is below two standard deviations of the noise; of a curve every change on it."""
        points = self.curve or ((0.0, self.change, self.noise),)
        return all(noise is not None and abs(change) <= 2 * noise for _, change, noise in points)


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """What a linear model says, row by row, in the units of its table.

    Attributes
    ----------
    rows : tuple of SummaryRow
    title, score, privacy : str
        Which model it is, what the changes are added to, and what is guaranteed.
    sure : str
        How the noise is meant: ``exact``, ``at least``, ``at most``, ``estimated`` or ``not known``.
    noise, remarks : str, tuple of str
        The same in a sentence, and what else to know when reading.
    """

    title: str
    score: str
    privacy: str
    sure: str
    noise: str
    remarks: tuple[str, ...]
    rows: tuple[SummaryRow, ...]

    @property
    def tells_noise(self) -> bool:
        """Whether a change can be said to lie within the noise."""
        return self.sure in (EXACT, AT_LEAST)

    @property
    def tells_intervals(self) -> bool:
        """Whether the model released what intervals are made of."""
        return any(row.interval is not None for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "rows": [_plain(row) for row in self.rows]}

    def __str__(self) -> str:
        from dperm.models.summary_text import as_text

        return as_text(self)

    def section(self) -> str:
        """A part of a web page: a heading and a table; every name is escaped."""
        from dperm.models.summary_html import as_section

        return as_section(self)

    def table(self) -> str:
        """The table alone for a notebook, with styles of its own."""
        from dperm.models.summary_html import as_cell

        return as_cell(self, head=False)

    def _repr_html_(self) -> str:
        from dperm.models.summary_html import as_cell

        return as_cell(self)


def summary(
    model: PrivateLinearModel | Pipeline | str | os.PathLike[str],
    schema: Schema | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    against: str = MEAN,
) -> Summary:
    """What a fitted model says of each feature, with the standard deviation of the noise beside it.

    Nothing is read but the model: it costs no privacy.

    Parameters
    ----------
    model : private linear estimator, a search, a Pipeline of a PublicEncoder and a model, or the path of a saved model
    schema : Schema, path of a TOML file, or dictionary, optional
        Gives changes in the units of the table, such as per year of age. A pipeline, and a file that was saved with
        a schema, bring their own. Without any, coefficients are shown as they are.
    against : {"mean", "first"}
        What a category is compared with: the mean of all categories, or the first that the schema lists.
    """
    estimator, declared = parts_of(getattr(model, "best_estimator_", model), schema)
    return summary_of(estimator, declared, against=against)


def summary_of(estimator: PrivateLinearModel, schema: Schema | None, *, against: str = MEAN) -> Summary:
    """The same of a fitted estimator and the schema of its columns, if there is one."""
    if not isinstance(estimator, PrivateLinearModel):
        raise InvalidInput(f"a summary is of a private linear model; got a {type(estimator).__name__}.")
    check_is_fitted(estimator, "privacy_")
    if schema is None:
        terms, combinations = column_terms(feature_names(estimator))
    else:
        check_columns(schema, estimator.n_features_in_)
        terms, combinations = schema_terms(schema, against)
    coefficients = as_told(estimator, np.atleast_2d(estimator.coef_).T).T
    intercept = as_told(estimator, np.atleast_1d(estimator.intercept_))
    several = len(coefficients) > 1
    if several:  # only differences between classes count
        coefficients, intercept = coefficients - coefficients.mean(axis=0), intercept - intercept.mean()
    changes = np.asarray(combinations @ coefficients.T)
    known = summary_intervals(estimator, combinations, schema)
    found = deviations(estimator, combinations, changes, schema) if known is None else known.deviations
    outputs = [str(label) for label in told_classes(estimator)] if several else [None]
    last = Term(feature=INTERCEPT, kind=INTERCEPT, per="every column at 0")
    rows = [
        SummaryRow(
            feature=term.feature,
            kind=term.kind,
            per=term.per,
            level=term.level,
            output=output,
            change=float(value),
            noise=None if found.values is None else float(found.values[place]),
            interval=None if known is None else known.interval(place),
            curve=() if term.value is None else ((term.value, 0.0, None),),
        )
        for place, (term, values) in enumerate(zip([*terms, last], [*changes, intercept], strict=True))
        for output, value in zip(outputs, values, strict=True)
    ]
    if estimator.row_map_.intercept == 0:
        rows = [row for row in rows if row.kind != INTERCEPT]
    return Summary(
        title=type(estimator).__name__,
        score=_score(estimator, schema),
        privacy=str(estimator.privacy_).splitlines()[0],
        sure=found.sure,
        noise=found.words,
        remarks=tuple(_remarks(estimator, schema, against)),
        rows=tuple(_curves(rows)),
    )


def _plain(row: SummaryRow) -> dict[str, Any]:
    """Without an interval where there is none."""
    told = {name: value for name, value in asdict(row).items() if name != "interval"}
    return told if row.interval is None else {**told, "interval": row.interval.to_dict()}


def _curves(rows: list[SummaryRow]) -> list[SummaryRow]:
    """Points of a curve go into the row of that curve."""
    points: dict[tuple[str, str | None], list[tuple[float | str, float, float | None]]] = {}
    for row in rows:
        if row.kind == POINT:
            points.setdefault((row.feature, row.output), []).append((row.curve[0][0], row.change, row.noise))
    return [
        replace(row, curve=tuple(points[row.feature, row.output])) if row.kind == CURVE else row
        for row in rows
        if row.kind != POINT
    ]


def _score(estimator: PrivateLinearModel, schema: Schema | None) -> str:
    classes = told_classes(estimator)
    if not len(classes):
        target = "" if schema is None else f" of {schema.target.name}"
        unit = "" if schema is None else schema.target.unit
        return f"the prediction{target}{f', in {unit}' if unit else ''}"
    if len(classes) > 2:
        return "the score of a class, against the mean of the classes"
    return f"the {'log odds' if _is_log_odds(estimator) else 'score'} of {str(classes[1])!r}"


def _is_log_odds(estimator: PrivateLinearModel) -> bool:
    loss = loss_of(estimator.privacy_.statement["problem"])
    return loss.has_log_odds and np.allclose(loss.log_odds(np.array(_SCORES)), _SCORES)


def _remarks(estimator: PrivateLinearModel, schema: Schema | None, against: str) -> list[str]:
    told = []
    loss = loss_of(estimator.privacy_.statement["problem"])
    if is_turned(estimator):
        told.append(turned_words(estimator))
    if loss.has_log_odds and loss.outputs == 1 and not _is_log_odds(estimator):
        listed = "{:.2g}, {:.2g} and {:.2g}".format(*loss.log_odds(np.array(_SCORES)))
        told.append(f"Scores of 1, 2 and 4 are log odds of {listed}.")
    if schema is not None and any(isinstance(block, Categorical | Cross) for block in schema.blocks):
        told.append(
            "A category is told against the mean of all; one that is unknown or missing counts as that mean."
            if against == MEAN
            else "A category that is unknown or missing counts as the mean of all."
        )
    if schema is not None and schema.norm_share < 1:
        told.append("Rows longer than norm_share allows are shortened, and all their changes with them.")
    if not estimator.row_map_.linear:
        told.append("For rows that a bound shortens the changes are smaller.")
    return told
