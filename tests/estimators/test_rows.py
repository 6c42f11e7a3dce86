"""An error about rows holds no record: not in its words, not in its arguments, not in an error it came from."""

import datetime

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version
from sklearn.exceptions import NotFittedError

from dperm import PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dperm.errors import DpermError, InvalidInput, InvalidType
from dperm.estimators.rows import redact_errors

X = np.full((6, 2), 0.1)
Y = np.array([0, 1, 0, 1, 0, 1])
CELLS = [
    "Only child",
    "Expected secret",
    "Input X contains NaN. secret",
    "This secret",
    "The feature names should match those that were passed during fit.\n- secret\n",
    "Reshape your data secret",
    "Unknown label type: secret",
    987654321.125,
    datetime.date(1987, 6, 15),
    pd.Timestamp("1987-06-15"),
]
TRACES = ("Only child", "secret", "987654321", "1987")


def everything_in(error):
    """All that the error and those it hangs on say."""
    found, left = [], [error]
    while left:
        error = left.pop()
        found.append(f"{error} {error!r} {error.args!r} {getattr(error, '__notes__', '')}")
        left += [other for other in (error.__cause__, error.__context__) if other is not None]
    return "\n".join(found)


def with_cell(array, cell):
    changed = array.astype(object)
    changed.flat[3] = cell
    return changed


def classifier(**settings):
    return PrivateLogisticRegression(mechanism="output", **settings)


def regression():
    return PrivateLinearRegression(mechanism="output", y_range=(-1, 1))


def search(X, y):
    inner = classifier(classes=[0, 1])
    return PrivateSearchCV(inner, {"l2": [0.1, 1.0]}, epsilon=1.0, delta=1e-6).fit(X, y)


fitted, fitted_regression = classifier(classes=[0, 1]).fit(X, Y), regression().fit(X, Y)
WAYS = {
    "fit, a cell": lambda cell: classifier().fit(with_cell(X, cell), Y),
    "fit, a frame": lambda cell: classifier().fit(pd.DataFrame(with_cell(X, cell), columns=["a", "b"]), Y),
    "fit, a label": lambda cell: classifier().fit(X, with_cell(Y, cell)),
    "fit, a label outside": lambda cell: classifier(classes=[0, 1]).fit(X, with_cell(Y, cell)),
    "fit, all labels": lambda cell: classifier().fit(X, cell),
    "fit, all rows": lambda cell: classifier().fit(cell, Y),
    "fit, a row": lambda cell: classifier().fit([cell] * 6, Y),
    "regression, a target": lambda cell: regression().fit(X, with_cell(Y, cell)),
    "search, a cell": lambda cell: search(with_cell(X, cell), Y),
    "search, a label": lambda cell: search(X, with_cell(Y, cell)),
    "predict, a cell": lambda cell: fitted.predict(with_cell(X, cell)),
    "predict, a row": lambda cell: fitted.predict([cell, cell]),
    "predict, all rows": lambda cell: fitted.predict(cell),
    "probabilities": lambda cell: fitted.predict_proba(with_cell(X, cell)),
    "score, a label": lambda cell: fitted.score(X, with_cell(Y, cell)),
    "score, all labels": lambda cell: fitted.score(X, cell),
    "score, a target": lambda cell: fitted_regression.score(X, with_cell(Y, cell)),
    "score, texts": lambda cell: fitted.score(X, [str(cell)] * 6),
}
if Version(sklearn.__version__) < Version("1.9"):
    del WAYS["score, texts"]  # older ones count texts beside numbers as wrong and raise nothing
NUMBERS_BELONG_HERE = {"fit, a cell", "fit, a frame", "search, a cell", "predict, a cell", "probabilities"}
NUMBERS_BELONG_HERE |= {"regression, a target", "score, a target"}
CASES = [
    (way, cell)
    for way in WAYS
    for cell in CELLS
    if isinstance(cell, float) <= (way not in NUMBERS_BELONG_HERE)
]


@pytest.mark.together
@pytest.mark.parametrize(("way", "cell"), CASES, ids=lambda value: str(value)[:20])
def test_no_error_in_the_chain_holds_a_cell(way, cell):
    with pytest.raises(DpermError) as caught:
        WAYS[way](cell)
    assert not any(trace in everything_in(caught.value) for trace in TRACES)


def test_the_search_through_the_chain_finds_what_from_none_hides():
    def hide():
        try:
            float("Only child")
        except ValueError:
            raise InvalidInput("clean.") from None

    with pytest.raises(InvalidInput) as caught:
        hide()
    assert "Only child" in everything_in(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (
            ValueError("Input X contains NaN.\nPrivate does not accept secret"),
            InvalidInput,
            "Input X contains NaN.",
        ),
        (ValueError("Complex data not supported\n[secret]\n"), InvalidInput, "Complex data not supported."),
        (
            TypeError("float() argument must be a string or a real number, not 'dict'"),
            InvalidType,
            "float() argument must be a string or a real number, not 'dict'.",
        ),
        (
            ValueError("X has 3 features, but PrivateLinearSVC is expecting 2 features as input."),
            InvalidInput,
            "X has 3 features, but PrivateLinearSVC is expecting 2 features as input.",
        ),
        (
            ValueError("y should be a 1d array, got an array of shape (20, 2) instead."),
            InvalidInput,
            "y should be a 1d array, got an array of shape (20, 2) instead.",
        ),
    ],
    ids=lambda value: str(value)[:12],
)
def test_public_words_stay_and_nothing_behind_them(error, kind, says):
    with pytest.raises(kind) as caught, redact_errors():
        raise error
    assert str(caught.value) == says
    assert everything_in(caught.value).count("\n") == 0  # one error, no chain


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize(
    "text",
    [
        "could not convert string to float: 'Input X contains NaN.'",
        "'Only child'",
        "Only child",
        " Input X contains NaN.",
        "Unknown label type: secret",
        "Unknown label type for y: array(['secret'])",
        "Expected array like secret",
        "The feature names should match those that were passed during fit.\nsecret\n",
        "Found array with secret sample(s)",
    ],
)
@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, RuntimeError, OverflowError])
def test_words_in_another_place_or_form_are_replaced(text, kind):
    with (
        pytest.raises(InvalidInput, match=f"^X must be a table of numbers.*{kind.__name__}") as caught,
        redact_errors(),
    ):
        raise kind(text)
    assert text not in everything_in(caught.value)


def test_what_is_no_error_about_rows_passes():
    for error in (InvalidInput("ours."), MemoryError(), KeyboardInterrupt(), UserWarning("w")):
        with pytest.raises(type(error)) as caught, redact_errors():
            raise error
        assert caught.value is error
    with pytest.raises(NotFittedError):
        classifier().score(X, Y)
    with pytest.raises(NotFittedError):
        regression().score(X, Y)
