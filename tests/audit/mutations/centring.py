"""The mean of the rows: too little noise, the same noise again, or noise that nobody pays for."""

import math
from dataclasses import replace

import numpy as np

from dperm.audit.mutation import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private
from dperm.audit.neighbours import table_of
from dperm.mechanisms import DPGD, Job
from dperm.neighbours import Neighbours
from dperm.privacy import Gate, GaussianNoise

# Pure epsilon leaves nothing for a mean with Gaussian noise. auto centres beyond 20 features.
CENTRED = every_private(but=("objective-pure",))
MEAN = "mean of the rows"


def half_sensitivity(plan):
    def broken(problem, budget):
        sound = plan(problem, budget)
        noise = sound.noise
        return replace(sound, noise=GaussianNoise(noise.sensitivity / 2, noise.scale / 2, noise.dimension))

    return broken


def same_noise(add):
    """Keeps the first noise of the mean, in units of its scale, and adds it ever after."""
    kept = {}

    def broken(self, values, noise, name):
        noisy = add(self, values, noise, name)
        if name == MEAN:
            grid = math.ldexp(1.0, noise.grid_exponent)
            rounded = np.rint(values / grid) * grid
            first = kept.setdefault(noise.dimension, (noisy - rounded) / noise.scale)
            noisy = rounded + np.rint(first * noise.scale / grid) * grid
        return noisy

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


def not_recorded(row_map):
    """Releases the mean through a fresh lane, whose records nobody reads."""
    return lambda self, rows, gate: row_map(self, rows, gate.lanes(1))


def exact_mean(plan, rows):
    return rows.open(precise=True).row_sum()[: plan.problem.n_features, 0] / plan.problem.n_rows


def by_exact_mean(run):
    def broken(self, job, rows, gate):
        mine = rows.select([job.model])
        told = job.plan.centring.row_map(mine, gate)
        used = job.plan.centring.map_by(exact_mean(job.plan, mine))
        (weights,) = self._run([replace(job, model=0)], mine.mapped(used), gate)
        return weights, told

    return broken


def exact_mean_told(run):
    def broken(self, job, rows, gate):
        weights, _ = run(self, job, rows, gate)
        return weights, job.plan.centring.map_by(exact_mean(job.plan, rows.select([job.model])))

    return broken


def no_centre_told(run):
    return lambda self, job, rows, gate: (run(self, job, rows, gate)[0], job.plan.problem.row_map)


def by_true_count(row_map):
    def broken(self, rows, gate):
        counted = replace(self.problem, n_rows=max(1, len(rows._X)))
        return row_map(replace(self, problem=counted), rows, gate)

    return broken


def centred(seed=0, rows=24, problem=EXAMPLE):
    mechanism = DPGD(steps=2, center=True)
    table = table_of(problem, (np.full((rows, 3), 0.5), np.ones(rows)))
    job = Job(plan=mechanism.plan(problem, EXAMPLE_BUDGET))
    return mechanism.run([job], table, Gate.seeded(seed))[0]


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
        changes={"dperm.privacy.gate.Gate._noisy": same_noise},
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
        changes={"dperm.mechanisms.centring.Centring.row_map": not_recorded},
        probe=lambda: len(centred().records),
    ),
    Mutation(
        name="centring by the private count",
        what_is_wrong="The sum of the rows is divided by their true number, which add-remove keeps secret.",
        touches=tuple(name for name in CENTRED if name != "nsgd"),  # nsgd does not know add-remove
        changes={"dperm.mechanisms.centring.Centring.row_map": by_true_count},
        probe=one_row_less,
    ),
    Mutation(
        name="centred by the exact mean",
        what_is_wrong="Rows are centred by their exact mean; the noisy one is released for show.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism._run_centred": by_exact_mean},
        probe=lambda: centred().weights.tolist(),
    ),
    Mutation(
        name="exact mean told",
        what_is_wrong="The map of the rows that is published with the weights holds the exact mean.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism._run_centred": exact_mean_told},
        probe=lambda: centred().row_map.centre.tolist(),
    ),
    Mutation(
        name="no centre told",
        what_is_wrong="Weights of centred rows are published as those of rows as they came.",
        touches=CENTRED,
        changes={"dperm.mechanisms.base.Mechanism._run_centred": no_centre_told},
        probe=lambda: centred().row_map.moves,
    ),
)
