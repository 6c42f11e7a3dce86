"""Fitted models as JSON files: exact, readable, and safe to load from a stranger (docs/saved-models.md)."""

from dperm.models.files import load_model, read_document, read_model, save_model

__all__ = ["load_model", "read_document", "read_model", "save_model"]
