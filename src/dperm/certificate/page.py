"""The certificate as one web page: no scripts, no network, everything from the file escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dperm.certificate.figure import attack_figures
from dperm.certificate.statement import NOT_MET
from dperm.certificate.verdict import Verdict
from dperm.certificate.words import attack_table, meaning

_EQUALS = "\u00a0=\u00a0"  # not to be broken between lines
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #566072; --paper: #fbfbf9; --card: #ffffff;
  --line: #d9dde4; --good: #1b7f4b; --bad: #b3261e; --none: #8a5a00; --own: #2457c5; --claim: #b4690e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaf0; --dim: #9aa4b5; --paper: #12151b; --card: #1a1f28;
  --line: #323a47; --good: #57c98d; --bad: #ff8a80; --none: #e2b04a; --own: #7ea6ff; --claim: #f0a95a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
main { max-width: 880px; margin: 0 auto; padding: 28px 18px 60px; }
h1 { font-size: 1.35rem; margin: 0 0 2px; } h2 { font-size: 1.08rem; margin: 34px 0 8px; }
.file, .dim { color: var(--dim); overflow-wrap: anywhere; }
.verdict { margin: 20px 0; padding: 18px 20px; background: var(--card); border: 1px solid var(--line);
  border-left: 6px solid var(--none); border-radius: 8px; }
.verdict.good { border-left-color: var(--good); } .verdict.bad { border-left-color: var(--bad); }
.verdict strong { display: block; font-size: 1.3rem; line-height: 1.3; overflow-wrap: anywhere; }
.verdict.good strong { color: var(--good); } .verdict.bad strong { color: var(--bad); }
.verdict.none strong { color: var(--none); }
.verdict p { margin: 8px 0 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(270px, 1fr)); gap: 18px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; }
figcaption { font-size: .9rem; color: var(--dim); margin-bottom: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font-size: 11.5px; }
svg .axis { fill: var(--ink); font-size: 12.5px; } .grid { stroke: var(--line); stroke-width: 1; }
.bar { fill: var(--own); }
polyline { fill: none; stroke-width: 2.4; } .own { stroke: var(--own); } .claim { stroke: var(--claim);
  stroke-dasharray: 7 4; } .guess { stroke: var(--dim); stroke-width: 1.4; stroke-dasharray: 2 4; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 10px 0; font-size: .9rem; color: var(--dim); }
.legend i { display: inline-block; width: 26px; border-top: 3px solid; vertical-align: middle; margin-right: 7px; }
.legend .l-claim { border-top-style: dashed; border-color: var(--claim); } .legend .l-own { border-color: var(--own); }
.legend .l-guess { border-top-style: dotted; border-color: var(--dim); }
.wide { overflow-x: auto; margin-top: 12px; } table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--dim); vertical-align: bottom; } td:last-child { overflow-wrap: anywhere; }
td:first-child { min-width: 9em; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; min-width: 0; }
.ok { color: var(--good); } .failed { color: var(--bad); font-weight: 600; } .unmet { color: var(--bad); }
ul { padding-left: 20px; margin: 6px 0; } li { margin: 3px 0; }
code { font: .86em/1.4 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
@media (max-width: 520px) { main { padding: 18px 14px 40px; } th, td { padding-right: 10px; } }
@media print { body { background: #fff; } .verdict, figure { break-inside: avoid; } }
"""


def page(name: str, statement: Mapping[str, Any], verdict: Verdict, more: str = "") -> str:
    """The whole document. ``statement`` has the form of a certificate; its words may be hostile.

    ``more`` is a section, escaped already, to stand after the checks.
    """
    parts = [
        f"<h1>Privacy certificate</h1><div class=file>{escape(name)}</div>",
        _verdict(statement, verdict),
        _attacks(verdict),
        _list("What is assumed", statement["assumptions"], _note_on_assumptions(verdict)),
        _constants(statement),
        _releases(statement),
        _checks(verdict),
        more,
        _small_print(statement, verdict),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Privacy certificate: {escape(name)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _verdict(statement: Mapping[str, Any], verdict: Verdict) -> str:
    """The answer in one heading; only a guarantee that stands is called one."""
    if not verdict.accepted:
        kind, head = "bad", "Not verified"
    elif verdict.claim is None:
        kind, head = "none", "No guarantee"
    elif verdict.unmet:
        kind, head = "bad", "Not private as a whole: an assumption is not met"
    elif verdict.guarantee is None:
        kind, head = "bad", "Not confirmed"
    else:
        kind = "good" if verdict.ok else "bad"
        epsilon, delta = verdict.guarantee["epsilon"], verdict.guarantee["delta"]
        head = f"Differentially private: ε = {epsilon:g}, δ = {delta:g}".replace(" = ", _EQUALS)
    lines = [*meaning(statement, verdict), *verdict.failures, *verdict.unmet]
    lines += [f"Not confirmed: {line}." for line in verdict.unproven]
    lines += verdict.cautions
    if verdict.guarantee is not None:
        lines += [] if verdict.ok else [f"Required, and not so: {line}." for line in verdict.objections]
        lines.append(f"The price was {verdict.how}.")
        lines += [f"Not checked: {line}." for line in verdict.not_checked]
    body = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<section class="verdict {kind}"><strong>{escape(head)}</strong>{body}</section>'


def _note_on_assumptions(verdict: Verdict) -> str:
    if verdict.guarantee is None:
        return "There is no guarantee that could rest on these."
    return "The guarantee says nothing if one of these is false."


def _attacks(verdict: Verdict) -> str:
    figures = attack_figures(verdict)
    if not figures:
        return ""
    table = _table(
        ("wrong accusations", "right, by this mechanism", "right, by the claim alone"),
        [(f"{row.fpr:.1%}", f"{row.mechanism:.3%}", f"{row.budget:.3%}") for row in attack_table(verdict)],
        numbers=(0, 1, 2),
    )
    ceiling = (
        "With noise and sensitivities as stated, no attack of any kind lies above the lines."
        if verdict.not_checked
        else "No attack, of any kind, lies above the lines."
    )
    return (
        "<h2>What an attacker can achieve</h2><p class=dim>The attacker knows every row but one and decides between "
        f"two candidates for it. Closer to guessing is better. {ceiling}</p>"
        '<div class=legend><span><i class="l-own"></i>this mechanism, by its own price</span>'
        '<span><i class="l-claim"></i>the claim (ε, δ) alone</span>'
        f'<span><i class="l-guess"></i>guessing</span></div><div class=plots>{figures}</div>{table}'
    )


def _constants(statement: Mapping[str, Any]) -> str:
    problem, mechanism, targets = (statement[name] for name in ("problem", "mechanism", "targets"))
    chosen, used = mechanism["chosen"]["name"], mechanism["used"]
    skipped = ("mechanism", "why")
    settings = ", ".join(f"{key} = {_short(value)}" for key, value in used.items() if key not in skipped)
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
            "bound on features",
            f"{_short(problem['x_norm'])}, {statement['bounds']}; longer rows are scaled down to it",
        ),
        (
            "bound on a whole row",
            f"{_short(problem['row_norm'])}, intercept column {_short(problem['intercept'])}",
        ),
        ("rows", f"{problem['n_rows']:,}"),
        ("coefficients", f"{problem['n_coefficients']:,} from {problem['n_features']:,} features"),
        ("targets", what),
        ("randomness", statement["entropy"]["source"]),
    ]
    if statement.get("standardisation") is not None:
        rows.append(("standardisation", _standardised(statement["standardisation"])))
    if statement["planned"]["residual"] is not None:
        rows.append(("solver", f"gradient norm of at most {_short(statement['planned']['residual'])}"))
    if statement["model"]["ledger_entry"] is not None:
        rows.append(("ledger", statement["model"]["ledger_entry"]))
    return "<h2>Constants</h2>" + _table(None, rows)


def _standardised(stated: Mapping[str, Any]) -> str:
    bounded = (
        "and in prediction" if stated["variant"] == "bounded" else "alone; prediction takes rows as they came"
    )
    return (
        f"{stated['variant']}: rows are moved and scaled by noisy moments, a typical one to {_short(stated['rho'])} "
        f"times the bound, and bounded again in training {bounded}"
    )


def _releases(statement: Mapping[str, Any]) -> str:
    groups = statement["releases"]
    if not groups:
        return ""
    shown = [
        (
            group["name"],
            f"{group['count']:,}",
            f"{group['dimension']:,}",
            _short(group["sensitivity"]),
            _short(group["noise_scale"]),
        )
        for group in groups[:12]
    ]
    more = f"<p class=dim>and {len(groups) - 12} more groups</p>" if len(groups) > 12 else ""
    head = ("release", "times", "numbers", "sensitivity", "noise scale")
    return "<h2>Noise</h2>" + _table(head, shown, numbers=(1, 2, 3, 4)) + more


def _checks(verdict: Verdict) -> str:
    rows = [
        (check.name, check.route, ("ok: " if check.passed else "FAILED: ") + check.detail)
        for check in verdict.checks
    ]
    return "<h2>Verification</h2>" + _table(("checked", "route", "found"), rows, status=2)


def _small_print(statement: Mapping[str, Any], verdict: Verdict) -> str:
    versions = ", ".join(f"{library} {number}" for library, number in statement["libraries"].items())
    shows = (
        "A certificate shows that the stated noise is enough for the stated constants. It cannot show that the "
        "statement is true: that rows were bounded, settings chosen without the data and noise really drawn is what "
        "its author vouches for."
        if verdict.guarantee is not None
        else "This page shows what the file states, and that it does not add up to a guarantee."
    )
    return (
        f"<h2>Identity</h2><p class=dim>Released numbers <code>{escape(str(statement['model']['sha256']))}</code><br>"
        f"Certificate <code>{escape(str(statement['digest']))}</code><br>{escape(versions)}</p>"
        f"<p class=dim>{shows}</p>"
    )


def _list(title: str, lines: Sequence[str], note: str) -> str:
    items = "".join(
        f"<li{' class=unmet' if line.startswith(NOT_MET) else ''}>{escape(line)}</li>" for line in lines
    )
    return f"<h2>{escape(title)}</h2><p class=dim>{escape(note)}</p><ul>{items}</ul>"


def _table(
    head: Sequence[str] | None,
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    status: int | None = None,
) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{_class(place, text)}>{escape(str(text))}</{tag}>" for place, text in enumerate(row)
        )

    def _class(place: int, text: str) -> str:
        if place in numbers:
            return " class=n"
        if place == status and text.startswith(("ok", "FAILED")):
            return " class=ok" if text.startswith("ok") else " class=failed"
        return ""

    top = "" if head is None else f"<thead><tr>{cells('th', head)}</tr></thead>"
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<div class=wide><table>{top}<tbody>{body}</tbody></table></div>"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
