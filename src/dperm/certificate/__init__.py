"""The statement inside every saved model, and its independent recomputation (docs/certificate.md)."""

from dperm.certificate.statement import bind, check_statement, statement_of, unbind
from dperm.certificate.verdict import Check, Verdict
from dperm.certificate.verification import verify

__all__ = ["Check", "Verdict", "bind", "check_statement", "statement_of", "unbind", "verify"]
