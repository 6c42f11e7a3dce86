"""Does the code keep what the plan guarantees? Replays, statistical audits, and controls that both must catch.

It adds the command ``dperm audit``, by an entry point of the group ``dperm.commands``.
"""

from dperm_audit.examination import audit, audit_all

__all__ = ["audit", "audit_all"]

__version__ = "0.1.0"
