"""A ledger that is at hand is told which file holds the model that it paid for."""

from __future__ import annotations

import os
import warnings

from dperm.errors import DpermError
from dperm.estimators.base import PrivateLinearModel
from dperm.ledger.chain import Anchor


def note_file(model: PrivateLinearModel, path: str | os.PathLike[str]) -> None:
    """Call it once the file is written. What fails here is warned of: model and charge are what they were."""
    ledger, citation = model._record.ledger, model.ledger_entry_
    if ledger is None or citation is None or Anchor.of(citation).ledger != ledger.id:
        return
    try:
        ledger.note(model, path)
    except (DpermError, OSError) as error:
        warnings.warn(
            f"the model was saved, and the ledger does not name its file: {error}",
            RuntimeWarning,
            stacklevel=3,
        )
