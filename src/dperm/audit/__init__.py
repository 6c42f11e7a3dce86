"""Does the code keep what the plan guarantees? Replays, statistical audits, and controls that both must catch."""

from dperm.audit.examination import audit, audit_all

__all__ = ["audit", "audit_all"]
