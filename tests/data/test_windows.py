import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import (
    Series,
    choose_variables,
    covering_starts,
    draw_variables,
    scores_over_time,
    split_in_time,
    window_starts,
)
from orderless.errors import DataError

SHAPES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 12)), min_size=1, max_size=4)


def random_systems(shapes, seed=0):
    random = np.random.default_rng(seed)
    observed = [random.random(shape) < 0.8 for shape in shapes]
    values = [np.where(seen, random.normal(size=seen.shape), np.nan) for seen in observed]
    return values, observed


@settings(max_examples=60)
@given(shapes=SHAPES, data=st.data())
def test_gathering_equals_slicing_one_window_after_the_other(shapes, data):
    values, observed = random_systems(shapes)
    series = Series.from_arrays(values, observed, dtype=torch.float64)
    length = data.draw(st.integers(1, 8))
    pick = st.tuples(st.integers(0, len(shapes) - 1), st.integers(-9, 14))
    index = data.draw(st.lists(pick, min_size=1, max_size=6))
    got, seen, members = series.gather(torch.tensor(index), length)
    for window, (system, start) in enumerate(index):
        for variable in range(got.shape[1]):
            exists = variable < shapes[system][0] and observed[system][variable].any()
            assert members[window, variable] == exists
            for step in range(length):
                at = start + step
                there = exists and 0 <= at < shapes[system][1] and observed[system][variable, at]
                assert seen[window, variable, step] == there
                expected = values[system][variable, at] if there else 0.0
                assert got[window, variable, step] == expected


def test_a_batch_continues_where_its_context_ends():
    values = np.arange(40.0).reshape(2, 20)
    series = Series.from_arrays([values], [np.ones((2, 20), bool)])
    batch = series.batch(torch.tensor([[0, 3], [0, 15]]), 4, 2, torch.tensor([[1], [0]]))
    assert batch.values[0].tolist() == [[23, 24, 25, 26]]
    assert batch.targets[0].tolist() == [[27, 28]]
    assert batch.target_observed[1].tolist() == [[True, False]]
    assert batch.members.tolist() == [[True], [True]]


def test_the_last_steps_of_a_context_are_those_of_a_batch_made_with_it():
    values, observed = random_systems([(3, 30)])
    series = Series.from_arrays(values, observed)
    long = series.batch(torch.tensor([[0, 2], [0, -4]]), 12, 3)
    short = series.batch(torch.tensor([[0, 9], [0, 3]]), 5, 3)
    last = long.last(5)
    for name in ("values", "observed", "members", "targets", "target_observed"):
        assert torch.equal(getattr(last, name), getattr(short, name))
    assert long.last(12) is long


def test_a_batch_without_gaps_needs_no_masks():
    values, observed = random_systems([(3, 30)])
    observed[0][:] = False
    observed[0][:2, 10:] = True
    values[0][:] = 1.0
    batch = Series.from_arrays(values, observed).batch(torch.tensor([[0, 0]]), 20, 3)
    seen, members = batch.masks
    assert seen is batch.observed
    assert members.tolist() == [[True, True, False]]
    early = Series.from_arrays([np.ones((2, 30))], [np.arange(30) >= np.array([[10], [2]])])
    batch = early.batch(torch.tensor([[0, 0]]), 10, 3)
    assert batch.masks[1].tolist() == [[False, True]]  # nothing of the first was observed yet
    assert batch.last(5).complete is False
    assert early.batch(torch.tensor([[0, 0]]), 20, 3).last(5).masks == (None, None)


def test_the_target_past_the_end_is_unobserved():
    series = Series.from_arrays([np.ones((1, 5))], [np.ones((1, 5), bool)])
    batch = series.batch(torch.tensor([[0, 2]]), 2, 3)
    assert batch.target_observed.tolist() == [[[True, False, False]]]
    assert batch.targets.tolist() == [[[1.0, 0.0, 0.0]]]


def test_masked_entries_may_hold_anything():
    values, observed = random_systems([(3, 9)])
    other = [np.where(observed[0], values[0], np.inf)]
    index = torch.tensor([[0, 0], [0, 3]])
    one = Series.from_arrays(values, observed).batch(index, 3, 2)
    two = Series.from_arrays(other, observed).batch(index, 3, 2)
    assert torch.equal(one.values, two.values)
    assert torch.equal(one.targets, two.targets)


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    context=st.integers(1, 10),
    horizon=st.integers(1, 6),
    stride=st.integers(1, 5),
)
def test_every_window_lies_within_its_system_and_none_is_left_out(
    lengths, context, horizon, stride
):
    index = window_starts(lengths, context, horizon, stride=stride)
    expected = [
        (system, start)
        for system, length in enumerate(lengths)
        for start in range(length - context - horizon + 1)
        if (length - context - horizon - start) % stride == 0
    ]
    assert [tuple(row) for row in index.tolist()] == expected


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    context=st.integers(1, 10),
    horizon=st.integers(1, 6),
    share=st.floats(0.05, 0.5),
)
def test_targets_of_training_and_validation_never_overlap(lengths, context, horizon, share):
    train, validation = split_in_time(lengths, horizon, share, shortest_context=context)
    first = window_starts(lengths, context, horizon, targets=train)
    second = window_starts(lengths, context, horizon, targets=validation)

    def targets(index):
        return {(s, t + context + h) for s, t in index.tolist() for h in range(horizon)}

    assert not targets(first) & targets(second)
    for system, length in enumerate(lengths):
        early = [t for s, t in targets(first) if s == system]
        late = [t for s, t in targets(second) if s == system]
        assert not early or not late or max(early) < min(late)
        if length >= context + 2 * horizon and round(share * length) <= length - context - horizon:
            assert early
            assert late
        elif length >= context + horizon:
            assert early


def test_a_short_system_can_begin_before_its_first_time_stamp():
    index = window_starts([5], 8, 2, shortest_context=1)
    assert index.tolist() == [[0, -7], [0, -6], [0, -5]]
    series = Series.from_arrays([np.arange(5.0)[None]], [np.ones((1, 5), bool)])
    batch = series.batch(index[:1], 8, 2)
    assert batch.observed[0, 0].tolist() == [False] * 7 + [True]
    assert batch.targets[0, 0].tolist() == [1.0, 2.0]


def test_no_window_fits_a_system_that_is_too_short():
    assert window_starts([5], 8, 2).shape == (0, 2)


@settings(max_examples=60)
@given(variables=st.integers(1, 12), seed=st.integers(0, 1000))
def test_subsets_hold_distinct_variables_and_members_before_padding(variables, seed):
    members = torch.ones(6, variables, dtype=torch.bool)
    members[3:, variables // 2 + 1 :] = False
    generator = torch.Generator().manual_seed(seed)
    chosen = draw_variables(members, generator, keep_all=0.0)
    if variables == 1:
        assert chosen is None
        return
    assert 1 <= chosen.shape[1] < variables
    for row, there in zip(chosen, members, strict=True):
        assert len(set(row.tolist())) == len(row)
        assert int(there[row].sum()) == min(len(row), int(there.sum()))
    again = draw_variables(members, torch.Generator().manual_seed(seed), keep_all=0.0)
    assert torch.equal(chosen, again)


def test_halves_of_halves_are_drawn_and_sometimes_all():
    members = torch.ones(2, 8, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    drawn = [draw_variables(members, generator) for _ in range(300)]
    sizes = {8 if one is None else one.shape[1] for one in drawn}
    assert sizes == {8, 4, 2, 1}


def test_of_very_many_variables_a_step_sees_the_most_it_may_and_halves_of_these():
    members = torch.ones(2, 3000, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    drawn = [draw_variables(members, generator, most=256) for _ in range(300)]
    assert {one.shape[1] for one in drawn} == {2**k for k in range(9)}


def test_of_few_members_and_many_others_the_members_are_chosen():
    members = torch.zeros(2, 300, dtype=torch.bool)
    members[:, 100:150] = True
    chosen = choose_variables(members, 80, torch.Generator().manual_seed(0))
    assert chosen.shape == (2, 80)
    assert members.gather(1, chosen).sum(1).tolist() == [50, 50]
    assert choose_variables(members, 300, torch.Generator()) is None


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    context=st.integers(1, 8),
    data=st.data(),
)
def test_scores_of_overlapping_windows_are_averaged_over_time(lengths, context, data):
    stride = data.draw(st.integers(1, context))
    index = covering_starts(lengths, context, stride=stride).numpy()
    random = np.random.default_rng(0)
    scores = random.normal(size=(len(index), 2, context))
    got = scores_over_time(scores, index, lengths)
    for system, length in enumerate(lengths):
        for time in range(length):
            cover = [
                scores[w, :, time - start]
                for w, (s, start) in enumerate(index)
                if s == system and 0 <= time - start < context
            ]
            assert cover
            assert np.allclose(got[system][:, time], np.mean(cover, 0))
    flat = scores_over_time(scores[:, 0], index, lengths)
    assert all(np.allclose(one, both[0]) for one, both in zip(flat, got, strict=True))


@settings(max_examples=60)
@given(
    length=st.integers(1, 40),
    context=st.integers(1, 8),
    added=st.integers(0, 20),
    data=st.data(),
)
def test_rows_that_are_added_move_no_window_behind_the_last_context(length, context, added, data):
    stride = data.draw(st.integers(1, context))
    before, after = (
        covering_starts([steps], context, stride=stride)[:, 1].numpy()
        for steps in (length, length + added)
    )
    for time in range(length - context):
        one, other = (
            starts[(starts <= time) & (time < starts + context)] for starts in (before, after)
        )
        assert one.tolist() == other.tolist()
    assert (np.diff(after) > 0).all()
    assert after[-1] + context == length + added


def test_a_time_without_a_score_stays_nan():
    scores = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    (got,) = scores_over_time(scores, np.array([[0, 0], [0, 1]]), [3])
    assert np.array_equal(got, [np.nan, 1.0, 2.0], equal_nan=True)
    _, other = scores_over_time(scores, np.array([[0, 0], [0, 1]]), [3, 4])
    assert np.isnan(other).all()


def test_a_stride_beyond_the_window_is_refused():
    with pytest.raises(DataError, match="at most the window"):
        covering_starts([10], 3, stride=4)


def test_no_system_is_refused():
    with pytest.raises(DataError, match="at least one"):
        Series.from_arrays([], [])
