"""An evaluation as a part of a web page: tables and figures, every word escaped."""

from __future__ import annotations

from html import escape

from dperm.evaluation.drawing import calibration_drawing, interval_drawing, roc_drawing
from dperm.evaluation.found import Found
from dperm.evaluation.intervals import Figure
from dperm.evaluation.text import interval, noise_part, rows_in_words, shown
from dperm.render.numbers import TOO_NOISY, written

MOST_CLASSES = 12
_BARS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "auc", "brier")


def section(found: Found) -> str:
    """The whole fragment."""
    parts = [
        "<h2>How good the model is</h2>",
        _head(found),
        _metrics(found),
        _curves(found),
        _confusion(found),
        *(f"<p class=dim>{escape(note)}</p>" for note in found.notes if not found.local),
    ]
    return f"<section>{''.join(parts)}</section>"


def _head(found: Found) -> str:
    rows = escape(rows_in_words(found))
    if found.local:
        return (
            f"<p class=alarm>NOT PRIVATE: exact figures on {rows}, for the owner of the data alone. "
            "This page must not be published.</p>"
        )
    assert found.budget is not None
    promise = f"ε\u00a0=\u00a0{found.budget['epsilon']:g}, δ\u00a0=\u00a0{written(found.budget['delta'])}"
    hidden = escape(str(found.neighbours))
    told = f"Differentially private for {found.whom}: {promise}, {hidden} neighbours. Measured on {rows}."
    if not found.private:
        told = f"NOT PRIVATE: the noise was seeded. Else {promise}, {hidden} neighbours. Measured on {rows}."
    kind = "dim" if found.private else "alarm"
    paid = "" if found.ledger_entry is None else f"<br>Paid by <code>{escape(found.ledger_entry)}</code>."
    return (
        f"<p class={kind}>{told} Every interval is meant to hold the true value for people like these in 95 of 100 "
        f"evaluations; it counts both the choice of the {found.unit}s and the noise.{paid}</p>"
    )


def _metrics(found: Found) -> str:
    noise = "" if found.local else "<th>of which noise</th>"
    lines = "".join(
        f"<tr><td>{escape(found.title(name))}</td><td class=l>{shown(figure)}</td>"
        f"<td class=l>{interval(figure)}</td>{'' if found.local else f'<td class=l>{noise_part(figure)}</td>'}"
        f"<td class=drawn>{interval_drawing(figure) if name in _BARS else ''}</td></tr>"
        for name, figure in found.metrics.items()
    )
    return (
        "<div class=wide><table><thead><tr><th>metric</th><th>estimate</th><th>95 % interval</th>"
        f"{noise}<th class=drawn></th></tr></thead><tbody>{lines}</tbody></table></div>"
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
    return f'<div class="plots curves">{figures}</div>' if figures else ""


def _confusion(found: Found) -> str:
    if not found.confusion:
        return ""
    rates = "".join(
        f"<tr><td>{escape(str(label))}</td>"
        + "".join(f"<td class=l>{_rate(line[name])}</td>" for name in ("recall", "precision"))
        + "</tr>"
        for label, line in zip(found.classes, found.rates, strict=True)
    )
    table = (
        "<div class=wide><table><thead><tr><th>class</th><th>recall</th><th>precision</th></tr></thead>"
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
        f"<h3>Confusion matrix, in % of the {found.unit}s</h3><div class=wide><table class=cells><thead><tr>"
        f"<th>true</th>{head}</tr></thead><tbody>{lines}</tbody></table></div><h3>By class, in %</h3>{table}"
    )


def _cell(figure: Figure, largest: float) -> str:
    share = (figure.estimate or 0.0) / (largest or 1.0)
    return f'<td class=l><i style="opacity:{0.3 * share:.3f}"></i><span>{_rate(figure)}</span></td>'


def _rate(figure: Figure) -> str:
    if figure.estimate is None or figure.low is None or figure.high is None:
        return TOO_NOISY
    low, high = 100 * figure.low, 100 * figure.high
    return f"{100 * figure.estimate:.1f} <span class=dim>({low:.1f} to {high:.1f})</span>"
