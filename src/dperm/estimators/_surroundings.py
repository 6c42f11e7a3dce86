"""What stands around an estimator while it is being fitted: the pipeline or the search that called it.

An estimator is not told who calls ``fit``, so the callers on the stack are looked through for scikit-learn's
``Pipeline``, ``TransformedTargetRegressor`` and searches. This sees callers in the same thread. It does not see
rows transformed by hand before ``fit``, nor callers in another thread or process (the model that a parallel search
keeps is fitted by the search itself, so it is seen). There the assumptions of the report stand as they are, and only
the user can vouch for them.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

from dperm.certificate.statement import FEATURES_ASSUMED, SETTINGS_ASSUMED
from dperm.errors import PrivacyWarning
from dperm.estimators.pipeline_check import Finding, findings, is_ours, sklearn_names, taken_on_trust

_FITS = {"fit", "fit_transform", "fit_predict"}
_FOLD = "_fit_and_score"  # scikit-learn's fit of one fold of cross-validation: that model is not kept
_LIBRARIES = {"dperm", "sklearn", "joblib", "imblearn"}


@dataclass(frozen=True)
class Surroundings:
    """Steps that learned from the rows, the search that chose the settings, and steps that are taken on trust."""

    learned: tuple[Finding, ...] = ()
    search: str | None = None
    on_trust: tuple[str, ...] = ()

    def assumptions(self) -> tuple[str, ...]:
        """What the report may say of settings and features."""
        settings = SETTINGS_ASSUMED
        if self.search is not None:
            settings = f"NOT MET: {self.search} chose settings from the rows; the guarantee does not cover the choice."
        features = FEATURES_ASSUMED
        if self.learned:
            steps = "; ".join(f"{finding.where} learned {finding.learns}" for finding in self.learned)
            features = (
                "NOT MET: steps before this model learned from the rows, so the guarantee covers this last step "
                f"only: {steps}."
            )
        return settings, features, *self.on_trust

    def warn(self, depth: int) -> None:
        """Tell the user; ``depth`` is the number of frames between the caller and the user's line."""
        messages = [str(finding) for finding in self.learned]
        if self.search is not None:
            messages.append(
                f"{self.search} chose the settings from the rows, at a cost that the report does not count. "
                "Use instead: PrivateSearchCV."
            )
        if messages:
            warnings.warn(
                "The guarantee does not cover all that was learned from the rows. " + " ".join(messages),
                PrivacyWarning,
                stacklevel=depth + 2,
            )


def surroundings(estimator: Any) -> tuple[Surroundings, int]:
    """What is on the stack around ``estimator.fit``, and how many frames away the user's own line is."""
    learned: list[Finding] = []
    trusted: list[str] = []
    search, evaluated, depth, at_user = None, False, 0, False
    inside = [estimator]  # what is being fitted, from the inside out
    frame = inspect.currentframe()
    frame = None if frame is None else frame.f_back
    while frame is not None:
        at_user = at_user or frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES
        depth += not at_user
        name = frame.f_code.co_name
        evaluated = evaluated or name == _FOLD
        owner = frame.f_locals.get("self") if name in _FITS else None
        if owner is not None:
            kinds = sklearn_names(owner)
            if "Pipeline" in kinds:
                for step, part in owner.steps[: _place(owner.steps, inside)]:
                    learned += findings(part, (step,))
                    trusted += [_trust(*what) for what in taken_on_trust(part, (step,))]
            elif "TransformedTargetRegressor" in kinds:
                learned += findings(owner.transformer, ("transformer",))
            elif "BaseSearchCV" in kinds and not is_ours(owner) and not evaluated:
                search = type(owner).__name__
            inside.append(owner)
        frame = frame.f_back
    return Surroundings(tuple(learned), search, tuple(trusted)), depth


def _place(steps: list[tuple[str, Any]], inside: list[Any]) -> int:
    """Which step is being fitted: the one on the stack, or else the last."""
    for place, (_, part) in enumerate(steps):
        if any(part is seen for seen in inside):
            return place
    return len(steps) - 1


def _trust(where: str, kind: str) -> str:
    if kind == "FrozenEstimator":
        return f"The frozen step {where} was fitted on public rows."
    return f"The function of step {where} works row by row."
