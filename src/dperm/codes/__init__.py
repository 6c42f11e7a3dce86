"""Rows that are kept as codes and a few numbers instead of one-hot floats. What a code stands for is public."""

from dperm.codes.layout import CodeLayout, Levels, Number, Spline
from dperm.codes.table import CodedTable

__all__ = ["CodeLayout", "CodedTable", "Levels", "Number", "Spline"]
