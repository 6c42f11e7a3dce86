"""A fitted model in the units of its table: what each feature adds, and how far the noise may have moved that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import loss_of
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import as_told, is_turned, told_classes, turned_words
from dperm.models.deviations import AT_LEAST, EXACT, deviations
from dperm.models.files import parts_of
from dperm.models.format import check_columns
from dperm.models.intervals.confidence import feature_names, summary_intervals
from dperm.models.intervals.table import Interval, cells
from dperm.models.terms import (
    COLUMN,
    CURVE,
    LEVEL,
    MEAN,
    POINT,
    THEIR_MEAN,
    Term,
    column_terms,
    schema_terms,
    short,
)
from dperm.render.html import Html, joined, notebook_cell, paragraph, safe, section, table
from dperm.render.numbers import signed
from dperm.render.svg import drawing, polyline
from dperm.render.text import aligned, sparkline, wrapped
from dperm.schema import Schema
from dperm.schema.features import Categorical, Cross

INTERCEPT = "intercept"
MOST_COLUMNS, MOST_LEVELS = 40, 12  # encoded columns, and levels of one feature, that are shown
_SCORES = (1.0, 2.0, 4.0)
_WIDTH, _HEIGHT = 120.0, 26.0
_SIGNS = {"at most": " ≤", "at least": " ≥"}
_WITHIN = "* less than two standard deviations of the noise: it may be noise alone."


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
        rows, left_out = _shown_rows(self.rows)
        heads = _heads(self, rows)
        lines = [("", "", "", *heads, ""), *_cells(self, rows)]
        more = (f"  {line}" for line in _left_out_words(left_out))
        said = map(wrapped, (self.noise, *self.remarks, *self._within(rows)))
        title = f"{self.title}: what is added to {self.score}"
        body = aligned(lines, f"lll{'r' * len(heads)}l", "  ")
        return "\n".join([title, self.privacy, "", *body, *more, "", *said])

    def section(self) -> str:
        """A part of a web page: a heading and a table; every name is escaped."""
        return section("What the model says", self.table())

    def table(self) -> Html:
        """The table alone, and what has to be said of it."""
        rows, left_out = _shown_rows(self.rows)
        heads = _heads(self, rows)
        body = [_html_row(self, above, row) for above, row in zip([None, *rows], rows, strict=False)]
        remarks = (*_left_out_words(left_out), self.noise, *self.remarks, *self._within(rows))
        return joined(
            [
                paragraph(f"What each feature adds to {self.score}."),
                table(("feature", "", *heads, ""), body, numbers=range(2, 2 + len(heads))),
                *(paragraph(line, "dim") for line in remarks),
            ]
        )

    def _within(self, rows: Sequence[SummaryRow]) -> tuple[str, ...]:
        return (_WITHIN,) if self.tells_noise and any(row.within_noise for row in rows) else ()

    def _repr_html_(self) -> str:
        about = paragraph(Html(f"<b>{safe(self.title)}</b><br>{safe(self.privacy)}"))
        return notebook_cell(about, self.table())


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
    ends, found = (None, deviations(estimator, combinations, changes, schema)) if known is None else known
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
            interval=None if known is None else Interval.of(ends, place, ""),
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
        privacy=estimator.privacy_.headline,
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
    exact = loss.has_log_odds and np.allclose(loss.log_odds(np.array(_SCORES)), _SCORES)
    return exact and not _clips_gradients(estimator)


def _clips_gradients(estimator: PrivateLinearModel) -> bool:
    statement = estimator.privacy_.statement
    own = hasattr(loss_of(statement["problem"]).unweighted, "clip")  # of a loss with a clip of its own
    return not own and statement["mechanism"]["used"].get("clip") is not None


def _remarks(estimator: PrivateLinearModel, schema: Schema | None, against: str) -> list[str]:
    told = []
    loss = loss_of(estimator.privacy_.statement["problem"])
    if is_turned(estimator):
        told.append(turned_words(estimator))
    if loss.has_log_odds and _clips_gradients(estimator):
        told.append(
            "Gradients were clipped in training, so scores are only about log odds, and mostly longer."
        )
    elif loss.has_log_odds and loss.outputs == 1 and not _is_log_odds(estimator):
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


def _heads(summary: Summary, rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """Of the columns with numbers."""
    if summary.tells_intervals:
        return ("change", "estimate", "error", "95 % interval", "privacy")
    noise = "" if rows[0].noise is None else f"± noise{_SIGNS.get(summary.sure, '')}"
    return ("change", noise)


def _numbers(row: SummaryRow) -> tuple[str, ...]:
    """What stands in those columns."""
    if row.interval is not None:
        return (signed(row.change), *cells(row.interval)[1:])
    return (signed(row.change), "" if row.noise is None else f"{row.noise:.2g}")


def _shown_rows(rows: Sequence[SummaryRow]) -> tuple[list[SummaryRow], int]:
    """All rows, but of many encoded columns, or of many levels of a feature, those with the largest changes only."""
    groups: dict[tuple[str, str | None], list[SummaryRow]] = {}
    for row in rows:
        if row.kind == COLUMN:
            groups.setdefault((COLUMN, None), []).append(row)
        elif row.kind == LEVEL:
            groups.setdefault((row.feature, row.output), []).append(row)
    small: set[int] = set()
    for (name, _), group in groups.items():
        most = MOST_COLUMNS if name == COLUMN else MOST_LEVELS
        small.update(id(row) for row in sorted(group, key=lambda row: -abs(row.change))[most:])
    return [row for row in rows if id(row) not in small], len(small)


def _left_out_words(count: int) -> list[str]:
    return [f"and {count} more with smaller changes; to_dict() and --json have all"] if count else []


def _cells(summary: Summary, rows: Sequence[SummaryRow]) -> list[tuple[str, ...]]:
    """What a row shares with the one above is left blank."""
    told: list[tuple[str, ...]] = []
    above: tuple[str, ...] = ()
    for row in rows:
        told_before = row.level and above[:2] == (row.feature, row.per)
        against = "" if told_before or row.per == THEIR_MEAN else row.per
        again = above == (row.feature, row.per, row.level)
        told.append(
            (
                "" if above[:1] == (row.feature,) else row.feature,
                "" if again else f"{row.level} {against}".strip(),
                row.output or "",
                *_numbers(row),
                ("* " if summary.tells_noise and row.within_noise else "  ") + _text_curve(row),
            )
        )
        above = (row.feature, row.per, row.level)
    return told


def _text_curve(row: SummaryRow) -> str:
    if row.kind != CURVE:
        return ""
    changes = [change for _, change, _ in row.curve]
    return f"{sparkline(changes)} {min(changes):+.2g} to {max(changes):+.2g}"


def _html_row(summary: Summary, above: SummaryRow | None, row: SummaryRow) -> tuple[object, ...]:
    words = ", ".join(part for part in (row.level, row.per) if part and part != THEIR_MEAN)
    if row.output is not None:
        words = f"{words} → {row.output}"
    mark = "*" if summary.tells_noise and row.within_noise else ""
    name = "" if above is not None and above.feature == row.feature else row.feature
    return name, words, *_numbers(row), joined([mark, _drawn_curve(row)], "")


def _drawn_curve(row: SummaryRow) -> Html:
    if row.kind != CURVE:
        return Html("")
    changes = [change for _, change, _ in row.curve]
    low, reach = min(changes), (max(changes) - min(changes)) or 1.0
    last = max(len(changes) - 1, 1)
    points = [
        (2 + _WIDTH * place / last, 2 + _HEIGHT * (1 - (change - low) / reach))
        for place, change in enumerate(changes)
    ]
    told = "; ".join(
        f"{value if isinstance(value, str) else short(value)}: {signed(change)}"
        for value, change, _ in row.curve
    )
    title = f"<title>{safe(told)}</title>"
    return drawing(_WIDTH + 4, _HEIGHT + 4, title, polyline("thin", points), style="small")
