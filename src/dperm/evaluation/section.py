"""An evaluation as a fragment of a web page: tables and figures, styles of its own, every word escaped."""

from __future__ import annotations

from html import escape

from dperm.evaluation.drawing import calibration_drawing, interval_drawing, roc_drawing
from dperm.evaluation.found import Found
from dperm.evaluation.intervals import TOO_NOISY, Figure
from dperm.evaluation.text import interval, noise_part, power, rows_in_words, shown

MOST_CLASSES = 12
_BARS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "auc", "brier")
STYLE = """
.dperm-evaluation { --e-ink: #1c2330; --e-dim: #566072; --e-card: #ffffff; --e-line: #d9dde4; --e-own: #2457c5;
  --e-bad: #b3261e; color: var(--e-ink); }
@media (prefers-color-scheme: dark) { .dperm-evaluation { --e-ink: #e7eaf0; --e-dim: #9aa4b5; --e-card: #1a1f28;
  --e-line: #323a47; --e-own: #7ea6ff; --e-bad: #ff8a80; } }
.dperm-evaluation .e-dim { color: var(--e-dim); }
.dperm-evaluation .e-local { border: 2px solid var(--e-bad); border-radius: 8px; padding: 10px 14px;
  color: var(--e-bad); font-weight: 600; }
.dperm-evaluation .e-wide { overflow-x: auto; }
.dperm-evaluation table { border-collapse: collapse; font-size: .93rem; margin: 8px 0; }
.dperm-evaluation th, .dperm-evaluation td { text-align: left; padding: 5px 16px 5px 0; min-width: 0;
  border-bottom: 1px solid var(--e-line); vertical-align: middle; }
.dperm-evaluation th { font-weight: 600; color: var(--e-dim); }
.dperm-evaluation .e-n { font-variant-numeric: tabular-nums; white-space: nowrap; }
.dperm-evaluation .e-cells td { position: relative; padding: 6px 14px 6px 10px; }
.dperm-evaluation .e-cells td i { position: absolute; inset: 2px; background: var(--e-own); border-radius: 4px; }
.dperm-evaluation .e-cells td span { position: relative; }
.dperm-evaluation .e-plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(250px, 1fr)); gap: 16px;
  max-width: 720px; margin: 14px 0; }
.dperm-evaluation figure { margin: 0; background: var(--e-card); border: 1px solid var(--e-line); border-radius: 8px;
  padding: 12px; break-inside: avoid; max-width: 360px; }
.dperm-evaluation figcaption { font-size: .9rem; color: var(--e-dim); }
.dperm-evaluation svg { width: 100%; height: auto; display: block; }
.dperm-evaluation svg.line { width: 120px; }
.dperm-evaluation svg text { fill: var(--e-dim); font-size: 11.5px; }
.dperm-evaluation svg .axis { fill: var(--e-ink); font-size: 12.5px; }
.dperm-evaluation .grid { stroke: var(--e-line); stroke-width: 1; }
.dperm-evaluation .own { fill: none; stroke: var(--e-own); stroke-width: 2.2; }
.dperm-evaluation .bar { stroke: var(--e-own); stroke-width: 6; stroke-opacity: .35; fill: none; }
.dperm-evaluation .band { fill: var(--e-own); fill-opacity: .2; }
.dperm-evaluation .dot { fill: var(--e-own); }
.dperm-evaluation .guess { fill: none; stroke: var(--e-dim); stroke-width: 1.2; stroke-dasharray: 2 4; }
@media (max-width: 520px) { .dperm-evaluation .e-line { display: none; }
  .dperm-evaluation th, .dperm-evaluation td { padding-right: 8px; font-size: .85rem; }
  .dperm-evaluation .e-n .e-dim { display: block; } }
"""


def section(found: Found) -> str:
    """The whole fragment."""
    parts = [
        "<h2>How good the model is</h2>",
        _head(found),
        _metrics(found),
        _curves(found),
        _confusion(found),
        *(f"<p class=e-dim>{escape(note)}</p>" for note in found.notes if not found.local),
    ]
    return f"<section class=dperm-evaluation><style>{STYLE}</style>{''.join(parts)}</section>"


def _head(found: Found) -> str:
    rows = escape(rows_in_words(found))
    if found.local:
        return (
            f"<p class=e-local>NOT PRIVATE: exact figures on {rows}, for the owner of the data alone. "
            "This page must not be published.</p>"
        )
    assert found.budget is not None
    promise = f"ε\u00a0=\u00a0{found.budget['epsilon']:g}, δ\u00a0=\u00a0{power(found.budget['delta'])}"
    hidden = escape(str(found.neighbours))
    told = f"Differentially private for {found.whom}: {promise}, {hidden} neighbours. Measured on {rows}."
    if not found.private:
        told = f"NOT PRIVATE: the noise was seeded. Else {promise}, {hidden} neighbours. Measured on {rows}."
    kind = "e-dim" if found.private else "e-local"
    paid = "" if found.ledger_entry is None else f"<br>Paid by <code>{escape(found.ledger_entry)}</code>."
    return (
        f"<p class={kind}>{told} Every interval is meant to hold the true value for people like these in 95 of 100 "
        f"evaluations; it counts both the choice of the {found.unit}s and the noise.{paid}</p>"
    )


def _metrics(found: Found) -> str:
    noise = "" if found.local else "<th>of which noise</th>"
    lines = "".join(
        f"<tr><td>{escape(found.title(name))}</td><td class=e-n>{shown(figure)}</td>"
        f"<td class=e-n>{interval(figure)}</td>{'' if found.local else f'<td class=e-n>{noise_part(figure)}</td>'}"
        f"<td class=e-line>{interval_drawing(figure) if name in _BARS else ''}</td></tr>"
        for name, figure in found.metrics.items()
    )
    return (
        "<div class=e-wide><table><thead><tr><th>metric</th><th>estimate</th><th>95 % interval</th>"
        f"{noise}<th class=e-line></th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _curves(found: Found) -> str:
    drawn = []
    if found.roc:
        drawn.append(("ROC curve, with 95 % band", roc_drawing(found.roc)))
    if found.calibration:
        of = f"of {found.classes[1]}" if found.task == "binary" else "of the predicted class"
        drawn.append((f"Calibration {of}, with 95 % intervals", calibration_drawing(found.calibration)))
    figures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in drawn
    )
    return f"<div class=e-plots>{figures}</div>" if figures else ""


def _confusion(found: Found) -> str:
    if not found.confusion:
        return ""
    rates = "".join(
        f"<tr><td>{escape(str(label))}</td>"
        + "".join(f"<td class=e-n>{_rate(line[name])}</td>" for name in ("recall", "precision"))
        + "</tr>"
        for label, line in zip(found.classes, found.rates, strict=True)
    )
    table = (
        "<div class=e-wide><table><thead><tr><th>class</th><th>recall</th><th>precision</th></tr></thead>"
        f"<tbody>{rates}</tbody></table></div>"
    )
    if len(found.classes) > MOST_CLASSES:
        return "<h3>By class, in %</h3>" + table
    largest = max(cell.estimate or 0.0 for line in found.confusion for cell in line)
    head = "".join(f"<th>predicted {escape(str(label))}</th>" for label in found.classes)
    lines = "".join(
        f"<tr><th>{escape(str(label))}</th>{''.join(_cell(cell, largest) for cell in line)}</tr>"
        for label, line in zip(found.classes, found.confusion, strict=True)
    )
    return (
        f"<h3>Confusion matrix, in % of the {found.unit}s</h3><div class=e-wide><table class=e-cells><thead><tr>"
        f"<th>true</th>{head}</tr></thead><tbody>{lines}</tbody></table></div><h3>By class, in %</h3>{table}"
    )


def _cell(figure: Figure, largest: float) -> str:
    share = (figure.estimate or 0.0) / (largest or 1.0)
    return f'<td class=e-n><i style="opacity:{0.3 * share:.3f}"></i><span>{_rate(figure)}</span></td>'


def _rate(figure: Figure) -> str:
    if figure.estimate is None or figure.low is None or figure.high is None:
        return TOO_NOISY
    low, high = 100 * figure.low, 100 * figure.high
    return f"{100 * figure.estimate:.1f} <span class=e-dim>({low:.1f} to {high:.1f})</span>"
