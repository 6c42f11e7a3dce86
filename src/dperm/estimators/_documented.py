"""Docstrings of the estimators: what they share is written here once, and every class shows all of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

Estimator = TypeVar("Estimator", bound=type)
Entries = Mapping[str, tuple[str, str]]

PARAMETERS: Entries = {
    "loss": (
        "str or Loss",
        """
        What is minimised: a name of a registered loss, or a loss object with its own settings such as
        ``HuberHinge(width=0.1)``.
        """,
    ),
    "epsilon": (
        "float",
        "The privacy budget that this one fit spends. Smaller is more private and noisier.",
    ),
    "delta": ("float", "The other half of the budget: it should be well below one over the number of rows."),
    "mechanism": (
        "str or mechanism object",
        """
        How to train. "auto" standardises rows privately and chooses loss, mechanism and settings by a public rule; or a
        name that ``dperm mechanisms`` lists, or an object such as ``RSGDAR(epochs=20, batch_size=4000)``.
        """,
    ),
    "l2": (
        'float or "auto"',
        """
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean loss. "auto"
        follows from the size of the table, the loss, the relation and the budget by a public rule of the mechanism; the
        report tells the number. A number means that number.
        """,
    ),
    "x_norm": (
        "float",
        """
        Public bound on the Euclidean norm of a row of features. Longer rows are scaled down to it in ``fit``, and in
        ``predict`` unless the map of the rows is linear, as that of "auto" is.
        """,
    ),
    "classes": (
        "sequence of labels",
        """
        The labels that may occur, in the order in which tables tell of them; of two, the positive one second.
        ``classes_`` is sorted whatever the order. A label that does not occur gets its coefficients like any other.
        None takes the labels from y, and the report lists that among its assumptions; under add-remove and with a
        ledger they must be declared.
        """,
    ),
    "positive": (
        "label",
        """
        Of two classes the one whose recall, precision, F1, ROC curve, threshold and effects are told, in evaluations,
        summaries and ``tune_threshold``. None is the second of ``classes``, or of the sorted labels where they are
        taken from y. Nothing is trained otherwise by it.
        """,
    ),
    "fit_intercept": (
        "bool",
        "Add a constant column inside the bounded row. Like every coefficient it is penalised and noised.",
    ),
    "neighbours": (
        '{"replace-one", "add-remove"}',
        "What the guarantee hides: the content of one row, or also whether it is there.",
    ),
    "max_rows": (
        "int",
        """
        For add-remove: a public number of rows, or with ``groups`` of persons, that the table never exceeds; one that
        does is refused. Any smaller number fits, also none at all.
        """,
    ),
    "class_weight": (
        "dict of label to number",
        """
        Public weights of the classes, by label, declared without the data; a class without one weighs 1. A row's loss
        counts by the weight of its class, and the noise grows with the largest weight. ``dperm.balanced_weights`` makes
        them of shares that are known.
        """,
    ),
    "sample_weight_bound": (
        "float",
        """
        Public bound on the ``sample_weight`` of a row, which ``fit`` then takes. Weights beyond it are cut off, and the
        noise grows with it.
        """,
    ),
    "person_loss": (
        '{"mean", "sum"}',
        """
        With ``groups`` in ``fit``: what stands for a person. "mean" is the mean of the losses of their rows, however
        many there are. "sum" adds up at most ``max_rows_per_person`` of them, and the noise grows with that number.
        """,
    ),
    "max_rows_per_person": (
        "int",
        """
        With ``groups`` in ``fit``: how many rows of one person are kept, the first ones. With "mean" None keeps as many
        as rounding allows, 256 or more (``dperm.unit.rows_kept``). 1 is for tables with one row for each person.
        """,
    ),
    "inference": (
        "bool",
        """
        Spend a share of the budget on a noisy curvature at the released weights, and for numbers on squared residuals,
        from which confidence intervals are made. "auto" then trains with the loss that was asked for, on rows as they
        came. For the logistic and the squared loss, and for "auto", "objective", "dp-gd" and "adassp".
        """,
    ),
    "random_state": (
        "int, Generator or RandomState",
        """
        None draws all randomness from the operating system. Anything else makes the fit repeatable and
        therefore NOT private; the report then says so, and a ledger refuses it.
        """,
    ),
    "ledger": (
        "Ledger",
        "Where this fit is charged, before a row is read. A fit that would exceed the cap raises ``BudgetExceeded``.",
    ),
    "dataset": ("str", "Which dataset of the ledger the rows belong to; None is its default one."),
}

ATTRIBUTES: Entries = {
    "coef_": ("ndarray of shape (1, n_features), or (n_classes, n_features) for more than two classes", ""),
    "intercept_": ("ndarray of shape (1,) or (n_classes,)", ""),
    "classes_": (
        "ndarray of shape (n_classes,)",
        """
        Sorted, as in scikit-learn: margins are positive for ``classes_[1]`` of two, and columns of ``predict_proba``
        and rows of ``coef_`` follow it.
        """,
    ),
    "class_order_": (
        "ndarray of shape (n_classes,)",
        "The same in the order in which tables tell of them: as declared, of two the positive one last.",
    ),
    "positive_": ("label or None", "The positive one of two classes; None where there are more."),
    "threshold_": (
        "Threshold or None",
        "Where ``tune_threshold`` put the line between two classes, and what that cost; None for a margin of 0. "
        "``privacy_.thresholds`` has all that were tuned.",
    ),
    "n_features_in_": ("int", ""),
    "feature_names_in_": ("ndarray of str, when X has column names", ""),
    "row_map_": (
        "RowMap",
        """
        What every row passes through before the model sees it, in training as in prediction: the bound, and where rows
        are standardised the centre and the scale made of what was released. A map that is ``linear`` bounds rows in
        training only, and margins are ``X @ coef_.T + intercept_`` for rows as they came.
        """,
    ),
    "privacy_": (
        "PrivacyReport",
        "What is guaranteed, how, and under which assumptions. Print it, or use ``to_dict()``.",
    ),
    "certificate_": ("dict", "The same for machines, bound to the numbers that were released."),
    "ledger_entry_": (
        "str or None",
        "The ledger, the charge that paid for this fit and the head of the ledger's history after it.",
    ),
}


def documented(
    parameters: Entries | None = None, attributes: Entries | None = None
) -> Callable[[Estimator], Estimator]:
    """Fill ``{parameters}`` and ``{attributes}`` in the docstring of a class.

    Parameters
    ----------
    parameters : mapping, optional
        Entries in place of the shared ones. All parameters of the signature are listed, in its order.
    attributes : mapping, optional
        Entries in place of the shared ones; one of None leaves an attribute out.
    """

    def complete(kind: Estimator) -> Estimator:
        if kind.__doc__ is None:  # python -OO
            return kind
        told = {**PARAMETERS, **(parameters or {})}
        stored = {**ATTRIBUTES, **(attributes or {})}
        signature = inspect.signature(kind).parameters
        entries = [
            _entry(name, f"{told[name][0]}, default={_shown(parameter.default)}", told[name][1])
            for name, parameter in signature.items()
        ]
        kind.__doc__ = (
            inspect.cleandoc(kind.__doc__)
            .replace("{parameters}", "\n".join(["Parameters", "----------", *entries]))
            .replace(
                "{attributes}",
                "\n".join(
                    ["Attributes", "----------", *(_entry(n, *entry) for n, entry in stored.items() if entry)]
                ),
            )
        )
        return kind

    return complete


def _entry(name: str, kind: str, text: str) -> str:
    lines = inspect.cleandoc(text).splitlines()
    return "\n".join([f"{name} : {kind}", *(f"    {line}" for line in lines)])


def _shown(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)
