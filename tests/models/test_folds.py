"""What answers for a fold has seen no target of it: by brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import read_panel
from orderless.errors import DataError
from orderless.models.folds import MOST_BLOCKS, Folds, cut_folds
from orderless.models.forecasting import ForecastingWindows, cut_forecasting_windows


def cut(lengths, context, horizon, share) -> tuple[ForecastingWindows, Folds]:
    panel = read_panel([np.arange(float(length)) for length in lengths])
    windows = cut_forecasting_windows(panel, horizon, context, share)
    train, selection = windows.train, windows.selection
    return windows, cut_folds(train, selection, horizon, held_out=windows.held_out)


def targets(windows, context, horizon) -> set[tuple[int, int]]:
    """Which (system, time) the windows [window, 2] are to forecast."""
    return {
        (system, start + context + step)
        for system, start in windows.tolist()
        for step in range(horizon)
    }


@settings(max_examples=150)
@given(
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=14),
    context=st.integers(1, 20),
    horizon=st.integers(1, 12),
    share=st.sampled_from([0.1, 0.2, 0.5, 0.9]),
)
def test_what_answers_for_a_fold_has_not_seen_its_targets(lengths, context, horizon, share):
    try:
        windows, folds = cut(lengths, context, horizon, share)
    except DataError:
        return  # too short for a single window
    for fold in range(folds.count):
        answered = targets(folds.windows[folds.fold == fold], windows.context, horizon)
        fitted_on = targets(folds.windows[~folds.excluded(fold)], windows.context, horizon)
        assert answered
        assert fitted_on
        # With nothing held out, and too little for two blocks, the error is that of training.
        assert not answered & fitted_on or (folds.count == 1 and not windows.held_out)
    assert torch.equal(folds.windows[folds.training], windows.train)
    assert (folds.fold[folds.training] < folds.count).all()


@settings(max_examples=50)
@given(lengths=st.lists(st.integers(20, 150), min_size=1, max_size=14), horizon=st.integers(1, 6))
def test_windows_of_a_group_are_excluded_together(lengths, horizon):
    _, folds = cut(lengths, 3, horizon, 0.2)
    groups = folds.groups()
    for fold in range(folds.count):
        for facts in (folds.excluded(fold), folds.fold == fold, folds.training):
            assert not set(groups[facts].tolist()) & set(groups[~facts].tolist())


def test_blocks_are_alike_in_size_and_little_is_lost_between_them():
    windows, folds = cut([1000], 48, 12, 0.2)
    assert folds.count == MOST_BLOCKS
    sizes = folds.fold[folds.training].bincount()
    assert sizes.max() - sizes.min() <= 1
    for fold in range(folds.count - 1):
        lost = folds.excluded(fold) & (folds.fold != fold)
        assert lost.sum() <= 2 * 12
    # The selection windows lie apart already.
    assert torch.equal(folds.excluded(folds.count - 1), ~folds.training)
    assert len(windows.selection) == int((~folds.training).sum())


@pytest.mark.parametrize(("systems", "count"), [(9, 1), (10, MOST_BLOCKS), (23, MOST_BLOCKS)])
def test_many_short_systems_take_the_place_of_blocks_of_time(systems, count):
    _, folds = cut([16] * systems, 4, 6, 0.2)
    assert folds.count == count
    if count > 1:
        for system in range(systems):
            assert len(folds.fold[folds.windows[:, 0] == system].unique()) == 1


def test_of_systems_too_short_for_a_block_each_fold_has_some():
    _, folds = cut([400] * 8 + [16] * 4, 4, 6, 0.2)
    short = (folds.windows[:, 0] >= 8) & folds.training
    assert len(folds.fold[short].unique()) == folds.count - 1
