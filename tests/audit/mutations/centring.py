"""The mean of the rows: too little noise, the same noise again, or noise that nobody pays for."""

import math
from dataclasses import replace

import numpy as np

from dperm.audit.mutation import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private
from dperm.audit.neighbours import table_of
from dperm.mechanisms import DPGD, Job
from dperm.neighbours import Neighbours
from dperm.privacy import GaussianNoise, SeededEntropy

# Pure epsilon leaves nothing for a mean with Gaussian noise. auto centres beyond 20 features.
CENTRED = every_private(but=("objective-pure",))
MEAN = "mean of the rows"


def half_sensitivity(plan):
    def broken(problem, budget):
        sound = plan(problem, budget)
        noise = sound.noise
        return replace(sound, noise=GaussianNoise(noise.sensitivity / 2, noise.scale / 2, noise.dimension))

    return broken


def same_noise(gate):
    """Keeps the first noise of the mean, in units of its scale, and adds it ever after."""
    kept = {}

    def broken(values, noise, entropy, name):
        noisy, record = gate(values, noise, entropy, name)
        if name == MEAN:
            grid = math.ldexp(1.0, noise.grid_exponent)
            rounded = np.rint(values / grid) * grid
            first = kept.setdefault(noise.dimension, (noisy - rounded) / noise.scale)
            noisy = rounded + np.rint(first * noise.scale / grid) * grid
        return noisy, record

    return broken


def not_charged(plan):
    def broken(self, problem, budget):
        sound = plan(self, problem, budget)
        return (
            sound
            if sound.centring is None
            else replace(self._plan(problem, budget, 0.0), centring=sound.centring)
        )

    return broken


def not_recorded(run):
    def broken(self, job, table, entropy):
        sound = run(self, job, table, entropy)
        return replace(sound, records=sound.records[1:])

    return broken


def by_exact_mean(run):
    def broken(self, job, table, entropy):
        centring, features = job.plan.centring, job.plan.problem.n_features
        exact = table.open(storage=np.float64).row_sum()[:features, 0] / job.plan.problem.n_rows
        centre, record = centring.release(table, entropy)
        (found,) = self._run([replace(job, model=0)], table.centred(exact, centring.radius), entropy)
        weights = centring.undo(found.weights, centre)
        return replace(found, weights=weights, records=(record, *found.records))

    return broken


def by_true_count(release):
    def broken(self, table, entropy):
        counted = replace(self.problem, n_rows=max(1, len(table._X)))
        return release(replace(self, problem=counted), table, entropy)

    return broken


def centred(seed=0, rows=24, problem=EXAMPLE):
    mechanism = DPGD(steps=2, center=True)
    table = table_of(problem, (np.full((rows, 3), 0.5), np.ones(rows)))
    job = Job(plan=mechanism.plan(problem, EXAMPLE_BUDGET))
    return mechanism.run([job], table, SeededEntropy(seed))[0]


def second_mean():
    """Weights that follow a mean of their own noise, after another model had one."""
    centred(seed=0)
    return centred(seed=1).weights.tolist()


def one_row_less():
    return centred(rows=23, problem=replace(EXAMPLE, neighbours=Neighbours.ADD_REMOVE)).weights.tolist()


MUTATIONS = (
    Mutation(
        name="centring sensitivity halved",
        what_is_wrong="The mean of the rows is taken to move half as far as it does.",
        touches=CENTRED,
        changes={"dperm.mechanisms.centring.plan_centring": half_sensitivity},
        probe=lambda: DPGD(steps=2, center=True).plan(EXAMPLE, EXAMPLE_BUDGET).centring.noise.scale,
    ),
    Mutation(
        name="centring noise reused",
        what_is_wrong="The noise of the first mean is kept and added to every later mean.",
        touches=CENTRED,
        changes={"dperm.privacy.release.pass_gate": same_noise},
        probe=second_mean,
    ),
    Mutation(
        name="centring not charged",
        what_is_wrong="The whole budget is spent on training, and the mean of the rows is released besides.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism.plan": not_charged},
        probe=lambda: DPGD(steps=2, center=True).plan(EXAMPLE, EXAMPLE_BUDGET).noise.scale,
    ),
    Mutation(
        name="centring not recorded",
        what_is_wrong="The records of a model leave out the release of the mean.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism._run_centred": not_recorded},
        probe=lambda: len(centred().records),
    ),
    Mutation(
        name="centring by the private count",
        what_is_wrong="The sum of the rows is divided by their true number, which add-remove keeps secret.",
        touches=tuple(name for name in CENTRED if name != "nsgd"),  # nsgd does not know add-remove
        changes={"dperm.mechanisms.centring.Centring.release": by_true_count},
        probe=one_row_less,
    ),
    Mutation(
        name="centred by the exact mean",
        what_is_wrong="Rows are centred by their exact mean; the noisy one is released for show.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism._run_centred": by_exact_mean},
        probe=lambda: centred().weights.tolist(),
    ),
)
