"""Intervals beside what a summary says of a model, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import is_turned
from dperm.models.deviations import ESTIMATED, UNKNOWN, Deviations
from dperm.models.intervals.call import Known
from dperm.models.intervals.ends import Ends
from dperm.models.intervals.table import ASSUMED, HELP, Interval
from dperm.schema import Schema

LEVEL = 0.95
_WORDS = (
    "Estimates are corrected for the penalty. Their intervals hold both chance in the rows and the noise of privacy; "
    "privacy is its share of the variance. "
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Beside:
    """What is known of each row; ``ends`` is None where it is too noisy to say."""

    ends: Ends | None
    deviations: Deviations

    def interval(self, place: int) -> Interval:
        return Interval.of(self.ends, place, "")


def intervals_in(estimator: PrivateLinearModel, combinations: Any, schema: Schema | None) -> Beside | None:
    """Of combinations of what is told of a model, and of its intercept; None if it released nothing to make them of.

    It is ``coef_``, or where the positive class is ``classes_[0]`` its negative.
    """
    if estimator._curvature is None:
        return None
    try:
        found = Known.of(estimator, schema).ends(combinations, LEVEL)
    except Unsupported as reason:
        words = str(reason)[:1].upper() + str(reason)[1:]
        return Beside(ends=None, deviations=Deviations(values=None, sure=UNKNOWN, words=words))
    if found is None:
        return Beside(ends=None, deviations=Deviations(values=None, sure=UNKNOWN, words=HELP))
    if is_turned(estimator):
        found = found.turned
    noise = found.error * np.sqrt(found.privacy)
    return Beside(ends=found, deviations=Deviations(values=noise, sure=ESTIMATED, words=_WORDS + ASSUMED))
