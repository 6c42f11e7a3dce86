"""The means of predictions, as users hold them."""

from __future__ import annotations

import os
from typing import Any

from dperm.evaluation.examining import accepted
from dperm.evaluation.files import read_document, write_document
from dperm.evaluation.means.form import to_dict
from dperm.evaluation.means.found import FoundMeans
from dperm.evaluation.means.section import section
from dperm.evaluation.means.text import text
from dperm.evaluation.means.verifying import MEANS
from dperm.render.html import Html, notebook_cell


class MeanPredictions(FoundMeans):
    """What a model predicts for private rows, on average, by declared group.

    Attributes
    ----------
    groups : dict of Mean
        One for every declared value and, where declared, the rest. A ``Mean`` has three figures, each with
        ``estimate``, ``low``, ``high`` (95 %) and ``noise``: ``mean``, whose interval is for the population that the
        rows came from; ``here``, whose interval is for these very rows and knows the noise alone; and ``rows``, how
        many there are, or how many persons. All numbers are None where the noise leaves nothing to say.
    overall : Mean
        Of all rows, or persons.
    label, range
        The class whose probability was averaged, None for a regression; and where predictions were cut off.
    by : str
        The name of the column that tells the group, where it has one.
    other : str or None
        The name of the group of all rows with another value.
    private : bool
        Whether (epsilon, delta) holds for all of this: not with a ``random_state``.
    budget : dict
        Epsilon and delta of the one release.
    neighbours : str
        The relation for which they hold.
    unit : str
        "row", or "person" where ids were given: every person then counts once, each of k rows as 1/k in its group.
    rows : int or None
        The number of rows, or of persons; None where it is private, and then ``overall.rows`` is its estimate.
    model : str
        Digest of the released numbers of the model, as its certificate has it under ``model.sha256``.
    ledger_entry : str or None
        The charge that paid for it.
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; ``from_dict`` reads it back."""
        return to_dict(self)

    @classmethod
    def from_dict(cls, document: object) -> MeanPredictions:
        """From what JSON held: its statement is recomputed, and its means are made again from what was released."""
        return cls(**accepted(document, MEANS))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file, whole or not at all; an existing file is replaced."""
        write_document(self.to_dict(), path)

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return notebook_cell(Html(section(self)))


def read_mean_predictions(path: str | os.PathLike[str]) -> MeanPredictions:
    """The mean predictions that a file holds.

    Raises
    ------
    InvalidInput
        If it is not one that this version reads, whole and unchanged, or what it states does not recompute.
    """
    return read_document(path, MeanPredictions.from_dict, "file of mean predictions")
