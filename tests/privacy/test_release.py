import importlib
import math
import subprocess
import sys

import numpy as np
import pytest

import dperm.privacy
from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import GaussianNoise, SeededEntropy, SystemEntropy, release, release_batch

gate = importlib.import_module("dperm.privacy.release")
NOISE = GaussianNoise(0.5, 2.0, 3)


def test_the_record_says_what_was_declared():
    released, record = release(np.zeros(3), NOISE, SystemEntropy(), "weights")
    assert released.shape == (3,)
    assert record.to_dict() == {
        "name": "weights",
        "sensitivity": 0.5,
        "padded_sensitivity": NOISE.padded(0.5),
        "noise_scale": 2.0,
        "grid_exponent": NOISE.grid_exponent,
        "dimension": 3,
        "entropy": "operating system",
        "secure": True,
    }
    with pytest.raises(AttributeError):
        record.noise_scale = 1.0


def test_a_seed_is_written_into_the_record():
    _, record = release(np.zeros(3), NOISE, SeededEntropy(0), "weights")
    assert not record.secure
    assert "not private" in record.entropy


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_a_batch_keeps_columns_and_noises_together(entropy):
    values = np.outer(np.ones(40), 1e6 * np.arange(5))
    noises = [GaussianNoise(1.0, 10.0**k, 40) for k in range(5)]
    released, records = release_batch(values, noises, entropy, "weights")
    assert released.shape == values.shape
    assert [record.noise_scale for record in records] == [noise.scale for noise in noises]
    spread = (released - values).std(axis=0) / [noise.scale for noise in noises]
    assert np.all((spread > 0.3) & (spread < 2.5))
    assert len({*(released - values)[0]}) == 5


def test_columns_of_a_batch_get_noise_of_their_own():
    released, _ = release_batch(np.zeros((3, 20)), [NOISE] * 20, SystemEntropy(), "weights")
    assert len({tuple(column) for column in released.T}) == 20


def test_a_seeded_batch_reproduces():
    first, again = (
        release_batch(np.ones((3, 4)), [NOISE] * 4, SeededEntropy(9), "weights")[0] for _ in range(2)
    )
    assert np.array_equal(first, again)
    one, _ = release(np.ones(3), NOISE, SeededEntropy(9), "weights")
    assert np.array_equal(one, first[:, 0])


def test_an_empty_batch():
    released, records = release_batch(np.zeros((3, 0)), [], SystemEntropy(), "weights")
    assert released.shape == (3, 0)
    assert records == []


def test_one_hook_sees_every_release(monkeypatch):
    seen = []
    original = gate.pass_gate

    def watched(values, noise, entropy, name):
        seen.append((values.copy(), noise, name))
        return original(values, noise, entropy, name)

    monkeypatch.setattr(gate, "pass_gate", watched)
    release(np.arange(3), NOISE, SystemEntropy(), "one")
    release_batch(np.arange(6.0).reshape(3, 2), [NOISE, NOISE], SeededEntropy(0), "two")
    assert [name for _, _, name in seen] == ["one", "two", "two"]
    assert [values.tolist() for values, _, _ in seen] == [[0, 1, 2], [0, 2, 4], [1, 3, 5]]


def test_the_input_is_left_alone():
    values = np.ones(3)
    release(values, NOISE, SystemEntropy(), "weights")
    assert np.array_equal(values, np.ones(3))


@pytest.mark.parametrize("values", [np.zeros(2), np.zeros((3, 1)), np.float64(0), np.zeros((1, 3))])
def test_wrong_shapes_are_refused(values):
    with pytest.raises(InvalidInput, match="3 numbers"):
        release(values, NOISE, SystemEntropy(), "weights")


@pytest.mark.parametrize(
    "values", [np.zeros(3, complex), np.array(["a", "b", "c"]), np.zeros(3, bool), [None] * 3]
)
def test_other_kinds_of_values_are_refused(values):
    with pytest.raises(InvalidInput, match="real numbers"):
        release(values, NOISE, SystemEntropy(), "weights")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_values_that_are_not_finite_are_refused(entropy, bad):
    with pytest.raises(NotCertified):
        release(np.array([0, 0, bad]), NOISE, entropy, "weights")
    values = np.zeros((3, 4))
    values[1, 2] = bad
    with pytest.raises(NotCertified):
        release_batch(values, [NOISE] * 4, entropy, "weights")


@pytest.mark.parametrize(("shape", "count"), [((3, 2), 1), ((3, 2), 3), ((3,), 3), ((2, 2), 2)])
def test_a_batch_that_does_not_fit_its_noises_is_refused(shape, count):
    with pytest.raises(InvalidInput):
        release_batch(np.zeros(shape), [NOISE] * count, SystemEntropy(), "weights")


def test_every_public_name_resolves():
    assert all(hasattr(dperm.privacy, name) for name in dperm.privacy.__all__)
    assert sorted(dperm.privacy.__all__) == sorted(set(dperm.privacy.__all__))


def test_heavy_packages_load_only_when_they_are_needed():
    code = """
import sys, numpy as np
import dperm.privacy as p
heavy = ("opendp", "dp_accounting", "pandas", "polars", "sklearn")
def loaded(): return [name for name in heavy if name in sys.modules]
noise = p.GaussianNoise(1.0, 5.0, 2)
p.gaussian_mu(p.Budget(1, 1e-8)); p.release(np.zeros(2), noise, p.SeededEntropy(0), "w")
print(loaded())
p.release(np.zeros(2), noise, p.SystemEntropy(), "w")
print(loaded())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["[]", "['opendp']"]
