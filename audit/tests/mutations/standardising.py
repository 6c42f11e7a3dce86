"""Mean and moments of the rows: too little noise, the same noise again, noise that nobody pays for, or none at all."""

import math
from dataclasses import replace

import numpy as np

from dperm.mechanisms import DPGD, Job
from dperm.mechanisms.standardising import MEAN
from dperm.privacy import Gate, GaussianNoise
from dperm.unit import Neighbours
from dperm_audit.neighbours import table_of
from dperm_audit.replay_cases import TELLING_BUDGET
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private

# Pure epsilon leaves nothing for moments with Gaussian noise. auto standardises beyond 20 features.
STANDARDISED = every_private(but=("objective-pure",))
RELEASE = "dperm.mechanisms.standardising.Standardisation.row_map"
RUN = "dperm.mechanisms.base.Mechanism._run_standardised"


def halved(place):
    """The plan with half the noise in one of its releases."""

    def change(plan):
        def broken(problem, budget, variant):
            sound = plan(problem, budget, variant)
            noises = list(sound.noises)
            noise = noises[place]
            noises[place] = GaussianNoise(noise.sensitivity / 2, noise.scale / 2, noise.dimension)
            return replace(sound, noises=tuple(noises))

        return broken

    return change


def moments_as_one_row(plan):
    """Takes squares of two rows to be no further apart than those of one row and none: the root of 2 is forgotten."""

    def broken(problem, budget, variant):
        sound = plan(problem, budget, variant)
        *first, last = sound.noises
        part = 1 if problem.neighbours is Neighbours.ADD_REMOVE else 1 / math.sqrt(2)
        last = GaussianNoise(part * last.sensitivity, part * last.scale, last.dimension)
        return replace(sound, noises=(*first, last))

    return broken


def same_noise(add):
    """Keeps the first noise of the mean, in units of its scale, and adds it ever after."""
    kept = {}

    def broken(self, columns, noises, name):
        noisy = add(self, columns, noises, name)
        if name == MEAN:
            noisy = np.stack([again(*one) for one in zip(columns.T, noisy.T, noises, strict=True)], axis=1)
        return noisy

    def again(values, noisy, noise):
        grid = math.ldexp(1.0, noise.grid_exponent)
        rounded = np.rint(values / grid) * grid
        first = kept.setdefault(noise.dimension, (noisy - rounded) / noise.scale)
        return rounded + np.rint(first * noise.scale / grid) * grid

    return broken


def charged_for(share):
    """The mechanism is planned as if the releases before it had cost this share of what they cost."""

    def change(plan):
        def broken(self, problem, budget, **asked):
            sound = plan(self, problem, budget, **asked)
            if sound.standardisation is None:
                return sound
            spent = share * sound.standardisation.mu
            return replace(self._plan(problem, budget, spent), standardisation=sound.standardisation)

        return broken

    return change


def not_recorded(row_map):
    """Releases through a fresh job, whose records nobody reads."""
    return lambda self, rows, gate: row_map(self, rows, gate.for_jobs(1))


class Exact(Gate):
    """Lets the values through as they are."""

    def _noisy(self, columns, noises, name):
        return columns


def exact_map(job, rows):
    return job.plan.standardisation.row_map(rows.select([job.model]), Exact(Gate.seeded(0).source))


def by_exact_moments(run):
    """Centre and scale of the rows themselves; the noisy ones are released for show."""

    def broken(self, job, rows, gate):
        mine = rows.select([job.model])
        told = job.plan.standardisation.row_map(mine, gate)
        used = exact_map(job, rows)
        (weights,) = self._run([replace(job, model=0)], mine.mapped(used), gate)
        return weights, told

    return broken


def by_exact_scale(run):
    """The centre is the released one, but the scale is computed from the rows."""

    def broken(self, job, rows, gate):
        mine = rows.select([job.model])
        told = job.plan.standardisation.row_map(mine, gate)
        used = replace(told, scale=exact_map(job, rows).scale)
        (weights,) = self._run([replace(job, model=0)], mine.mapped(used), gate)
        return weights, used

    return broken


def exact_moments_told(run):
    return lambda self, job, rows, gate: (run(self, job, rows, gate)[0], exact_map(job, rows))


def no_map_told(run):
    return lambda self, job, rows, gate: (run(self, job, rows, gate)[0], job.plan.problem.row_map)


def by_true_count(row_map):
    def broken(self, rows, gate):
        counted = replace(self.problem, n_rows=max(1, len(rows._X)))
        return row_map(replace(self, problem=counted), rows, gate)

    return broken


def standardised(seed=0, rows=24, problem=EXAMPLE, budget=EXAMPLE_BUDGET):
    mechanism = DPGD(steps=2, standardise=True)
    X = np.where(np.arange(rows) % 2 == 0, 1.0, -0.5)[:, None] * np.array([0.9, 0.3, 0.1])
    table = table_of(problem, (X, np.ones(rows)))
    job = Job(plan=mechanism.plan(problem, budget))
    return mechanism.run([job], table, Gate.seeded(seed))[0]


def planned():
    return DPGD(steps=2, standardise=True).plan(EXAMPLE, EXAMPLE_BUDGET)


def second_mean():
    """Weights that follow a mean of their own noise, after another model had one."""
    standardised(seed=0)
    return standardised(seed=1).weights.tolist()


def one_row_less():
    return standardised(rows=23, problem=replace(EXAMPLE, neighbours=Neighbours.ADD_REMOVE)).weights.tolist()


PLAN = "dperm.mechanisms.standardising.plan_standardisation"

MUTATIONS = (
    Mutation(
        name="standardisation sensitivity halved",
        what_is_wrong="The mean of the rows is taken to move half as far as it does.",
        touches=STANDARDISED,
        changes={PLAN: halved(0)},
        probe=lambda: planned().standardisation.noises[0].scale,
    ),
    Mutation(
        name="second moments' sensitivity halved",
        what_is_wrong="The second moments of the columns are taken to move half as far as they do.",
        touches=STANDARDISED,
        changes={PLAN: halved(-1)},
        probe=lambda: planned().standardisation.noises[-1].scale,
    ),
    Mutation(
        name="second moments move as for one row",
        what_is_wrong="A replaced row is taken to move the second moments no further than a removed one.",
        touches=STANDARDISED,
        changes={PLAN: moments_as_one_row},
        probe=lambda: planned().standardisation.noises[-1].scale,
    ),
    Mutation(
        name="standardisation noise reused",
        what_is_wrong="The noise of the first mean is kept and added to every later mean.",
        touches=STANDARDISED,
        changes={"dperm.privacy.gate.Gate._noisy": same_noise},
        probe=second_mean,
    ),
    Mutation(
        name="standardisation not charged",
        what_is_wrong="The whole budget is spent on training, and mean and moments are released besides.",
        touches=STANDARDISED,
        changes={"dperm.mechanisms.base.Mechanism.plan": charged_for(0.0)},
        probe=lambda: planned().noise.scale,
    ),
    Mutation(
        name="second moments not charged",
        what_is_wrong="The mean of the rows is paid for, and the second moments are released besides.",
        touches=STANDARDISED,
        changes={"dperm.mechanisms.base.Mechanism.plan": charged_for(math.sqrt(0.5))},
        probe=lambda: planned().noise.scale,
    ),
    Mutation(
        name="standardisation not recorded",
        what_is_wrong="The records of a model leave out the releases of mean and moments.",
        touches=STANDARDISED,
        changes={RELEASE: not_recorded},
        probe=lambda: len(standardised().records),
    ),
    Mutation(
        name="standardisation by the private count",
        what_is_wrong="Sums over the rows are divided by their true number, which add-remove keeps secret.",
        touches=tuple(name for name in STANDARDISED if name != "nsgd"),  # nsgd does not know add-remove
        changes={RELEASE: by_true_count},
        probe=one_row_less,
    ),
    Mutation(
        name="standardised by the exact moments",
        what_is_wrong="Rows are moved and scaled by their exact moments; the noisy ones are released for show.",
        touches=STANDARDISED,
        changes={RUN: by_exact_moments},
        probe=lambda: standardised().weights.tolist(),
    ),
    Mutation(
        name="scale past the gate",
        what_is_wrong="The scale is computed from the rows and used and told without noise.",
        touches=STANDARDISED,
        changes={RUN: by_exact_scale},
        probe=lambda: standardised(budget=TELLING_BUDGET).row_map.scale.tolist(),
    ),
    Mutation(
        name="exact moments told",
        what_is_wrong="The map of the rows that is published with the weights holds the exact mean and moments.",
        touches=STANDARDISED,
        changes={RUN: exact_moments_told},
        probe=lambda: standardised().row_map.centre.tolist(),
    ),
    Mutation(
        name="no map told",
        what_is_wrong="Weights of standardised rows are published as those of rows as they came.",
        touches=STANDARDISED,
        changes={RUN: no_map_told},
        probe=lambda: standardised().row_map.moves,
    ),
)
