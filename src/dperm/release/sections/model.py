"""What the model does and how well, and the technical annex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.evaluation.report import evaluation_html
from dperm.mechanisms.plan_words import rows_counted
from dperm.models.effects import effects_section
from dperm.models.summary import summary_of
from dperm.release.release import NOT_PRIVATE, Release, is_private
from dperm.render.html import Cell, Html, joined, paragraph, section, table
from dperm.render.numbers import short

MOST_FEATURES = 200


def evaluation(release: Release) -> Html:
    """The evaluation's own section, behind an alarm if it is not private."""
    if release.evaluation is None:
        return section(
            "How good the model is",
            paragraph(
                "No evaluation was given. A private one costs a budget of its own on held-out rows: dperm "
                "evaluate, then dperm report ... --evaluation FILE.",
                "note",
            ),
        )
    loud = "" if is_private(release.evaluation) else paragraph(NOT_PRIVATE, "alarm")
    return Html(f"{loud}{evaluation_html(release.evaluation)}")


def effects(release: Release) -> Html:
    """What each feature does: curves and bars by the schema."""
    if release.estimator is None or release.schema is None:
        return Html("")
    return effects_section(release.estimator, release.schema)


def coefficients(release: Release) -> Html:
    """Every coefficient by name, with the noise beside it, where the curves do not say it all."""
    if release.estimator is None:
        return Html("")
    return Html(summary_of(release.estimator, release.schema).section())


def columns(release: Release) -> Html:
    """The schema in readable form."""
    schema = release.schema
    if schema is None:
        return section(
            "The columns",
            paragraph(
                f"No schema is stored with this model. It takes rows of {release.problem['n_features']:,} numbers; "
                "how a record becomes such a row is not part of the file.",
                "note",
            ),
        )
    features = [(feature.name, feature.in_words()) for feature in schema.features[:MOST_FEATURES]]
    more = len(schema.features) - len(features)
    crossed = [(f"{left} × {right}", "combinations of the two") for left, right in schema.cross]
    return section(
        "The columns",
        paragraph(
            "What was declared about the table before any row was read. Ranges and categories are public: they "
            "have to come from knowledge of the subject, never from rows.",
            "dim",
        ),
        table(
            ("column", "declared as"),
            [(f"{schema.target.name} (predicted)", schema.target.in_words()), *features, *crossed],
            style="words",
        ),
        paragraph(f"and {more:,} more", "dim") if more else "",
    )


MOST_RELEASES = 12


def annex(release: Release) -> Html:
    statement = release.statement
    versions = ", ".join(f"{library} {number}" for library, number in statement["libraries"].items())
    return section(
        "Technical annex",
        Html("<h3>Constants</h3>"),
        table(None, _constants(statement), style="words"),
        _noise(statement),
        Html("<h3>Verification</h3>"),
        _checks(release),
        paragraph(versions, "dim"),
        style="annex",
    )


def _constants(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    problem, mechanism, targets = (statement[name] for name in ("problem", "mechanism", "targets"))
    chosen, used = mechanism["chosen"]["name"], mechanism["used"]
    settings = ", ".join(
        f"{key} = {short(value)}" for key, value in used.items() if key not in ("mechanism", "why")
    )
    what = (
        f"{targets['count']} classes, {targets['origin']}"
        if targets["kind"] == "classes"
        else f"from {short(targets['low'])} to {short(targets['high'])}, {targets['origin']}"
    )
    rows = [
        ("unit of privacy", statement["unit"]),
        ("neighbours", statement["relation"]),
        ("mechanism", chosen + (f", chosen by a public rule: {used['why']}" if "why" in used else "")),
        ("settings", settings),
        ("accountant", statement["accountant"]),
        (
            "loss",
            f"{problem['loss']}, slope at most {short(problem['lipschitz'])}, curvature at most "
            f"{short(problem['smoothness'])}",
        ),
        ("l2", short(problem["l2"])),
        (
            "x_norm, the bound on features",
            f"{short(problem['x_norm'])}, {statement['bounds']}; longer rows are scaled down to it",
        ),
        (
            "bound on a whole row",
            f"{short(problem['row_norm'])}, intercept column {short(problem['intercept'])}",
        ),
        _counted(statement),
        ("coefficients", f"{problem['n_coefficients']:,} from {problem['n_features']:,} features"),
        ("targets", what),
        ("randomness", statement["entropy"]["source"]),
    ]
    if statement.get("standardisation") is not None:
        rows.append(("standardisation", _standardised(statement["standardisation"])))
    if "inference" in statement:
        rows.append(("for intervals", _inferred(statement["inference"])))
    if statement["planned"]["residual"] is not None:
        rows.append(("solver", f"gradient norm of at most {short(statement['planned']['residual'])}"))
    if statement["model"]["ledger_entry"] is not None:
        rows.append(("ledger", statement["model"]["ledger_entry"]))
    return rows


def _counted(statement: Mapping[str, Any]) -> tuple[str, str]:
    count = f"{statement['problem']['n_units']:,}"
    persons = statement.get("persons")
    return ("rows", count) if persons is None else ("persons", f"{count}; {rows_counted(**persons)}")


def _standardised(stated: Mapping[str, Any]) -> str:
    bounded = (
        "and in prediction" if stated["variant"] == "bounded" else "alone; prediction takes rows as they came"
    )
    return (
        f"{stated['variant']}: rows are moved and scaled by noisy moments, a typical one to {short(stated['rho'])} "
        f"times the bound, and bounded again in training {bounded}"
    )


def _inferred(stated: Mapping[str, Any]) -> str:
    told = "curvature" if stated["moments"] is None else "squared residuals"
    return (
        f"{told} at the released weights, with noise of scale {short(stated['noise_scale'])}, for "
        f"{short(stated['share'])} of the squared Gaussian parameter of the budget"
    )


def _noise(statement: Mapping[str, Any]) -> Html:
    groups = statement["releases"]
    if not groups:
        return Html("")
    shown = [
        (
            group["name"],
            f"{group['count']:,}",
            f"{group['dimension']:,}",
            short(group["sensitivity"]),
            short(group["noise_scale"]),
        )
        for group in groups[:MOST_RELEASES]
    ]
    more = len(groups) - len(shown)
    return joined(
        [
            Html("<h3>Noise</h3>"),
            table(("release", "times", "numbers", "sensitivity", "noise scale"), shown, numbers=(1, 2, 3, 4)),
            paragraph(f"and {more} more groups", "dim") if more else "",
        ]
    )


def _checks(release: Release) -> Html:
    rows = [
        (
            check.name,
            check.route,
            Cell(f"ok: {check.detail}", "ok") if check.passed else Cell(f"FAILED: {check.detail}", "failed"),
        )
        for check in release.verdict.checks
    ]
    return table(("checked", "route", "found"), rows, style="words checks")
