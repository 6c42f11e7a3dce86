"""Records that do not say what happened."""

from dataclasses import replace

import numpy as np

from dperm.audit.mutation import Mutation, every_private
from dperm.privacy import GaussianNoise, SeededEntropy, release


def understated(passage):
    """Writes down half of the declared sensitivity, for a release as for a private choice."""

    def broken(*facts):
        value, record = passage(*facts)
        return value, replace(record, sensitivity=record.sensitivity / 2)

    return broken


MUTATIONS = (
    Mutation(
        name="records of half the sensitivity",
        what_is_wrong="Records state half of the sensitivity that the noise was made for.",
        touches=every_private(),
        changes={
            "dperm.privacy.release.pass_gate": understated,
            "dperm.mechanisms.selection.choose": understated,
        },
        probe=lambda: (
            release(np.zeros(1), GaussianNoise(1.0, 1.0, 1), SeededEntropy(0), "probe")[1].sensitivity
        ),
    ),
)
