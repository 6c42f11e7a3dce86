"""Every error that dperm raises on purpose.

Each message says what was expected, what came and a way out, and never quotes a record.
"""


class DpermError(Exception):
    """Base of all errors raised on purpose by dperm."""


class InvalidInput(DpermError, ValueError):
    """A parameter, a file or the shape of the data is not what was declared."""


class NotCertified(DpermError, ValueError):
    """The guarantee cannot be proved for these settings, so nothing is released."""


class Unsupported(DpermError, ValueError):
    """The mechanism, the loss and the relation do not fit together."""


class DataUnavailable(DpermError, RuntimeError):
    """A named dataset is neither bundled nor found; the message says how to get it."""
