"""The budget: a guarantee that can also be read as, and made from, what an attacker may achieve."""

from dperm.privacy import risk
from dperm.privacy.guarantee import DELTA_RANGE, EPSILON_RANGE, DPGuarantee

__all__ = ["DELTA_RANGE", "EPSILON_RANGE", "Budget"]


class Budget(DPGuarantee):
    """An (epsilon, delta) target of differential privacy.

    Parameters
    ----------
    epsilon : float
        Finite and above 0.
    delta : float
        In [0, 1); far below one over the number of people is the usual choice.
    """

    @classmethod
    def from_attack(cls, *, tpr: float, fpr: float, delta: float, gaussian: bool = False) -> "Budget":
        """The largest budget that keeps every attacker's true positive rate at ``fpr`` within ``tpr``.

        The attacker knows every row but one and tells two candidates for it apart (``dperm.privacy.risk``).

        Parameters
        ----------
        tpr, fpr : float
            0 < fpr < tpr < 1. Catch at most ``tpr`` of the true cases at a cost of ``fpr`` false alarms.
        delta : float
            As in ``Budget``. Without ``gaussian`` it allows that much on its own, so it must lie below tpr - fpr.
        gaussian : bool, default=False
            False is true of every mechanism that keeps the returned budget. True is true only of a release whose
            whole price is one Gaussian (one mu: noise on a result trained in public order, or on every gradient of
            full batches), and allows a larger epsilon. Mechanisms with a secret order, sampled batches or noise in
            the objective have another price: for them keep False, or ask ``dperm account`` for the attack under
            their own price.

        Raises
        ------
        InvalidInput
            If the rates are not in order, or no certified epsilon keeps the bound with this delta.
        """
        return cls(risk.epsilon_from_attack(tpr, fpr, delta, gaussian), delta)

    @classmethod
    def from_advantage(cls, advantage: float, *, delta: float, gaussian: bool = False) -> "Budget":
        """The largest budget that keeps every attacker's tpr - fpr within ``advantage``.

        ``gaussian`` as in ``from_attack``.
        """
        return cls(risk.epsilon_from_advantage(advantage, delta, gaussian), delta)

    def attack(self, fpr: float, *, gaussian: bool = False) -> float:
        """Largest true positive rate of any attacker with false positive rate ``fpr``, rounded up.

        ``gaussian`` as in ``from_attack``: True only for a release whose whole price is one Gaussian.
        """
        return risk.guaranteed_attack(self, fpr, gaussian)

    def advantage(self, *, gaussian: bool = False) -> float:
        """Largest tpr - fpr of any attacker, rounded up; ``gaussian`` as in ``attack``."""
        return risk.guaranteed_advantage(self, gaussian)
