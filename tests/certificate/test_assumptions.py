"""Every assumption has one wording, and a file can hold no other."""

import pytest

from dperm.certificate.assumptions import Assumption, Code, Status, read_assumptions, with_status
from dperm.errors import InvalidInput

VALUES = {str: "x", int: 3, float: 0.5}


def example(code):
    return Assumption(code, {name: VALUES[kind] for name, kind in code.value.fields.items()})


@pytest.mark.together
@pytest.mark.parametrize("code", list(Code))
def test_each_is_read_back_as_it_was_written(code):
    one = example(code)
    assert Assumption.read("here", one.to_dict()) == one
    assert str(one) == f"{one.status.mark}{one.text}"
    assert one.plain.startswith(one.status.mark)
    for name in ("x_norm", "y_range", "max_rows"):
        assert name not in one.plain


@pytest.mark.together
@pytest.mark.parametrize("code", list(Code))
def test_none_is_read_with_another_status_text_or_value(code):
    good = example(code).to_dict()
    other = next(status for status in Status if status != good["status"])
    wrong = [
        {"status": other.value},
        {"text": good["text"] + " Mostly."},
        {"code": "no-such-code"},
        {"values": {**good["values"], "more": 1}},
        *({"values": {**good["values"], name: [1]}} for name in good["values"]),
    ]
    for change in wrong:
        with pytest.raises(InvalidInput):
            Assumption.read("here", {**good, **change})


def test_only_what_the_fit_saw_is_not_met_and_cautions_warn():
    assert all(one.around for one in with_status([example(code) for code in Code], Status.NOT_MET))
    for code in Code:
        assert (code.value.warning is not None) == (code.value.status is Status.CAUTION)


@pytest.mark.together
@pytest.mark.parametrize("stored", ["One person contributes one row.", None, 1, {}, {"code": "one-row"}])
def test_what_is_no_assumption_is_refused(stored):
    with pytest.raises(InvalidInput, match="here, 0"):
        read_assumptions("here", [stored])
