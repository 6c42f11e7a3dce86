"""The statement inside every saved model, and its verification by a second route (docs/certificate.md)."""

from dperm.certificate.statement import bind, check_statement, statement_of, unbind
from dperm.certificate.verdict import Check, Verdict
from dperm.certificate.verification import verify

__all__ = ["Check", "Verdict", "bind", "check_statement", "statement_of", "unbind", "verify"]
