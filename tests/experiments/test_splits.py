"""Splits follow the dataset and the repeat, cover every row once, and come in batches of sensible width."""

import numpy as np
import pytest

from dperm.experiments.splits import WIDEST_BATCH, assign_folds, group_repeats, training_mask


@pytest.mark.together
@pytest.mark.parametrize(("n_rows", "folds"), [(10, 2), (11, 3), (103, 5), (7, 7)])
def test_every_row_is_held_out_once_and_sizes_differ_by_one_at_most(n_rows, folds):
    sizes = np.bincount(assign_folds("d", 0, n_rows, folds), minlength=folds)
    assert sizes.sum() == n_rows
    assert sizes.max() - sizes.min() <= 1


def test_splits_follow_dataset_and_repeat():
    first = assign_folds("d", 0, 500, 5)
    np.testing.assert_array_equal(first, assign_folds("d", 0, 500, 5))
    assert (first != assign_folds("d", 1, 500, 5)).any()
    assert (first != assign_folds("e", 0, 500, 5)).any()


def test_rows_are_shuffled():
    folds = assign_folds("d", 0, 10_000, 5)
    assert abs(np.corrcoef(folds[:-1], folds[1:])[0, 1]) < 0.07  # seven standard deviations


def test_mask_columns_are_repeats_by_folds():
    mask = training_mask("d", range(2, 4), 53, 5)
    assert mask.shape == (53, 10)
    for column, (repeat, fold) in enumerate([(r, f) for r in (2, 3) for f in range(5)]):
        np.testing.assert_array_equal(mask[:, column], assign_folds("d", repeat, 53, 5) != fold)


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("folds", [2, 5, 10, 40])
@pytest.mark.parametrize("repeats", [1, 4, 7, 20])
def test_groups_cover_all_repeats_in_even_batches(repeats, folds):
    groups = group_repeats(repeats, folds)
    assert [repeat for group in groups for repeat in group] == list(range(repeats))
    lengths = [len(group) for group in groups]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) == 1 or max(lengths) * folds <= WIDEST_BATCH
    # One batch fewer would be too wide.
    assert len(groups) == 1 or -(-repeats // (len(groups) - 1)) * folds > WIDEST_BATCH
