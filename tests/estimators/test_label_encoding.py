"""Labels are encoded in one place, and none that is undeclared passes it."""

import numpy as np
import pytest

from dperm.errors import InvalidInput
from dperm.estimators.labels import encode_labels


def test_of_two_classes_the_second_is_positive():
    np.testing.assert_array_equal(encode_labels(["b", "a", "b"], ["a", "b"]), [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(encode_labels(["b", "a", "b"], ["b", "a"]), [-1.0, 1.0, -1.0])


def test_of_more_the_place_counts():
    np.testing.assert_array_equal(encode_labels([3, 1, 2], [1, 2, 3]), [2.0, 0.0, 1.0])


@pytest.mark.parametrize("labels", [["a", "secret"], [None, "a"]])
def test_an_undeclared_label_is_refused_and_not_quoted(labels):
    with pytest.raises(InvalidInput, match="outside classes") as caught:
        encode_labels(labels, ["a", "b"])
    assert "secret" not in str(caught.value)


def test_a_label_that_is_no_number_is_not_a_class():
    with pytest.raises(InvalidInput, match="outside classes"):
        encode_labels([0.0, np.nan], [0.0, 1.0])
