"""Labels in, coefficients and predictions out: what the private classifiers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import DECLARED, TAKEN
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._base import PrivateLinearModel
from dperm.estimators._rows import checked, unquoted
from dperm.estimators._weights import refuse_weights
from dperm.ledger import Ledger
from dperm.losses import Loss
from dperm.mechanisms import Mechanism
from dperm.neighbours import Neighbours


class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier, trained with differential privacy.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The privacy budget that this one fit spends. Smaller is more private and noisier; delta should be
        well below one over the number of rows.
    mechanism : str or mechanism object, default="auto"
        How to train: "auto" chooses by a public rule; or a name that ``dperm mechanisms`` lists, or an object such as
        ``RSGDAR(epochs=20, batch_size=4000)`` to choose its settings.
    l2 : float, default=1e-3
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean loss.
    x_norm : float, default=1.0
        Public bound on the Euclidean norm of a row of features. Longer rows are scaled down to it.
    classes : sequence of labels, default=None
        The labels that may occur; of two, the positive one second. A label that does not occur gets its
        coefficients like any other. None takes the labels from y, and the report lists that among its
        assumptions; under add-remove and with a ledger they must be declared.
    fit_intercept : bool, default=True
        Add a constant column inside the bounded row. Like every coefficient it is penalised and noised.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        What the guarantee hides: the content of one row, or also whether it is there.
    max_rows : int, default=None
        For add-remove: a public number of rows that the table never exceeds; one that does is refused. Any
        smaller number fits, also none at all.
    random_state : int, Generator or RandomState, default=None
        None draws all randomness from the operating system. Anything else makes the fit repeatable and
        therefore NOT private; the report then says so, and a ledger refuses it.
    ledger : Ledger, default=None
        Where this fit is charged, before a row is read. A fit that would exceed the cap raises ``BudgetExceeded``.
    dataset : str, default=None
        Which dataset of the ledger the rows belong to; None is its default one.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), or (n_classes, n_features) for more than two classes
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, when X has column names
    privacy_ : PrivacyReport
        What is guaranteed, how, and under which assumptions. Print it, or use ``to_dict()``.
    ledger_entry_ : str or None
        The ledger, the charge that paid for this fit and the head of the ledger's history after it.
    """

    multi_class: ClassVar[bool] = False

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        mechanism: str | Mechanism = "auto",
        l2: float = 1e-3,
        x_norm: float = 1.0,
        classes: Sequence[Any] | None = None,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        max_rows: int | None = None,
        random_state: Any = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            l2=l2,
            x_norm=x_norm,
            fit_intercept=fit_intercept,
            neighbours=neighbours,
            max_rows=max_rows,
            random_state=random_state,
            ledger=ledger,
            dataset=dataset,
        )
        self.classes = classes

    def _loss(self, n_classes: int) -> Loss:
        """The loss for this many classes: of one output for two, of one output per class for more."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, **unsupported: Any) -> PrivateClassifier:
        """Plan from public facts, then train on the rows and release the weights once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows with a Euclidean norm above ``x_norm`` are scaled down to it. Under add-remove there may be none.
        y : array-like of shape (n_samples,)
            Labels, all of them in ``classes``.
        **unsupported
            Refused: ``sample_weight`` with the reason why.
        """
        refuse_weights(unsupported)
        paying = self.ledger is not None
        n_samples, n_features = self._table_shape(X, y, paying)
        classes = self._label_set(y, paying)
        loss = self._loss(len(classes))

        def read() -> tuple[NDArray[Any], NDArray[Any]]:
            form = {"dtype": [np.float64, np.float32], "ensure_min_samples": self._fewest_rows()}
            rows, labels = checked(self, X, y, **form)
            with unquoted():
                check_classification_targets(labels)
                places = _encode(labels, classes)
            return rows, 2.0 * places - 1.0 if loss.labels == "binary" else places

        coefficients, intercept = self._fit_weights(self._problem(n_samples, n_features, loss), read)
        self.classes_ = classes
        self.coef_ = np.ascontiguousarray(np.atleast_2d(coefficients.T))
        self.intercept_ = np.atleast_1d(intercept)
        self._bind()
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margins: of two classes one per row, positive for ``classes_[1]``; otherwise one column per class."""
        check_is_fitted(self)
        rows = checked(self, X, dtype=[np.float64, np.float32], reset=False)
        margins = np.asarray(rows @ self.coef_.T + self.intercept_)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label on the side of each row's margin, or of its largest one."""
        margins = self.decision_function(X)
        places = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the rows that are predicted right. It is not private."""
        check_is_fitted(self)
        with unquoted():
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multi_class
        tags.classifier_tags.poor_score = True  # at epsilon = 1 a few dozen rows teach little
        tags.non_deterministic = True
        return tags

    def _label_set(self, y: ArrayLike, paying: bool) -> NDArray[Any]:
        if self.classes is None and Neighbours.parse(self.neighbours) is Neighbours.ADD_REMOVE:
            raise InvalidInput(
                "neighbours='add-remove' hides whether a row is there, and labels taken from y would tell that of the "
                "only row with a label: declare all that may occur with classes=."
            )
        if self.classes is None and paying:
            raise InvalidInput(
                "With a ledger declare classes=, all labels that may occur: the charge comes before a row is read, and "
                "to take the labels from y is to read it."
            )
        labels = _labels_in(y) if self.classes is None else np.asarray(self.classes)
        if self.classes is None and len(labels) < 2:
            raise InvalidInput(
                "y holds 1 class and two are needed; if another class may occur, declare all with classes=."
            )
        if labels.ndim != 1 or len(labels) < 2 or len(set(labels.tolist())) < len(labels):
            raise InvalidInput(
                f"classes must hold at least two different labels; got an array of shape {labels.shape}."
            )
        if len(labels) > 2 and not self.multi_class:
            raise Unsupported(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{'y holds' if self.classes is None else 'classes declares'} {len(labels)} classes. Use "
                "PrivateLogisticRegression, which fits all of them in one budget."
            )
        return labels

    def _targets(self, loss: Loss) -> dict[str, Any]:
        origin = TAKEN if self.classes is None else DECLARED
        return {"kind": "classes", "count": max(loss.outputs, 2), "origin": origin}


def _labels_in(y: ArrayLike) -> NDArray[Any]:
    with unquoted():
        values = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
        check_classification_targets(values)
        return np.unique(values)


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """The place of each label among the classes."""
    places = np.full(len(y), -1.0)
    for place, label in enumerate(classes):
        places[y == label] = place
    if (places < 0).any():
        raise InvalidInput(
            "y holds labels outside classes; declare every label that may occur, of two the positive one second."
        )
    return places
