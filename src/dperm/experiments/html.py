"""One self-contained HTML page of one or more comparisons: interactive curves, table, settings and cost."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dperm.errors import InvalidInput
from dperm.experiments.metrics import METRICS
from dperm.experiments.results import Curve, Study, complete, curves, separate
from dperm.experiments.series import (
    Look,
    display_name,
    error_in_words,
    is_above_minimum,
    limit,
    line,
    looks,
    remark,
)
from dperm.planning.rules import l2_in_words
from dperm.render.style import DARK, LIGHT, colours

_TITLE = "Private mechanisms compared"
_NOT_A_RELEASE = (
    "An evaluation on held-out rows, not a private release: no noise was added to these figures, and they come from "
    "many models on the same rows."
)


def write_html(
    results: pa.Table | Sequence[pa.Table],
    path: str | os.PathLike[str],
    *,
    title: str = _TITLE,
    above: str = "",
    below: str = "",
) -> Path:
    """Write the page of one or more tables of results; it needs no network and no other file.

    Parameters
    ----------
    results : pyarrow.Table or several
        As ``compare`` returns them, or read back from files. Every study gets a tab.
    path : path
        The HTML file to write.
    title : str
        The heading of the page.
    above, below : str
        HTML to put above and below the curves; with either there may be no results.
    """
    from dperm.models.atomic import atomic_path

    page = html_page(results, title=title, above=above, below=below)
    with atomic_path(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)


def html_page(
    results: pa.Table | Sequence[pa.Table], title: str = _TITLE, above: str = "", below: str = ""
) -> str:
    """The text of the page."""
    folder = files("dperm.experiments") / "page"
    part = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    }
    studies = page_data(results)
    if not (studies or above or below):
        raise InvalidInput("there are no results to show; every mechanism was skipped.")
    metrics = {name: asdict(metric) for name, metric in METRICS.items()}
    document = {"title": title, "metrics": metrics, "studies": studies}
    inserts = {
        "<!--TITLE-->": escape(title),
        "<!--NOTE-->": _NOT_A_RELEASE if studies else "",
        "<!--ABOVE-->": above,
        "<!--BELOW-->": below,
        "/*STYLE*/": colours(":root", LIGHT) + colours(':root[data-theme="dark"]', DARK) + part["page.css"],
        "/*DATA*/": _embedded(document),
        "/*SCRIPT*/": part["page.js"],
    }
    marks = re.compile("|".join(map(re.escape, inserts)))
    return marks.sub(lambda found: inserts[found[0]], part["page.html"])


def page_data(results: pa.Table | Sequence[pa.Table]) -> list[dict[str, Any]]:
    """All that the page shows, study by study, ready for JSON."""
    tables = [results] if isinstance(results, pa.Table) else list(results)
    return [_study(part) for table in tables for part in separate(table) if len(part)]


def _embedded(document: object) -> str:
    """JSON that cannot end the script element it stands in, whatever its texts are."""
    text = json.dumps(document, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _study(results: pa.Table) -> dict[str, Any]:
    study, found = Study.of(results), curves(results)
    settings, look = _settings(results), looks(found)
    return {
        "dataset": study.dataset,
        "loss": study.loss,
        "error": error_in_words(study),
        "above_minimum": is_above_minimum(found, "objective"),
        "limits": {metric: limit(found, look, metric) for metric in METRICS},
        "digits": {metric: _digits(found, metric) for metric in METRICS},
        "facts": _facts(study),
        "versions": dict(study.versions),
        "machine": dict(study.machine),
        "epsilons": sorted({float(epsilon) for curve in found for epsilon in curve.epsilons}),
        "configurations": [
            _configuration(curve, some, found, settings.get(curve.label, []))
            for curve, some in zip(found, look, strict=True)
        ],
        "skipped": [
            {"label": name, "reason": reason, "epsilons": [e for e in at if np.isfinite(e)]}
            for (name, reason), at in study.gaps().items()
        ],
    }


def _facts(study: Study) -> list[tuple[str, str]]:
    split = "the published parts" if study.folds == 1 else f"{study.folds} folds"
    ends = study.y_range
    target = f"{study.n_classes} classes" if ends is None else f"a number from {ends[0]:g} to {ends[1]:g}"
    return [
        (f"{study.unit.capitalize()}s", f"{study.n_rows:,}"),
        ("Features", f"{study.n_features:,}"),
        ("Target", target),
        ("Loss", study.loss),
        ("l2 penalty", l2_in_words(study.l2)),
        ("Bound on the norm of a row", f"{study.x_norm:g}"),
        ("δ", f"{study.delta:g}"),
        ("Neighbours", study.relation),
        ("Split", f"{study.repeats} × {split}"),
        ("Seed", "none" if study.seed is None else str(study.seed)),
        ("Identity", study.identity[:16] or "none"),
    ]


def _digits(found: Sequence[Curve], metric: str) -> int:
    drawn = (line(curve, metric, found) for curve in found)
    means = (mean for one in drawn if one is not None for mean in one.mean.tolist())
    return METRICS[metric].decimals(METRICS[metric].factor * mean for mean in means)


def _configuration(
    curve: Curve, look: Look, found: Sequence[Curve], settings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    means = {metric: curve.means(metric) for metric in METRICS}
    above = line(curve, "objective", found) if is_above_minimum(found, "objective") else None
    drawn = () if above is None else zip(above.epsilons.tolist(), above.mean, above.error, strict=True)
    excess = {epsilon: (mean, error) for epsilon, mean, error in drawn}
    points = [
        {
            "epsilon": epsilon,
            "runs": len(runs),
            **{metric: _pair(*means[metric][epsilon]) for metric in METRICS},
            "excess": _pair(*excess.get(epsilon, (math.nan, math.nan))),
        }
        for epsilon, runs in zip(curve.epsilons.tolist(), curve.runs, strict=True)
    ]
    return {
        "label": display_name(curve),
        "mechanism": curve.mechanism,
        "kind": look.kind,
        "colour": look.colour,
        "remark": remark(curve),
        "tuning": curve.tuning,
        "accounting": curve.accounting,
        "seconds": curve.seconds,
        "points": points,
        "settings": list(settings),
    }


def _pair(mean: float, error: float) -> dict[str, float | None] | None:
    """Mean and standard error; JSON has no name for what is not a number."""
    if not math.isfinite(mean):
        return None
    return {"mean": float(mean), "error": float(error) if math.isfinite(error) else None}


def _settings(results: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The settings really used, by label: each setting once, and the epsilons it was used at."""
    used: dict[str, dict[tuple[tuple[str, str], ...], set[float]]] = {}
    results = complete(results)
    columns = [results[name].to_pylist() for name in ("label", "settings", "epsilon", "l2")]
    for name, text, epsilon, number in zip(*columns, strict=True):
        if name is not None and text is not None:
            shown = _plain(text) if number is None else {**_plain(text), "l2": f"{number:.3g}"}
            used.setdefault(name, {}).setdefault(tuple(shown.items()), set()).add(epsilon)
    return {
        name: [{"used": dict(shown), "epsilons": sorted(at)} for shown, at in entries.items()]
        for name, entries in used.items()
    }


def _plain(text: str) -> dict[str, str]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError:
        return {"settings": text}
    if not isinstance(settings, dict):
        return {"settings": text}
    return {str(key): _short(value) for key, value in settings.items()}


def _short(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)
