"""The context of a fit: the pipeline, the search or the ensemble that called it.

An estimator is not told who calls ``fit``, so the callers on the stack are looked through: scikit-learn's ``Pipeline``
and ``TransformedTargetRegressor`` for steps that learned from the rows, its searches, and every other estimator, which
counts as fitting several models unless it is known not to. This sees callers in the same thread. Of a fit in a worker
of joblib, where scikit-learn goes for ``n_jobs`` above 1, it sees that the caller cannot be seen, and says so. It does
not see rows transformed by hand before ``fit``, nor loops over fits, nor threads and processes of other kinds. There
the assumptions of the report stand as they are, and only the user can vouch for them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from dperm.certificate.assumptions import BLIND, Assumption, Code
from dperm.errors import InvalidInput, PrivacyWarning, Unsupported
from dperm.estimators.encoder import PublicEncoder
from dperm.estimators.pipeline_check import (
    Finding,
    findings,
    is_ours,
    role_around,
    sklearn_names,
    taken_on_trust,
)

_EVALUATION = "sklearn.model_selection._validation"  # cross-validation and its like: no model is kept
_LIBRARIES = {"dperm", "sklearn", "joblib", "imblearn"}


@dataclass
class FitContext:
    """What learned from the rows beside the private fit, as far as the callers tell.

    Attributes
    ----------
    learned : list of Finding
        Steps before the model.
    search : str or None
        The search that chose the settings.
    on_trust : list of Assumption
        What was taken on trust of steps before the model.
    inside : list of Finding
        Estimators that fit the model as one of several, or learn something of their own around it.
    fold : bool
        Whether the model belongs to one part of a cross-validation.
    worker : str or None
        The function that called ``fit`` in a parallel worker, if who called that function cannot be seen; empty if
        the worker called ``fit`` itself.
    announced : bool
        Whether a private search, which warns of the same by itself, is among the callers.
    of_persons : str or None
        What says that a person may have several rows: a schema before the model, or a search that was given groups.
    boosting : str or None
        The estimator that weighs rows by how models before this one did on all of them.
    binary : bool
        Whether the model is one of several, each of which tells two groups of the classes apart.
    """

    learned: list[Finding] = field(default_factory=list)
    search: str | None = None
    on_trust: list[Assumption] = field(default_factory=list)
    inside: list[Finding] = field(default_factory=list)
    fold: bool = False
    worker: str | None = None
    announced: bool = False
    of_persons: str | None = None
    boosting: str | None = None
    binary: bool = False

    def check_fit(self, weighted: bool, outputs: int) -> None:
        """Refuse weights that are made of other rows, and a model of many classes where one of two is wanted."""
        if weighted and self.boosting is not None:
            raise Unsupported(
                f"{self.boosting} makes the sample_weight of a row of all other rows, so no bound covers what one of "
                "them changes. Fit one model with the whole budget, on rows as they are."
            )
        if self.binary and outputs > 1:
            raise Unsupported(
                "this model is fitted for two groups of the classes, as OneVsRestClassifier and its like do, and "
                "classes declares more than two. Use the model by itself, which fits all classes in one budget; or "
                "leave classes at None."
            )

    def check_persons(self, by_person: bool) -> None:
        """Refuse to train row by row what was declared to be rows of persons."""
        if self.of_persons is not None and not by_person:
            raise InvalidInput(
                f"{self.of_persons}, and fit got no ids of persons: the guarantee would be for a row. Give them to the "
                "model itself, in a pipeline as STEP__groups=ids."
            )

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the report may say of settings, features and other fits."""
        settings, features = BLIND
        if self.search is not None:
            settings = Assumption.of(Code.UNCOUNTED_SEARCH, search=self.search)
        if self.learned:
            steps = "; ".join(f"{finding.where} learned {finding.learns}" for finding in self.learned)
            features = Assumption.of(Code.LEARNED_STEPS, steps=steps)
        return settings, features, *self.on_trust, *self._other_fits()

    def _other_fits(self) -> Iterator[Assumption]:
        for finding in self.inside:
            yield Assumption.of(Code.INSIDE, kind=finding.kind, learns=finding.learns)
        if self.fold:
            yield Assumption(Code.FOLD)
        if self.worker:
            yield Assumption.of(Code.WORKER_CALLED, caller=self.worker)
        elif self.worker is not None:
            yield Assumption(Code.WORKER)

    def warn(self, depth: int, cautions: Sequence[Assumption] = ()) -> None:
        """Tell the user; ``depth`` is the number of frames between the caller and the user's line."""
        if self.announced:
            return
        messages = [str(finding) for finding in (*self.learned, *self.inside)]
        if self.search is not None:
            messages.append(
                f"{self.search} chose the settings from the rows, at a cost that the report does not count. "
                "Use instead: PrivateSearchCV."
            )
        if self.worker is not None:
            by = f", called by {self.worker}," if self.worker else ""
            messages.append(
                f"This fit runs in a parallel worker{by} whose caller cannot be seen: each fit of the same rows spends "
                "its budget anew. Use instead: n_jobs=None, where callers are seen."
            )
        if messages:
            warnings.warn(
                "The guarantee does not cover all that was learned from the rows. " + " ".join(messages),
                PrivacyWarning,
                stacklevel=depth + 2,
            )
        for caution in cautions:
            warnings.warn(caution.text, caution.warning, stacklevel=depth + 2)


def fit_context(estimator: Any) -> tuple[FitContext, int]:
    """What is on the stack around ``estimator.fit``, and how many frames away the user's own line is."""
    seen, last, depth, at_user = FitContext(), "", 0, False
    fitted = [estimator]  # what is being fitted, from the inside out
    for frame in _callers():
        module = str(frame.f_globals.get("__name__", ""))
        at_user = at_user or module.partition(".")[0] not in _LIBRARIES
        depth += not at_user
        seen.fold |= module == _EVALUATION
        seen.binary |= module == "sklearn.multiclass" and frame.f_code.co_name == "_fit_binary"
        if module == "joblib.parallel":
            place = frame.f_code.co_qualname
            if place in ("BatchedCalls.__call__", "Parallel.__call__"):
                seen.worker = last if place == "BatchedCalls.__call__" else None
        elif module != "sklearn.utils.parallel" and not module.startswith("dperm."):
            last = f"{module}.{frame.f_code.co_name}"
        owner: Any = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames[:1] else None
        if not _is_estimator(owner) or any(owner is known for known in fitted):
            continue
        kinds = sklearn_names(owner)
        seen.announced |= is_ours(owner)
        if "BaseWeightBoosting" in kinds:
            seen.boosting = type(owner).__name__
        if "Pipeline" in kinds:
            for step, part in owner.steps[: _place(owner.steps, fitted)]:
                seen.learned += findings(part, (step,))
                seen.of_persons = seen.of_persons or _persons_of(part, step)
                seen.on_trust += [_trust(*what) for what in taken_on_trust(part, (step,))]
        elif "TransformedTargetRegressor" in kinds:
            seen.learned += findings(owner.transformer, ("transformer",))
        elif "BaseSearchCV" not in kinds:
            role = role_around(owner)
            seen.inside += [] if role is None else [role]
        else:
            seen.search = seen.search if seen.fold else type(owner).__name__
            if _given_groups(frame):
                seen.of_persons = f"{type(owner).__name__} gives groups to its splitter alone"
        fitted.append(owner)
    if seen.fold:
        seen.worker = None
    return seen, depth


def _persons_of(part: Any, step: str) -> str | None:
    """What a step before the model says of persons."""
    if not isinstance(part, PublicEncoder) or part.declared.person is None:
        return None
    return f"the schema of step {step} names a column with the ids of persons"


def _given_groups(frame: FrameType) -> bool:
    given = frame.f_locals.get("params")
    return isinstance(given, dict) and given.get("groups") is not None


def _callers() -> Iterator[FrameType]:
    """Frames from the caller of ``fit_context`` outwards."""
    frame = inspect.currentframe()
    frame = frame and frame.f_back and frame.f_back.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_estimator(owner: Any) -> bool:
    """By its class alone, so that nothing of a stranger's object runs."""
    return hasattr(type(owner), "fit") and hasattr(type(owner), "get_params")


def _place(steps: list[tuple[str, Any]], inside: list[Any]) -> int:
    """Which step is being fitted: the one on the stack, or else the last."""
    for place, (_, part) in enumerate(steps):
        if any(part is seen for seen in inside):
            return place
    return len(steps) - 1


def _trust(step: str, kind: str) -> Assumption:
    return Assumption.of(Code.FROZEN_STEP if kind == "FrozenEstimator" else Code.FUNCTION_STEP, step=step)
