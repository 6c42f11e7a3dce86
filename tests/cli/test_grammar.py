"""NAME[:paper] SETTING=VALUE ...: what it reads, and what it says of the rest."""

import pytest

from dperm.cli.grammar import read_grid, read_mechanism, read_method, settings_of
from dperm.errors import InvalidInput
from dperm.mechanisms import DPGD, RSGD, BoltOn, mechanism_names, resolve


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "mechanism"),
    [
        ("rsgd", RSGD()),
        ("rsgd:paper", RSGD(accounting="paper")),
        ("rsgd:tight", RSGD()),
        ("rsgd epochs=3 batch_size=50", RSGD(epochs=3, batch_size=50)),
        ("rsgd:paper  epochs=3 ", RSGD(epochs=3, accounting="paper")),
        ("rsgd step_size=1", RSGD(step_size=1.0)),
        ("rsgd step_size=none", RSGD()),
        ("rsgd step_size=null", RSGD()),
        ("rsgd standardise=true", RSGD(standardise=True)),
        ("rsgd standardise=bounded", RSGD(standardise="bounded")),
        ("rsgd standardise=false", RSGD(standardise=False)),
        ("rsgd standardise=auto", RSGD()),
        ("rsgd epochs=none", RSGD()),
        ("dp-gd adaptive=False clip=5e-1", DPGD(adaptive=False, clip=0.5)),
        ("bolt-on rule=convex-sqrt", BoltOn(rule="convex-sqrt")),
    ],
)
def test_a_text_stands_for_a_mechanism(text, mechanism):
    assert read_mechanism(text) == mechanism


def test_a_number_for_a_real_setting_is_a_float():
    assert isinstance(read_mechanism("rsgd step_size=1").step_size, float)
    assert isinstance(read_mechanism("rsgd epochs=1").epochs, int)


def test_a_name_without_settings_stays_a_name():
    assert read_method(" rsgd:paper ") == "rsgd:paper"
    assert read_method("rsgd epochs=3") == RSGD(epochs=3)


def test_a_grid_has_several_values():
    assert read_grid("rsgd:paper step_size=0.3,1,none epochs=2") == (
        "rsgd:paper",
        {"step_size": [0.3, 1.0, None], "epochs": [2]},
    )


@pytest.mark.together
@pytest.mark.parametrize("name", mechanism_names())
def test_every_setting_of_every_mechanism_can_be_written(name):
    mechanism = resolve(name)
    text = " ".join(f"{key}={value}" for key, value in settings_of(mechanism).items())
    assert read_mechanism(f"{name} {text}") == mechanism


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no mechanism is named ''; choose from auto, bolt-on"),
        ("magic", "no mechanism is named 'magic'; choose from auto, bolt-on"),
        ("rsdg epochs=3", "named 'rsdg'. Did you mean 'rsgd'? If not, choose from auto"),
        ("objectiv:paper", "Did you mean 'objective'"),
        ("rsgd:papers", "accounting must be 'tight' or 'paper'; got 'papers'"),
        (
            "rsgd epoch=3",
            "no setting 'epoch'; it has standardise, clip, epochs, batch_size, step_size. Did you mean 'epochs'?",
        ),
        ("rsgd speed=3", "'rsgd' has no setting 'speed'; it has standardise, clip, epochs, batch_size, step_size."),
        ("auto epochs=3", "'auto' has no setting 'epochs'; it has standardise."),
        ("rsgd epochs", "'epochs' is not SETTING=VALUE; write 'NAME SETTING=VALUE ...'."),
        ("rsgd epochs=", "is not SETTING=VALUE"),
        ("rsgd =3", "is not SETTING=VALUE"),
        ("rsgd epochs=1 epochs=2", "sets epochs twice"),
        ("rsgd epochs=1,2", "several values for epochs"),
        ("rsgd epochs=many", "epochs of mechanism 'rsgd' takes a whole number or none; got 'many'"),
        ("rsgd epochs=1.5", "takes a whole number or none; got '1.5'"),
        ("dp-agd candidates=none", "takes a whole number; got 'none'"),
        ("rsgd epochs=0", "epochs must be a whole number from 1"),
        ("rsgd step_size=nan", "takes a number or none; got 'nan'"),
        ("rsgd step_size=inf", "takes a number or none; got 'inf'"),
        (f"rsgd epochs=1{'0' * 400}", "takes a whole number"),
        ("rsgd standardise=1", "standardise must be 'auto', False, True, 'linear' or 'bounded'; got '1'"),
        ("rsgd accounting=paper", "write rsgd:paper"),
    ],
)  # fmt: skip
def test_what_it_says_of_the_rest(text, says):
    with pytest.raises(InvalidInput) as refused:
        read_mechanism(text)
    assert says in str(refused.value)
