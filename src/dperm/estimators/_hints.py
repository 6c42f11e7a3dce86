"""Settings of scikit-learn's own models, and what stands for them here."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from dperm.errors import UnknownSetting

_STOPS = (
    "When to stop is decided before the data: a mechanism has its own number of passes or steps, for example "
    "mechanism=RSGDAR(epochs=20). A stop that looks at the rows would tell of them."
)
_NO_CHOICE = (
    "The mechanism is the solver: set mechanism= to a name that `dperm mechanisms` lists, or to 'auto'."
)

_HINTS = {
    "C": (
        "Use l2='auto', the default, which follows from the size of the table and the budget; or l2 = 1 / (C n): C "
        "weighs the sum of the losses over n rows, l2 weighs the penalty against their mean. Take n from public "
        "knowledge, and a larger l2 than without privacy: it lowers the noise of many mechanisms."
    ),
    "alpha": (
        "Use l2='auto', the default, or a number: for Ridge's alpha it is alpha / n with n rows, for SGDClassifier's "
        "and SGDRegressor's it is alpha itself. Take n from public knowledge."
    ),
    "penalty": "The penalty is always half the squared norm; set its weight with l2.",
    "l1_ratio": "There is no l1 penalty: the penalty is half the squared norm, and l2 its weight.",
    "class_weight": "There are no classes here; weigh rows with sample_weight and a declared sample_weight_bound.",
    "max_iter": _STOPS,
    "tol": _STOPS,
    "n_iter_no_change": _STOPS,
    "early_stopping": _STOPS,
    "solver": _NO_CHOICE,
    "dual": _NO_CHOICE,
    "warm_start": "Every fit starts anew, because it spends its budget anew.",
    "intercept_scaling": "The intercept column is a fixed share of x_norm, 0.3; fit_intercept turns it on or off.",
    "multi_class": "All classes are fitted at once in one budget; declare them with classes=.",
    "loss": "Its loss is fixed. Use PrivateLinearClassifier, which takes one with loss=.",
    "normalize": "Scale features by public ranges first, as PublicEncoder does, and say their bound with x_norm.",
    "n_jobs": "One fit is one release; it uses the processors by itself.",
}


def refuse_unknown(kind: type, names: Iterable[str]) -> None:
    """Answer settings that users of scikit-learn expect with what stands for them; others are left to Python."""
    known = inspect.signature(kind).parameters
    for name in names:
        if name not in known and name in _HINTS:
            raise UnknownSetting(f"{kind.__name__} has no {name}. {_HINTS[name]}")


def hint_for(name: str) -> str:
    """What stands for a setting of scikit-learn's; empty for any other name."""
    return _HINTS.get(name, "")
