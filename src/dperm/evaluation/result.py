"""The result of an evaluation, as users hold it."""

from __future__ import annotations

import os
from typing import Any

from dperm.evaluation.examining import accepted
from dperm.evaluation.files import read_document, write_document
from dperm.evaluation.form import to_dict
from dperm.evaluation.found import Found
from dperm.evaluation.plotting import plot
from dperm.evaluation.section import section
from dperm.evaluation.text import text
from dperm.evaluation.verifying import EVALUATION
from dperm.render.html import Html, notebook_cell


class Evaluation(Found):
    """The figures of a model on private test rows.

    Attributes
    ----------
    metrics : dict of Figure
        Each with ``estimate``, ``low``, ``high`` (95 %) and ``noise``, half the width from the noise alone; all None
        where the noise leaves nothing to say.
    confusion : list of lists of Figure
        Shares of all rows, or persons, a line for every true label. Empty for a regression.
    rates : list of dicts of Figure
        Recall and precision of every class.
    roc, calibration : list
        Points of the curves, with intervals. Only two classes have a ROC curve.
    local : bool
        Exact figures, which are not private and must not be published.
    private : bool
        Whether (epsilon, delta) holds for all of this: not for local figures, nor with a ``random_state``.
    budget : dict or None
        Epsilon and delta of the one release.
    neighbours : str or None
        The relation for which they hold.
    unit : str
        "row", or "person" where ids were given: every person then counts once, each of k rows as 1/k.
    rows : int or None
        The number of test rows, or of persons; None where it is private, and then ``row_count`` is its estimate.
    table_rows : int or None
        The number of rows whoever they are of, of local figures alone.
    model : str
        Digest of the released numbers of the model, as its certificate has it under ``model.sha256``.
    ledger_entry : str or None
        The charge that paid for it.
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; ``from_dict`` reads it back."""
        return to_dict(self)

    @classmethod
    def from_dict(cls, document: object) -> Evaluation:
        """From what JSON held: its statement is recomputed, and its figures are made again from what was released."""
        return cls(**accepted(document, EVALUATION))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file, whole or not at all; an existing file is replaced."""
        write_document(self.to_dict(), path)

    def plot(self, ax: Any = None) -> Any:
        """Draw the ROC curve with its band or, without one, the figures with their intervals; needs matplotlib.

        Returns the axes: ``ax``, or new ones.
        """
        return plot(self, ax)

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return notebook_cell(Html(section(self)))


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """The evaluation that a file holds.

    Raises
    ------
    InvalidInput
        If it is not one that this version reads, whole and unchanged, or what it states does not recompute.
    """
    return read_document(path, Evaluation.from_dict, "evaluation")


def evaluation_section(evaluation: Evaluation) -> str:
    """A part of a web page, with inline figures, in its styles: no scripts, nothing from elsewhere."""
    return section(evaluation)
