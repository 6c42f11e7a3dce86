"""Noise that is drawn side by side is independent: across classes, candidates, folds, jobs, threads and processes.

The rows are zero, so what is released is the noise. Every way to draw side by side is run with the operating system's
entropy and with child streams of a seed, which must pass, and with one seed for all, which must fail.
"""

import importlib
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from dperm import PrivateLogisticRegression, PrivateSearchCV
from dperm.engine import open_rows
from dperm.losses import Logistic
from dperm.mechanisms import DPGD, DPSGD, Job, Objective, Output
from dperm.privacy import Budget, Gate, GaussianNoise, SeededEntropy, SystemEntropy
from dperm.problem import Problem

# More noise than signal is what is wanted here, and workers whose caller cannot be seen.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::dperm.errors.{kind}")
    for kind in ("UtilityWarning", "PrivacyWarning")
]
sampler = importlib.import_module("dperm.privacy.noise")

TINY = 1e-12
ROWS, FEATURES, STREAMS = 24, 400, 6
PLAIN_OUTPUT, PLAIN_OBJECTIVE = Output(standardise=False), Objective(standardise=False)
PLAIN_DPGD = DPGD(steps=3, adaptive=False, standardise=False)
X, Y = np.zeros((ROWS, FEATURES)), np.resize([0, 1], ROWS)
MODEL = PrivateLogisticRegression(mechanism=PLAIN_OUTPUT, l2=1.0, fit_intercept=False, classes=[0, 1])
NOISE = GaussianNoise(1.0, 2.0, FEATURES)

SYSTEM, SPAWNED, SHARED = "operating system", "child streams", "one seed for all"
every_source = pytest.mark.parametrize("source", [SYSTEM, SPAWNED, SHARED])


def entropies(source, count):
    if source == SYSTEM:
        return [SystemEntropy()] * count
    return SeededEntropy(7).spawn(count) if source == SPAWNED else [SeededEntropy(7) for _ in range(count)]


def random_states(source, count):
    """The same for the estimators."""
    if source == SYSTEM:
        return [None] * count
    if source == SHARED:
        return [7] * count
    return [entropy.generator for entropy in SeededEntropy(7).spawn(count)]


def dependence_p(streams):
    """p-value that the rows of a matrix are independent normal noise: all together, and each pair at every lag.

    The first is Bartlett's test of the joint covariance matrix. The second bounds the chance of a sum of m products of
    normal numbers by Chernoff, exp(-s t) (1 - t^2)^(-m/2), so that it is no approximation; its lags find a stream that
    runs behind another.
    """
    streams = np.asarray(streams, dtype=float)
    count, m = streams.shape
    streams = streams / np.sqrt((streams**2).mean(axis=1, keepdims=True))
    covariance = streams @ streams.T / m
    sign, log_determinant = np.linalg.slogdet(covariance)
    if sign <= 0:
        return 0.0
    bartlett = -(m - (2 * count + 5) / 6) * log_determinant
    together = chi2.sf(bartlett, count * (count - 1) / 2)
    spectrum = np.fft.rfft(streams, axis=1)
    largest = max(
        np.abs(np.fft.irfft(spectrum[i] * spectrum[j].conj(), m)).max()
        for i in range(count)
        for j in range(i)
    )
    t = (math.sqrt(m**2 + 4 * largest**2) - m) / (2 * largest)
    pairwise = count * (count - 1) * m * math.exp(-largest * t - m / 2 * math.log1p(-(t**2)))
    return min(1.0, 2 * min(together, pairwise))


def check(streams, source):
    assert np.shape(streams) == (len(streams), FEATURES)
    p = dependence_p(streams)
    assert p < TINY if source == SHARED else p > TINY


def test_the_p_value_is_one_and_finds_what_it_should():
    rng = np.random.default_rng(0)
    found = [dependence_p(rng.normal(size=(STREAMS, FEATURES))) for _ in range(300)]
    assert min(found) > 1e-4
    assert np.mean(np.array(found) < 0.1) < 0.25
    draws = rng.normal(size=(STREAMS, FEATURES))
    late = np.vstack([draws, np.roll(draws[0], 17)])  # the same numbers a little later
    weak = draws + 0.5 * rng.normal(size=FEATURES)  # something in common in all of them
    opposite = np.vstack([draws, -draws[0] + 0.1 * draws[1]])
    for dependent in (late, weak, opposite):
        assert dependence_p(dependent) < TINY


# Classes of one softmax fit: one release, a column of coefficients for each.


@pytest.mark.cover(1)
@pytest.mark.parametrize("mechanism", [PLAIN_OUTPUT, PLAIN_OBJECTIVE, PLAIN_DPGD], ids=lambda m: m.name)
@pytest.mark.parametrize("source", [SYSTEM, SPAWNED])
def test_classes_of_one_fit(mechanism, source):
    check(softmax_coefficients(mechanism, source), source)


def test_classes_that_share_their_noise_are_found(monkeypatch):
    def repeated(gate, columns, noises, name):
        narrow = [GaussianNoise(noise.sensitivity, noise.scale, FEATURES) for noise in noises]
        drawn = original(gate, np.zeros((FEATURES, len(noises))), narrow, name)
        return columns + np.repeat(drawn, STREAMS, axis=0)

    original = Gate._noisy
    monkeypatch.setattr(Gate, "_noisy", repeated)
    check(softmax_coefficients(PLAIN_OUTPUT, SYSTEM), SHARED)


def softmax_coefficients(mechanism, source):
    (random_state,) = random_states(source, 1)
    model = clone(MODEL).set_params(
        mechanism=mechanism, classes=list(range(STREAMS)), random_state=random_state
    )
    return model.fit(X, np.resize(range(STREAMS), ROWS)).coef_


# Candidates of a private search, and folds of scikit-learn's cross-validation.


@every_source
def test_candidates_of_a_private_search(monkeypatch, source):
    released, scores = [], []
    original = Gate._noisy

    def watched(gate, columns, noises, name):
        noisy = original(gate, columns, noises, name)
        (scores if "score" in name else released).extend((noisy - columns).T)
        return noisy

    monkeypatch.setattr(Gate, "_noisy", watched)
    if source == SHARED:
        search = importlib.import_module("dperm.estimators.search.selection")
        monkeypatch.setattr(search, "stream", lambda entropy: 7)
    for number in range(50):
        PrivateSearchCV(
            MODEL,
            {"l2": [0.5, 1.0]},
            epsilon=1.0,
            delta=1e-6,
            mean_candidates=4.0,
            random_state=None if source == SYSTEM else number,
        ).fit(X, Y)
        if len(released) >= STREAMS:
            break
    assert len(scores) == len(released) == len({float(score[0]) for score in scores})
    check(released[:STREAMS], source)


@pytest.mark.parametrize("source", [SYSTEM, SHARED])
def test_folds_of_cross_validation(source):
    (random_state, *_) = random_states(source, STREAMS)
    found = cross_validate(
        clone(MODEL).set_params(random_state=random_state), X, Y, cv=STREAMS, return_estimator=True, n_jobs=1
    )
    check([model.coef_[0] for model in found["estimator"]], source)


# Jobs of one batched run.


@pytest.mark.cover(2)
@pytest.mark.parametrize(
    "mechanism",
    [
        PLAIN_OUTPUT,
        PLAIN_OBJECTIVE,
        PLAIN_DPGD,
        DPSGD(steps=5, rate=0.5, standardise=False),
        Output(standardise=True),
    ],
    ids=lambda m: f"{m.name} standardised" if m.standardise else m.name,
)
@pytest.mark.parametrize("masked", [False, True], ids=["same rows", "own rows"])
@every_source
def test_jobs_of_one_run(mechanism, masked, source):
    mask = np.ones((ROWS, STREAMS), dtype=bool)
    mask[np.arange(STREAMS), np.arange(STREAMS)] = False  # each model misses one row
    problem = Problem(loss=Logistic(), l2=1.0, x_norm=1.0, n_rows=ROWS - masked, n_features=FEATURES)
    rows = open_rows(X, 2.0 * Y - 1.0, problem, mask if masked else None)
    plan = mechanism.plan(problem, Budget(1.0, 1e-6))
    jobs = [Job(plan=plan, model=model if masked else 0) for model in range(STREAMS)]
    if source == SHARED:
        outcomes = [
            mechanism.run([job], rows, Gate(entropy))[0]
            for job, entropy in zip(jobs, entropies(source, STREAMS), strict=True)
        ]
    else:
        (entropy,) = entropies(source, 1)
        outcomes = mechanism.run(jobs, rows, Gate(entropy))
    check([outcome.weights for outcome in outcomes], source)


# Threads.


@pytest.mark.system_noise(failing=1e-10)
def test_threads_of_a_batch(monkeypatch):
    monkeypatch.setattr(sampler, "_FEWEST_FOR_A_THREAD", 1)  # so that there are threads at all
    monkeypatch.setattr(sampler, "available_processors", lambda: 3)
    for gate in (Gate.system(), Gate.seeded(7)):
        released = gate.for_jobs(STREAMS).release(np.zeros((FEATURES, STREAMS)), [NOISE] * STREAMS, "zero")
        check(released.T, gate.source.name)


@pytest.mark.system_noise(failing=1e-10)
@every_source
def test_releases_in_many_threads(source):
    with ThreadPoolExecutor(STREAMS) as threads:
        released = threads.map(
            lambda entropy: Gate(entropy).release_one(np.zeros(FEATURES), NOISE, "zero"),
            entropies(source, STREAMS),
        )
    check(list(released), source)


# Processes.


@pytest.mark.cover(1)
@pytest.mark.system_noise(failing=1e-10)
@pytest.mark.parametrize("backend", ["loky", "threading"])
@every_source
def test_fits_side_by_side_in_joblib(backend, source):
    models = [clone(MODEL).set_params(random_state=state) for state in random_states(source, STREAMS)]
    fitted = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(model.fit)(X, Y) for model in models)
    check([model.coef_[0] for model in fitted], source)


FORKING = """
import os, pickle, sys
import numpy as np
from dperm.privacy import Gate, GaussianNoise

noise = GaussianNoise(1.0, 2.0, {features})
entropies = pickle.loads(bytes.fromhex(sys.argv[1]))

def draw(entropy):
    released = Gate(entropy).release_one(np.zeros({features}), noise, "zero")
    os.write(1, released.tobytes().hex().encode() + b"\\n")

Gate.system().release_one(np.zeros({features}), noise, "before the fork")  # whatever it keeps, the children inherit
*children, own = entropies
for entropy in children:
    if os.fork() == 0:
        draw(entropy)
        os._exit(0)
    os.wait()
draw(own)
"""


@pytest.mark.system_noise(failing=1e-10)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@every_source
def test_separate_and_forked_processes(source):
    """Two processes that start alike; each forks children after it has drawn, then draws once more itself."""
    sources = entropies(source, STREAMS)
    check(drawn_by_process(sources[::2]) + drawn_by_process(sources[1::2]), source)


def drawn_by_process(entropies):
    script = FORKING.format(features=FEATURES)
    ran = subprocess.run(
        [sys.executable, "-c", script, pickle.dumps(entropies).hex()],
        capture_output=True,
        check=True,
        timeout=300,
    )
    return [np.frombuffer(bytes.fromhex(line.decode())) for line in ran.stdout.split()]
