"""Weights of classes on the command line: ``--class-weight LABEL=WEIGHT``, once for each class."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from dperm.cli.suggest import did_you_mean
from dperm.estimators.weights import check_class_weight

class_weight_option = click.option(
    "--class-weight",
    "class_weights",
    metavar="LABEL=WEIGHT",
    multiple=True,
    show_default="1 each",
    help="Declared weight of a class, for rare ones. Repeatable; the noise grows with the largest.",
)


def weigh_classes(model: Any, texts: Sequence[str], classes: Sequence[Any]) -> None:
    """Set ``class_weight`` on a model, for labels as the schema declares them."""
    if not texts:
        return
    labels = {str(label): label for label in classes}
    if not labels:
        raise click.UsageError("--class-weight is for classes, and the target is a number.")
    weights = dict(_pair(text, labels) for text in texts)
    if len(weights) < len(texts):
        raise click.UsageError("--class-weight names a class twice.")
    check_class_weight(weights)
    model.set_params(class_weight=weights)


def _pair(text: str, labels: dict[str, Any]) -> tuple[Any, float]:
    label, _, number = text.rpartition("=")
    if text == "balanced":
        raise click.UsageError(
            "--class-weight balanced would count the labels of the private rows; declare weights, for example "
            + " ".join(f"--class-weight {known}=1" for known in list(labels)[:2])
            + "."
        )
    if label not in labels:
        raise click.UsageError(
            f"--class-weight wants LABEL=WEIGHT with a label of the schema, {', '.join(labels)}; got {text!r}."
            f"{did_you_mean(label, labels)}"
        )
    with suppress(ValueError):
        return labels[label], float(number)
    raise click.UsageError(f"--class-weight {label}=... wants a number; got {number!r}.")
