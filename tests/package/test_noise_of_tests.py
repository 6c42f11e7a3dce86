"""Tests draw the same noise in every run; those that do not say how often they fail by chance."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dperm.privacy.noise as sampler
import opendp_noise
from dperm import PrivateLogisticRegression
from dperm.privacy import Gate, GaussianNoise, SystemEntropy
from noise_stream import LEAST_CERTAIN, STREAM, kept

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).normal(size=(200, 3)) / 3
Y = (X[:, 0] > 0).astype(int)
ONE_FIT = "tests/package/test_noise_of_tests.py::test_one_fit"
NOISE = GaussianNoise(1.0, 2.0, 20_000)
FIRST_WORDS, FIRST_SUBSET = [15984927437479972885, 4097159412634848028], [0, 5, 6]


def coefficients():
    return PrivateLogisticRegression(classes=[0, 1]).fit(X, Y).coef_.tobytes().hex()


def test_one_fit():
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, Y)
    assert model.privacy_.guarantee is not None  # as for users: the bytes are replaced, nothing else
    print("bits:", model.coef_.tobytes().hex())
    assert coefficients() != model.coef_.tobytes().hex()  # a stream, not a constant


@pytest.mark.system_noise(failing=0)
def test_a_test_has_the_same_bits_in_every_process():
    with STREAM.of(ONE_FIT):
        assert coefficients() == bits_of(ONE_FIT)


def bits_of(test):
    words = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", test]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    (line,) = (line for line in ran.stdout.splitlines() if "bits:" in line)
    return line.split("bits: ")[1].split()[0].rstrip(".")


def test_the_bytes_follow_from_the_name_of_the_test():
    with STREAM.of("a name"):
        assert SystemEntropy().words(2).tolist() == FIRST_WORDS
        assert sorted(SystemEntropy().subset(10, 3).tolist()) == FIRST_SUBSET
    with STREAM.of("another name"):
        assert SystemEntropy().words(2).tolist() != FIRST_WORDS


@kept
def a_model(seed):
    return coefficients()


@pytest.mark.parametrize("asked", range(2))
def test_what_is_kept_does_not_depend_on_who_asks_first(asked):
    first = a_model(1)
    a_model.cache_clear()
    SystemEntropy().words(asked + 1)
    assert a_model(1) == first != a_model(2)


def test_many_numbers_are_drawn_in_one_order():
    assert sampler.available_processors() == 1
    with STREAM.of("a name"):
        first = Gate.system().release_one(np.zeros(20_000), NOISE, "zero")
    with STREAM.of("a name"):
        assert np.array_equal(first, Gate.system().release_one(np.zeros(20_000), NOISE, "zero"))


def test_what_the_stream_does_not_reach_is_refused(monkeypatch):
    with ThreadPoolExecutor(1) as threads, pytest.raises(AssertionError, match="system_noise"):
        threads.submit(SystemEntropy().words, 1).result()
    with pytest.raises(AssertionError, match="system_noise"):
        opendp_noise.opendp_gaussian(np.zeros(1), GaussianNoise(1.0, 1.0, 1))
    with pytest.raises(AssertionError, match="system_noise"):
        subprocess.run([sys.executable, "-m", "dperm", "--version"], check=True)
    monkeypatch.setattr(os, "getpid", lambda: 0)  # as in a process that was forked
    with pytest.raises(AssertionError, match="system_noise"):
        SystemEntropy().words(1)


@pytest.mark.system_noise(failing=1e-30)
def test_a_marked_test_draws_from_the_system():
    assert STREAM.real
    with STREAM.of("a name"):
        assert SystemEntropy().words(2).tolist() == FIRST_WORDS
    assert SystemEntropy().words(2).tolist() != SystemEntropy().words(2).tolist()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(SystemEntropy().words, 1).result()


def test_whoever_draws_from_the_system_says_how_often_that_fails(request):
    assert all(problem(item) is None for item in request.session.items)


def problem(item):
    for marker in item.iter_markers("system_noise"):
        failing = marker.kwargs.get("failing")
        if marker.args or set(marker.kwargs) != {"failing"} or not 0 <= failing <= LEAST_CERTAIN:
            return f"{item.nodeid} must say system_noise(failing=p) with p of at most {LEAST_CERTAIN}"
    return None


@pytest.mark.together
@pytest.mark.parametrize(
    ("words", "right"), [({"failing": 1e-9}, True), ({"failing": 1e-8}, False), ({}, False)]
)
def test_a_larger_chance_is_noticed(words, right, request):
    class Item:
        nodeid = "some test"

        def iter_markers(self, name):
            return [pytest.mark.system_noise(**words).mark]

    assert (problem(Item()) is None) == right
