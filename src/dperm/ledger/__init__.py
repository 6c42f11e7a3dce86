"""One budget over many fits, in a file."""

from dperm.ledger.book import Entry
from dperm.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger"]
