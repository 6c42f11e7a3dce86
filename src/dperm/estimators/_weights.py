"""Why ``fit`` takes no weights, said where a user meets it."""

from collections.abc import Mapping
from typing import Any

from dperm.errors import Unsupported

WAY_OUT = (
    "To favour a rare class, train without weights and move the threshold on decision_function or predict_proba: "
    "what is done with a released model costs no privacy."
)


def refuse_weights(unsupported: Mapping[str, Any]) -> None:
    """Answer keyword arguments of ``fit`` that it does not take; ``sample_weight=None`` means no weights."""
    if unsupported.get("sample_weight") is not None:
        raise Unsupported(
            "fit takes no sample_weight. A weight multiplies what its row can change, so a guarantee needs a bound "
            f"on the weights that was fixed before the data, and the proofs here are for equal weights. {WAY_OUT}"
        )
    for name in unsupported.keys() - {"sample_weight"}:
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}; it takes X and y.")
