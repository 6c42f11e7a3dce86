"""One budget over many fits, in a file."""

from dperm.ledger.history import Entry
from dperm.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger"]
