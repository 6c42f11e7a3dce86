import math
import subprocess
import sys

import numpy as np
import pytest

import dperm.privacy
from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Gate, GaussianNoise, SeededEntropy, SystemEntropy
from dperm.privacy.noisy_min import NoisyMin

NOISE = GaussianNoise(0.5, 2.0, 3)


def test_the_record_says_what_was_declared():
    gate = Gate.system()
    assert gate.release_one(np.zeros(3), NOISE, "weights").shape == (3,)
    (record,) = gate.records()
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
    gate = Gate.seeded(0)
    gate.release_one(np.zeros(3), NOISE, "weights")
    (record,) = gate.records()
    assert not gate.secure
    assert not record.secure
    assert "not private" in record.entropy


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_a_batch_keeps_columns_and_noises_together(entropy):
    values = np.outer(np.ones(40), 1e6 * np.arange(5))
    noises = [GaussianNoise(1.0, 10.0**k, 40) for k in range(5)]
    gate = Gate(entropy).for_jobs(5)
    released = gate.release(values, noises, "weights")
    assert released.shape == values.shape
    assert [gate.records(k)[0].noise_scale for k in range(5)] == [noise.scale for noise in noises]
    spread = (released - values).std(axis=0) / [noise.scale for noise in noises]
    assert np.all((spread > 0.3) & (spread < 2.5))
    assert len({*(released - values)[0]}) == 5


def test_columns_of_a_batch_get_noise_of_their_own():
    released = Gate.system().for_jobs(20).release(np.zeros((3, 20)), [NOISE] * 20, "weights")
    assert len({tuple(column) for column in released.T}) == 20


def test_a_seeded_batch_reproduces():
    first, again = (
        Gate.seeded(9).for_jobs(4).release(np.ones((3, 4)), [NOISE] * 4, "weights") for _ in range(2)
    )
    assert np.array_equal(first, again)
    one = Gate.seeded(9).release_one(np.ones(3), NOISE, "weights")
    assert np.array_equal(one, first[:, 0])


def test_an_empty_batch():
    assert Gate.system().for_jobs(0).release(np.zeros((3, 0)), [], "weights").shape == (3, 0)


def test_records_go_to_the_jobs_that_released():
    gate = Gate.seeded(0).for_jobs(3)
    gate.part([2, 0]).release(np.zeros((3, 2)), [NOISE, NOISE], "some")
    gate.part([1]).choose(np.zeros(4), NoisyMin(sensitivity=1.0, epsilon=1.0), "choice")
    gate.release(np.zeros((3, 3)), [NOISE] * 3, "all")
    names = [[record.name for record in gate.records(k)] for k in range(3)]
    assert names == [["some", "all"], ["choice", "all"], ["some", "all"]]
    assert [gate.for_jobs(2).records(k) for k in range(2)] == [(), ()]


def test_a_choice_is_written_down_as_declared():
    gate, choice = Gate.system(), NoisyMin(sensitivity=2.0, epsilon=3.0)
    assert gate.choose(np.array([5e3, 0.0, 5e3]), choice, "step") == 1
    (record,) = gate.records()
    assert (record.sensitivity, record.noise_scale, record.dimension) == (2.0, choice.scale, 3)


def test_what_is_hidden_has_noise_and_no_record():
    gate = Gate.system().for_jobs(2)
    hidden = gate.hide(np.ones((3, 2)), [NOISE, NOISE])
    assert (hidden != 1).all()
    assert (gate.records(0), gate.records(1)) == ((), ())


def test_drawn_noise_is_noise_alone_and_written_down():
    gate = Gate.system().for_jobs(2)
    drawn = gate.draw([NOISE, NOISE], "noise in the objective")
    assert drawn.shape == (3, 2)
    assert 0.01 < np.abs(drawn).mean() < 20
    assert [record.name for record in gate.records(1)] == ["noise in the objective"]


def test_weights_of_several_outputs_keep_their_shape():
    noise = GaussianNoise(1e-6, 1e-6, 6)
    values = np.arange(24.0).reshape(3, 4, 2)
    released = Gate.system().for_jobs(4).release_weights(values, [noise] * 4, "weights")
    assert released.shape == values.shape
    np.testing.assert_allclose(released, values, atol=1e-4)


@pytest.mark.parametrize("jobs", [1, 3])
def test_as_many_noises_as_jobs_are_needed(jobs):
    gate = Gate.seeded(0).for_jobs(jobs)
    with pytest.raises(InvalidInput, match="jobs"):
        gate.release(np.zeros((3, 2)), [NOISE] * 2, "weights")
    with pytest.raises(InvalidInput, match="jobs"):
        gate.hide(np.zeros((3, 2)), [NOISE] * 2)


@pytest.mark.parametrize("gate", [Gate.system(), Gate.seeded(0)], ids=["system", "seeded"])
def test_a_secret_order_or_batch_is_drawn_once(gate):
    for secret in (gate.poisson(0.5), gate.fixed_size(7)):
        first = secret.positions(40)
        assert np.array_equal(first, secret.positions(40))
        with pytest.raises(InvalidInput, match="40 rows"):
            secret.positions(41)
    order = gate.order()
    assert np.array_equal(order.permutation(40), order.permutation(40))
    assert sorted(order.permutation(40)) == list(range(40))
    assert not np.array_equal(gate.order().permutation(40), order.permutation(40))
    assert len(set(gate.fixed_size(7).positions(40).tolist())) == 7
    assert gate.poisson(1.0).positions(3).tolist() == [0, 1, 2]


def test_integers_are_of_the_width_asked_for():
    drawn = [Gate.system().integer(2) for _ in range(64)]
    assert max(drawn) < 2**128
    assert max(drawn) >= 2**120  # missed with a chance of 2**-512


def test_the_input_is_left_alone():
    values = np.ones(3)
    Gate.system().release_one(values, NOISE, "weights")
    assert np.array_equal(values, np.ones(3))


@pytest.mark.together
@pytest.mark.parametrize("values", [np.zeros((2, 1)), np.zeros((3, 1, 1)), np.zeros(3), np.zeros((1, 3))])
def test_wrong_shapes_are_refused(values):
    with pytest.raises(InvalidInput, match=r"3 numbers|shape \(d, K\)"):
        Gate.system().release(values, [NOISE], "weights")


@pytest.mark.together
@pytest.mark.parametrize(
    "values", [np.zeros(3, complex), np.array(["a", "b", "c"]), np.zeros(3, bool), [None] * 3]
)
def test_other_kinds_of_values_are_refused(values):
    with pytest.raises(InvalidInput, match="real numbers"):
        Gate.system().release(np.asarray(values)[:, None], [NOISE], "weights")


@pytest.mark.together
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_values_that_are_not_finite_are_refused(entropy, bad):
    with pytest.raises(NotCertified):
        Gate(entropy).release_one(np.array([0, 0, bad]), NOISE, "weights")
    values = np.zeros((3, 4))
    values[1, 2] = bad
    with pytest.raises(NotCertified):
        Gate(entropy).for_jobs(4).release(values, [NOISE] * 4, "weights")


@pytest.mark.together
@pytest.mark.parametrize(("shape", "count"), [((3, 2), 1), ((3, 2), 3), ((3,), 3), ((2, 2), 2)])
def test_a_batch_that_does_not_fit_its_noises_is_refused(shape, count):
    with pytest.raises(InvalidInput):
        Gate.system().for_jobs(count).release(np.zeros(shape), [NOISE] * count, "weights")


def test_every_public_name_resolves():
    assert all(hasattr(dperm.privacy, name) for name in dperm.privacy.__all__)
    assert sorted(dperm.privacy.__all__) == sorted(set(dperm.privacy.__all__))


@pytest.mark.system_noise(failing=0)
def test_heavy_packages_load_only_when_they_are_needed():
    code = """
import sys, numpy as np
import dperm.privacy as p
from dperm.privacy.noisy_min import NoisyMin
heavy = ("opendp", "dp_accounting", "pandas", "polars", "sklearn")
def loaded(): return [name for name in heavy if name in sys.modules]
noise = p.GaussianNoise(1.0, 5.0, 2)
p.gaussian_mu(p.Budget(1, 1e-8)); p.Gate.seeded(0).release_one(np.zeros(2), noise, "w")
print(loaded())
p.Gate.system().release_one(np.zeros(2), noise, "w")
print(loaded())
p.Gate.system().choose(np.zeros(2), NoisyMin(sensitivity=1.0, epsilon=1.0), "c")
print(loaded())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["[]", "[]", "[]"]
