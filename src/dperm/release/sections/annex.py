"""The technical annex: constants, noise and checks, in the words of the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.mechanisms.plan_words import rows_counted
from dperm.release.html import Html, joined, paragraph, section, table
from dperm.release.release import Release

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
        f"{key} = {_short(value)}" for key, value in used.items() if key not in ("mechanism", "why")
    )
    what = (
        f"{targets['count']} classes, {targets['origin']}"
        if targets["kind"] == "classes"
        else f"from {_short(targets['low'])} to {_short(targets['high'])}, {targets['origin']}"
    )
    rows = [
        ("unit of privacy", statement["unit"]),
        ("neighbours", statement["relation"]),
        ("mechanism", chosen + (f", chosen by a public rule: {used['why']}" if "why" in used else "")),
        ("settings", settings),
        ("accountant", statement["accountant"]),
        (
            "loss",
            f"{problem['loss']}, slope at most {_short(problem['lipschitz'])}, curvature at most "
            f"{_short(problem['smoothness'])}",
        ),
        ("l2", _short(problem["l2"])),
        (
            "x_norm, the bound on features",
            f"{_short(problem['x_norm'])}, {statement['bounds']}; longer rows are scaled down to it",
        ),
        (
            "bound on a whole row",
            f"{_short(problem['row_norm'])}, intercept column {_short(problem['intercept'])}",
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
        rows.append(("solver", f"gradient norm of at most {_short(statement['planned']['residual'])}"))
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
        f"{stated['variant']}: rows are moved and scaled by noisy moments, a typical one to {_short(stated['rho'])} "
        f"times the bound, and bounded again in training {bounded}"
    )


def _inferred(stated: Mapping[str, Any]) -> str:
    told = "curvature" if stated["moments"] is None else "squared residuals"
    return (
        f"{told} at the released weights, with noise of scale {_short(stated['noise_scale'])}, for "
        f"{_short(stated['share'])} of the squared Gaussian parameter of the budget"
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
            _short(group["sensitivity"]),
            _short(group["noise_scale"]),
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
        (check.name, check.route, ("ok: " if check.passed else "FAILED: ") + check.detail)
        for check in release.verdict.checks
    ]
    return table(("checked", "route", "found"), rows, status=2, style="words checks")


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
