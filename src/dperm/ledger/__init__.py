"""One budget over many fits, in a file."""

from dperm.ledger.ledger import Entry, Ledger

__all__ = ["Entry", "Ledger"]
