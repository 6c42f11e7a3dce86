"""Which loss goes with which target, by name and by what is registered."""

import pytest

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import loss_choices, resolve_loss
from dperm.losses.registry import AUTO_LOSS, class_counts, fitting_loss, fitting_losses, form_of


def test_auto_goes_with_the_target():
    assert fitting_loss(AUTO_LOSS, None) == "squared"
    assert fitting_loss(AUTO_LOSS, 2) == fitting_loss(AUTO_LOSS, 7) == "logistic"
    assert (form_of("logistic", 7), form_of("logistic", 2), form_of("squared", None)) == (
        "softmax",
        "logistic",
        "squared",
    )


def test_every_registered_loss_goes_with_some_target_and_only_with_its_own():
    for name in loss_choices("binary", "classes", "real"):
        loss = resolve_loss(name)
        expected = {None} if loss.labels == "real" else set(class_counts(loss))
        assert expected
        for n_classes in (None, 2, 3):
            assert (name in fitting_losses(n_classes)) is (n_classes in expected)
            if n_classes in expected:
                assert fitting_loss(name, n_classes) == name
            else:
                with pytest.raises(InvalidInput, match="; use auto or one of"):
                    fitting_loss(name, n_classes)


def test_a_loss_for_audits_is_no_model():
    with pytest.raises(Unsupported, match="audits"):
        fitting_loss("linear", 2)
