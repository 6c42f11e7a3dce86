"""Every mutation takes effect while it is applied and leaves nothing behind; the whole self-test is slow."""

import pytest

from dperm.audit.mutation import every_private
from dperm.audit.self_test import load_mutations, self_test

MUTATIONS = load_mutations()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_takes_effect_and_goes_away(mutation):
    before = mutation.probe()
    with mutation.apply():
        assert mutation.probe() != before
    assert mutation.probe() == before


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_touches_mechanisms_that_exist(mutation):
    assert mutation.touches
    assert set(mutation.touches) <= set(every_private())


@pytest.mark.slow
def test_every_mutation_is_caught_and_every_mechanism_stands():
    failed = [trial for trial in self_test() if not trial.passed]
    assert not failed
