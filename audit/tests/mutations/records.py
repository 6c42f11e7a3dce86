"""Records that do not say what happened, or not where it is looked for."""

from dataclasses import replace

import numpy as np

from dperm.mechanisms import resolve
from dperm.privacy import Gate, GaussianNoise, SystemEntropy
from dperm.privacy.noisy_min import NoisyMin
from dperm_audit.self_test import Mutation, every_private

# All but objective-pure can centre rows, and release the mean in a part of the gate.
IN_PARTS = every_private(but=("objective-pure",))
# They release for all jobs at once; the others, and all on standardised rows, for one after the other.
AT_ONCE = tuple(
    name
    for name in every_private(but=("dp-agd", "dp-svrg", "frank-wolfe"))
    if resolve(name).family in ("output", "objective", "gradient", "auto")
)


def changed(**facts):
    """What makes a record, or a job whose last record was written by a choice, that states other facts."""

    def new(record):
        return replace(record, **{name: change(getattr(record, name)) for name, change in facts.items()})

    def of_release(write):
        return lambda self, *stated: new(write(self, *stated))

    def of_choice(choose):
        def broken(self, *stated):
            chosen = choose(self, *stated)
            self._records[0][-1] = new(self._records[0][-1])
            return chosen

        return broken

    return {"dperm.privacy.gate.Gate._record": of_release, "dperm.privacy.gate.Gate.choose": of_choice}


def to_the_next_job(release):
    def broken(self, *stated):
        released = release(self, *stated)
        last = [records.pop() for records in self._records]
        for k, records in enumerate(self._records):
            records.append(last[k - 1])
        return released

    return broken


def forgetful_part(part):
    def broken(self, jobs):
        some = part(self, jobs)
        some._records = [[] for _ in jobs]
        return some

    return broken


def first_jobs(part):
    return lambda self, jobs: part(self, range(len(jobs)))


def written(scales=(1.0,), part=None):
    """What the jobs of a gate, or of a part of it, hold after a release and a choice."""
    gate = Gate.seeded(0).for_jobs(max(2, len(scales)))
    chosen = gate if part is None else gate.part(part)
    if part is None and len(scales) == 1:
        chosen = gate.part([0])
    chosen.release(np.zeros((1, len(scales))), [GaussianNoise(1.0, scale, 1) for scale in scales], "probe")
    if len(scales) == 1:
        chosen.choose(np.zeros(2), NoisyMin(sensitivity=1.0, epsilon=1.0), "probe")
    return [[record.to_dict() for record in gate.records(k)] for k in range(2)]


MUTATIONS = (
    Mutation(
        name="records of half the sensitivity",
        what_is_wrong="Records state half of the sensitivity that the noise was made for.",
        touches=every_private(),
        changes=changed(sensitivity=lambda stated: stated / 2),
        probe=written,
    ),
    Mutation(
        name="records of another source",
        what_is_wrong="Records say that the noise came from the operating system, whatever it came from.",
        touches=every_private(),
        changes=changed(entropy=lambda stated: SystemEntropy.name, secure=lambda stated: True),
        probe=written,
    ),
    Mutation(
        name="records of another job",
        what_is_wrong="Of jobs that are released at once each gets the record of the job before.",
        touches=AT_ONCE,
        changes={"dperm.privacy.gate.Gate.release": to_the_next_job},
        probe=lambda: written(scales=(1.0, 2.0)),
    ),
    Mutation(
        name="parts of a gate forget their records",
        what_is_wrong="What is released in a part of a gate is written down where nobody looks.",
        touches=IN_PARTS,
        changes={"dperm.privacy.gate.Gate.part": forgetful_part},
        probe=lambda: written(part=[1]),
    ),
    Mutation(
        name="parts of a gate write for the first jobs",
        what_is_wrong="What is released in a part of a gate is written down for the first jobs of the run.",
        touches=IN_PARTS,
        changes={"dperm.privacy.gate.Gate.part": first_jobs},
        probe=lambda: written(part=[1]),
    ),
)
