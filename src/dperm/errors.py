"""Every error that dperm raises on purpose, and its warnings.

Each message says what was expected, what came and a way out, and never quotes a record.
"""


class DpermError(Exception):
    """Base of all errors raised on purpose by dperm."""


class InvalidInput(DpermError, ValueError):
    """A parameter, a file or the shape of the data is not what was declared."""


class InvalidType(InvalidInput, TypeError):
    """An array is of a kind that no rows can be made of; scikit-learn expects a TypeError here."""


class NotCertified(DpermError, ValueError):
    """The guarantee cannot be proved for these settings, so nothing is released."""


class Unsupported(DpermError, ValueError):
    """The mechanism, the loss and the relation do not fit together."""


class UnknownSetting(Unsupported, TypeError):
    """A setting of scikit-learn's that has no place here; the message names what stands for it."""


class DataUnavailable(DpermError, RuntimeError):
    """A named dataset is neither bundled nor found; the message says how to get it."""


class PrivacyWarning(UserWarning):
    """The guarantee is true, but it covers less than it seems: something around the fit learned from the rows, or
    delta is so large that it promises little."""


class UtilityWarning(UserWarning):
    """The fit is private, but the public facts say that little can be learned."""


class BudgetExceeded(BaseException):
    """A ledger refused a charge: the release was not made, and nothing was spent.

    It derives from BaseException, like KeyboardInterrupt, and not from DpermError. Scikit-learn's searches catch every
    Exception of a fit, score it as nan and go on to the next one; a spent budget has to stop them.
    """
