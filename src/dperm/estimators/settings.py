"""Settings of the estimators: each stands here once, with its type, its default and its meaning.

They are fields of dataclasses, so every estimator has a flat and explicit signature of keywords. ``documented`` shows
what these classes say of each in the docstring of every estimator.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from dperm.estimators.labels import ClassWeight, LossLike
from dperm.ledger import Ledger
from dperm.losses import ClippedSquared, Logistic
from dperm.mechanisms import Mechanism
from dperm.planning.rules import AUTO, L2
from dperm.unit import Neighbours, PersonLoss

Estimator = TypeVar("Estimator", bound=type)


@dataclass(kw_only=True, eq=False, repr=False)
class ModelSettings:
    """Settings of every linear model.

    epsilon : float
        The privacy budget that this one fit spends. Smaller is more private and noisier.
    delta : float
        The other half of the budget: it should be well below one over the number of rows.
    mechanism : str or mechanism object
        How to train. "auto" standardises rows privately and chooses loss, mechanism and settings by a public rule; or a
        name that ``dperm mechanisms`` lists, or an object such as ``RSGDAR(epochs=20, batch_size=4000)``.
    l2 : float or "auto"
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean loss. "auto"
        follows from the size of the table, the loss, the relation and the budget by a public rule of the mechanism; the
        report tells the number. A number means that number.
    x_norm : float
        Public bound on the Euclidean norm of a row of features. Longer rows are scaled down to it in ``fit``, and in
        ``predict`` unless the map of the rows is linear, as that of "auto" is.
    fit_intercept : bool
        Add a constant column inside the bounded row. Like every coefficient it is penalised and noised.
    neighbours : {"replace-one", "add-remove"}
        What the guarantee hides: the content of one row, or also whether it is there.
    max_rows : int
        For add-remove: a public number of rows, or with ``groups`` of persons, that the table never exceeds; one that
        does is refused. Any smaller number fits, also none at all.
    sample_weight_bound : float
        Public bound on the ``sample_weight`` of a row, which ``fit`` then takes. Weights beyond it are cut off, and the
        noise grows with it.
    person_loss : {"mean", "sum"}
        With ``groups`` in ``fit``: what stands for a person. "mean" is the mean of the losses of their rows, however
        many there are. "sum" adds up at most ``max_rows_per_person`` of them, and the noise grows with that number.
    max_rows_per_person : int
        With ``groups`` in ``fit``: how many rows of one person are kept, the first ones. With "mean" None keeps as many
        as rounding allows, 256 or more (``dperm.unit.rows_kept``). 1 is for tables with one row for each person.
    inference : bool
        Spend a share of the budget on a noisy curvature at the released weights, and for numbers on squared residuals,
        from which confidence intervals are made. "auto" then trains with the loss that was asked for, on rows as they
        came. For the logistic and the squared loss, and for "auto", "objective", "dp-gd" and "adassp".
    random_state : int, Generator or RandomState
        None draws all randomness from the operating system. Anything else makes the fit repeatable and
        therefore NOT private; the report then says so, and a ledger refuses it.
    ledger : Ledger
        Where this fit is charged, before a row is read. A fit that would exceed the cap raises ``BudgetExceeded``.
    dataset : str
        Which dataset of the ledger the rows belong to; None is its default one.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    mechanism: str | Mechanism = "auto"
    l2: L2 = AUTO
    x_norm: float = 1.0
    fit_intercept: bool = True
    neighbours: str = Neighbours.REPLACE_ONE.value
    max_rows: int | None = None
    sample_weight_bound: float | None = None
    person_loss: str = PersonLoss.MEAN.value
    max_rows_per_person: int | None = None
    inference: bool = False
    random_state: Any = None
    ledger: Ledger | None = None
    dataset: str | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierSettings(ModelSettings):
    """Settings of a classifier beside those of every model.

    classes : sequence of labels
        The labels that may occur, in the order in which tables tell of them; of two, the positive one second.
        ``classes_`` is sorted whatever the order. A label that does not occur gets its coefficients like any other.
        None takes the labels from y, and the report lists that among its assumptions; under add-remove and with a
        ledger they must be declared.
    positive : label
        Of two classes the one whose recall, precision, F1, ROC curve, threshold and effects are told, in evaluations,
        summaries and ``tune_threshold``. None is the second of ``classes``, or of the sorted labels where they are
        taken from y. Nothing is trained otherwise by it.
    class_weight : dict of label to number
        Public weights of the classes, by label, declared without the data; a class without one weighs 1. A row's loss
        counts by the weight of its class, and the noise grows with the largest weight. ``dperm.balanced_weights`` makes
        them of shares that are known.
    """

    classes: Sequence[Any] | None = None
    positive: Any = None
    class_weight: ClassWeight = None


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifierSettings(ClassifierSettings):
    """Settings of a classifier with a loss of your choice.

    loss : str or Loss
        What is minimised: a name of a registered loss, or a loss object with its own settings such as
        ``HuberHinge(width=0.1)``.
    """

    loss: LossLike = Logistic.name


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionSettings(ModelSettings):
    """Settings of a regression beside those of every model, three of which mean something more.

    loss : str or Loss
        What is minimised: "squared", or another registered loss for real targets, by name or as an object. Targets
        reach it moved to [-1, 1].
    y_range : (low, high)
        Public bounds on the target, from what is known without the data. Targets beyond are cut off. ``fit`` raises
        without it: no range would suit every target, and a wrong one ruins the model without a word.
    residual_bound : float
        Residuals count squared up to this size and linearly beyond it, in units of half the range. A
        smaller bound means less noise and less influence of outliers. "auto" takes one of its own in place of the
        default. "adassp" does not use it, and other losses than "squared" do not take it.
    mechanism : str or mechanism object
        How to train. "auto" standardises rows privately and minimises one noisy objective with softly clipped
        residuals; "adassp" solves from noisy moments; the mechanisms that follow gradients or perturb the minimiser
        train with the squared loss and clipped residuals.
    l2 : float or "auto"
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean of half
        the squared residuals, with targets in [-1, 1]. "auto" follows from the size of the table, the loss, the
        relation and the budget by a public rule of the mechanism; the report tells the number.
    fit_intercept : bool
        Add a constant column inside the bounded row. Like every coefficient it is penalised and noised; the
        middle of ``y_range`` is added without cost. Without it predictions are 0 where the features are.
    """

    loss: LossLike = ClippedSquared.name
    y_range: tuple[float, float] | None = None
    residual_bound: float = 1.0


_OF_CLASSIFIERS = """
coef_ : ndarray of shape (1, n_features), or (n_classes, n_features) for more than two classes
intercept_ : ndarray of shape (1,) or (n_classes,)
classes_ : ndarray of shape (n_classes,)
    Sorted, as in scikit-learn: margins are positive for ``classes_[1]`` of two, and columns of ``predict_proba``
    and rows of ``coef_`` follow it.
class_order_ : ndarray of shape (n_classes,)
    The same in the order in which tables tell of them: as declared, of two the positive one last.
positive_ : label or None
    The positive one of two classes; None where there are more.
threshold_ : Threshold or None
    Where ``tune_threshold`` put the line between two classes, and what that cost; None for a margin of 0.
    ``privacy_.thresholds`` has all that were tuned.
"""

_OF_ALL = """
n_features_in_ : int
feature_names_in_ : ndarray of str, when X has column names
row_map_ : RowMap
    What every row passes through before the model sees it, in training as in prediction: the bound, and where rows
    are standardised the centre and the scale made of what was released. A map that is ``linear`` bounds rows in
    training only, and margins are ``X @ coef_.T + intercept_`` for rows as they came.
privacy_ : PrivacyReport
    What is guaranteed, how, and under which assumptions. Print it, or use ``to_dict()``.
certificate_ : dict
    The same for machines, bound to the numbers that were released.
ledger_entry_ : str or None
    The ledger, the charge that paid for this fit and the head of the ledger's history after it.
"""


def documented(attributes: str = _OF_CLASSIFIERS) -> Callable[[Estimator], Estimator]:
    """Fill ``{parameters}`` and ``{attributes}`` in the docstring of a class.

    ``attributes`` are those that come before the ones of all estimators. All fields are listed, in their order.
    """

    def complete(kind: Estimator) -> Estimator:
        if kind.__doc__ is None:  # python -OO
            return kind
        meanings: dict[str, str] = {}
        for base in reversed(kind.__mro__[1:]):
            if issubclass(base, ModelSettings):
                said = re.split(r"^(\w+) : ", inspect.cleandoc(base.__doc__ or ""), flags=re.MULTILINE)
                meanings.update(zip(said[1::2], said[2::2], strict=True))
        entries = []
        for one in fields(kind):
            text, _, meaning = meanings[one.name].rstrip().partition("\n")
            default = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
            entries.append(f"{one.name} : {text}, default={default}\n{meaning}")
        kind.__doc__ = (
            inspect.cleandoc(kind.__doc__)
            .replace("{parameters}", "\n".join(["Parameters", "----------", *entries]))
            .replace("{attributes}", f"Attributes\n----------\n{attributes.strip()}\n{_OF_ALL.strip()}")
        )
        return kind

    return complete
