"""The public facts of one learning task: all that a plan may look at before any row is read."""

import math
from dataclasses import dataclass
from typing import Self

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.errors import InvalidInput
from dperm.losses import Loss
from dperm.row_map import RowMap
from dperm.unit import PERSON, Neighbours, PersonLoss, Persons, PrivacyUnit

INTERCEPT_SCALE = 0.3  # the intercept column as a share of x_norm: it grows the row norm by 4.4 % only
LARGEST = 1e60  # of a bound or regulariser, so that products of several stay within the floats


@dataclass(frozen=True, kw_only=True)
class Problem:
    r"""Minimise :math:`\frac1n \sum_i \phi(\langle z_i, w\rangle, y_i) + \frac\lambda2 \lVert w\rVert^2`.

    ``n_rows`` is public: the size of the table, or under add/remove its declared capacity. A row is
    z = (x, b) with :math:`\lVert x \rVert \le` ``x_norm`` and b = ``intercept`` (0: no intercept
    column), so the intercept is one more bounded, penalised, noised coordinate. ``arithmetic`` is how precise the
    passes over the rows will be: what a plan allows for, and what a run must keep to. With ``persons`` the unit of
    privacy is a person: ``n_rows`` counts persons, and the loss of one is made of those of their rows.
    """

    loss: Loss
    l2: float
    x_norm: float
    n_rows: int
    n_features: int
    intercept: float = 0.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    arithmetic: Arithmetic = FLOAT64
    persons: Persons | None = None

    def __post_init__(self) -> None:
        if not 1 / LARGEST <= self.x_norm <= LARGEST:
            raise InvalidInput(
                f"x_norm must be a positive number of ordinary size; got {self.x_norm!r}. Choose it from what is "
                "publicly known of the features; rows beyond it are scaled down."
            )
        for name, value in (("l2", self.l2), ("intercept", self.intercept)):
            if not 0 <= value <= LARGEST:
                raise InvalidInput(f"{name} must be a number from 0 to {LARGEST:g}; got {value!r}.")
        for name, count in (("n_rows", self.n_rows), ("n_features", self.n_features)):
            if count < 1:
                raise InvalidInput(f"{name} must be at least 1; got {count}.")

    @classmethod
    def for_table(
        cls,
        n_rows: int,
        n_features: int,
        *,
        loss: Loss,
        l2: float,
        x_norm: float,
        fit_intercept: bool = True,
        neighbours: Neighbours = Neighbours.REPLACE_ONE,
        persons: Persons | None = None,
    ) -> Self:
        """The task that an estimator sets itself: its intercept column is ``INTERCEPT_SCALE * x_norm``."""
        return cls(
            loss=loss,
            l2=l2,
            x_norm=x_norm,
            n_rows=n_rows,
            n_features=n_features,
            intercept=INTERCEPT_SCALE * x_norm if fit_intercept else 0.0,
            neighbours=neighbours,
            persons=persons,
        )

    @property
    def many_rows(self) -> bool:
        """Whether one unit of privacy may hold several rows."""
        return self.persons is not None and self.persons.rows_per_person > 1

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """What the guarantee hides."""
        most = self.n_rows if self.neighbours is Neighbours.ADD_REMOVE else None
        if self.persons is None:
            return PrivacyUnit(relation=self.neighbours, max_units=most)
        return PrivacyUnit(
            relation=self.neighbours,
            unit=PERSON,
            max_units=most,
            max_rows=self.persons.rows_per_person,
            combine=self.persons.loss,
        )

    @property
    def unit(self) -> str:
        """Whom the guarantee protects, in a word."""
        return self.privacy_unit.unit

    @property
    def heaviest_row(self) -> float:
        """The largest weight of a row by itself, apart from how the rows of one person are counted."""
        summed = self.persons is not None and self.persons.loss is PersonLoss.SUM
        return self.loss.heaviest / self.rows_of(1) if summed else self.loss.heaviest

    def rows_of(self, n: float) -> float:
        """How many rows n units hold at most."""
        return n if self.persons is None else n * self.persons.rows_per_person

    @property
    def row_map(self) -> RowMap:
        """What a row passes through before a model sees it, unless a mechanism moves it further."""
        return RowMap(x_norm=self.x_norm, intercept=self.intercept)

    @property
    def n_columns(self) -> int:
        """Features plus the intercept column."""
        return self.n_features + (self.intercept > 0)

    @property
    def dimension(self) -> int:
        """Number of released coefficients."""
        return self.n_columns * self.loss.outputs

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a whole row, the intercept column inside it."""
        if self.intercept == 0:
            return self.x_norm
        return math.nextafter(math.hypot(self.x_norm, self.intercept), math.inf)

    @property
    def gradient_bound(self) -> float:
        """R: bound on the norm of one row's gradient, without the regulariser (it cancels)."""
        return self.loss.lipschitz * self.row_norm

    @property
    def gradient_gap(self) -> float:
        """How far the *sum* of gradients moves, at the same weights, between neighbours: 2R or R."""
        return self.neighbours.rows_changed * self.gradient_bound

    @property
    def smoothness(self) -> float:
        """L: smoothness of the regularised mean loss, on the whole data as on any batch."""
        return self.loss.smoothness * self.row_norm**2 + self.l2

    def gradient_error(self, n_rows: float, weight_norm: float) -> float:
        """Error of a computed gradient *mean* over n rows at weights of this norm, by the arithmetic of the passes."""
        return self.row_error(self.arithmetic, weight_norm) + self.sum_error(n_rows) * self.gradient_bound

    def sum_error(self, n: float) -> float:
        """Error of a computed sum over n units, in units of the sum of their bounds."""
        return self.arithmetic.sum_error(self.rows_of(n))

    def row_error(self, arithmetic: Arithmetic, weight_norm: float) -> float:
        """Error of one row's gradient, its margin and its slope as precise as this."""
        margin = 2 * self.n_columns * arithmetic.margin * self.row_norm * weight_norm
        slope = arithmetic.slope * max(self.loss.lipschitz, 0.2 * self.loss.smoothness)
        return self.row_norm * (self.loss.smoothness * margin + slope)

    def contraction(self, step_size: float) -> float:
        """Lipschitz constant of one gradient step w -> w - step_size * gradient, on any batch."""
        return max(abs(1 - step_size * self.l2), abs(1 - step_size * self.smoothness))
