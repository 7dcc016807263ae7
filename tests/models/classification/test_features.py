"""What features of cases promise, whatever they are made of."""

from dataclasses import replace

import pytest
import torch

from orderless.data import Batch
from orderless.models.classification.channels import extent, fill_gaps, over_variables
from orderless.models.classification.convolutions import ConvolutionFeatures, _longest
from orderless.models.classification.flat import FlatFeatures

CASES, VARIABLES, TIME = 5, 4, 40
NAMES = 6


def draw(seed=0, dtype=torch.float64) -> Batch:
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(CASES, VARIABLES, TIME, generator=random, dtype=dtype).cumsum(-1)
    observed = torch.rand(values.shape, generator=random) > 0.1
    names = torch.stack([torch.randperm(NAMES, generator=random) for _ in range(CASES)])
    members = torch.ones(CASES, VARIABLES, dtype=torch.bool)
    return Batch(
        torch.where(observed, values, 0.0), observed, members, static=1 + names[:, :VARIABLES]
    )


def build(kind: str, names: int):
    if kind == "flat ridge":
        return FlatFeatures(names, TIME).double()
    features = ConvolutionFeatures(names, TIME, 8).double()
    features.draw(draw(1))
    return features


@pytest.fixture(params=["flat ridge", "convolutions"])
def kind(request):
    return request.param


@pytest.fixture(params=[0, NAMES], ids=["order-free", "by name"])
def features(kind, request):
    return build(kind, request.param)


def moved(batch: Batch, order: torch.Tensor) -> Batch:
    return replace(
        batch,
        values=batch.values[:, order],
        observed=batch.observed[:, order],
        members=batch.members[:, order],
        static=batch.static[:, order],
    )


def test_there_are_as_many_as_it_says(features):
    assert features(draw()).shape == (CASES, features.count)


def test_the_order_of_variables_changes_nothing(features):
    batch = draw()
    other = features(moved(batch, torch.tensor([2, 0, 3, 1])))
    torch.testing.assert_close(other, features(batch), rtol=0, atol=1e-10)


def test_names_change_something_only_where_they_are_known(kind):
    batch = draw()
    renamed = replace(batch, static=batch.static[:, [1, 0, 2, 3]])
    free, named = build(kind, 0), build(kind, NAMES)
    assert torch.equal(free(renamed), free(batch))
    assert not torch.allclose(named(renamed), named(batch), atol=1e-3)


def test_a_variable_with_an_unknown_name_changes_nothing_by_name(kind):
    batch, named = draw(), build(kind, NAMES)
    static = batch.static.clone()
    static[:, 1] = 0
    without = moved(batch, torch.tensor([0, 2, 3]))
    torch.testing.assert_close(named(replace(batch, static=static)), named(without))


def test_what_a_masked_entry_holds_does_not_matter(features):
    batch = draw()
    poisoned = replace(batch, values=torch.where(batch.observed, batch.values, torch.nan))
    assert torch.equal(features(poisoned), features(batch))


def test_padding_with_variables_changes_nothing(features):
    batch = draw()

    def wider(x, fill):
        return torch.cat((x, x.new_full((CASES, 3, *x.shape[2:]), fill)), 1)

    padded = Batch(
        wider(batch.values, torch.nan),
        wider(batch.observed, False),
        wider(batch.members, False),
        static=wider(batch.static, 0),
    )
    torch.testing.assert_close(features(padded), features(batch), rtol=0, atol=1e-10)


def test_a_case_alone_is_as_among_others(features):
    batch = draw()
    alone = Batch(batch.values[:1], batch.observed[:1], batch.members[:1], static=batch.static[:1])
    torch.testing.assert_close(features(alone), features(batch)[:1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("names", [0, NAMES])
@pytest.mark.parametrize(("front", "behind"), [(7, 0), (0, 9), (3, 5)])
def test_convolutions_do_not_see_padding_in_time(names, front, behind):
    features, batch = build("convolutions", names), draw()
    padded = replace(
        batch,
        values=torch.nn.functional.pad(batch.values, (front, behind), value=torch.nan),
        observed=torch.nn.functional.pad(batch.observed, (front, behind)),
    )
    torch.testing.assert_close(features(padded), features(batch), rtol=0, atol=1e-9)


def test_features_are_continuous(features):
    batch = draw()
    noise = 1e-7 * torch.randn(batch.values.shape, generator=torch.Generator().manual_seed(3))
    other = features(replace(batch, values=batch.values + noise))
    torch.testing.assert_close(other, features(batch), rtol=0, atol=2e-5)


def test_long_series_make_no_more_flat_features_than_there_may_be():
    features = FlatFeatures(30, 1001)
    batch = Batch(torch.ones(2, 30, 1001), torch.ones(2, 30, 1001, dtype=torch.bool), None)
    batch = replace(batch, members=batch.observed.any(-1), static=torch.arange(1, 31).expand(2, 30))
    assert features(batch).shape == (2, features.count)
    assert features.count <= 4200


def test_features_of_changes_are_those_that_a_level_does_not_move():
    features = build("convolutions", NAMES)
    batch = draw()
    raised = replace(batch, values=torch.where(batch.observed, batch.values + 5.0, 0.0))
    same = torch.isclose(features(raised), features(batch), atol=1e-8).all(0)
    changes = features.of_changes()
    assert same[changes].all()
    assert not same[~changes].all()


def test_gaps_are_bridged_by_straight_lines_and_ends_are_level():
    values = torch.tensor([[9.0, 1.0, 9.0, 9.0, 4.0, 9.0], [9.0] * 6])
    observed = torch.zeros(2, 6, dtype=torch.bool)
    observed[0, [1, 4]] = True
    filled = fill_gaps(values, observed)
    torch.testing.assert_close(filled, torch.tensor([[1.0, 1, 2, 3, 4, 4], [0.0] * 6]))


def test_a_case_reaches_from_its_first_reading_to_its_last():
    observed = torch.zeros(1, 2, 7, dtype=torch.bool)
    observed[0, 0, 2] = observed[0, 1, 5] = True
    batch = Batch(torch.zeros(1, 2, 7), observed, torch.ones(1, 2, dtype=torch.bool))
    assert extent(batch).tolist() == [[False, False, True, True, True, True, False]]


def test_summaries_over_variables_are_those_of_numpy():
    batch = draw()
    found = over_variables(batch.values, batch.observed)
    for case, time in ((0, 3), (2, 17), (4, 39)):
        seen = batch.values[case, batch.observed[case, :, time], time]
        quantiles = torch.quantile(seen, torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=seen.dtype))
        expected = torch.cat((torch.stack((seen.mean(), seen.std(correction=0))), quantiles))
        torch.testing.assert_close(found[case, :, time], expected)


def test_the_longest_stretch():
    above = torch.tensor([[1.0, 1, 0, 1, 1, 1, 0], [0.0] * 7, [1.0] * 7])
    assert _longest(above).tolist() == [3, 0, 7]


def test_channels_that_cancel_out_make_no_features_of_rounding():
    """Of one variable all summaries are the same, and a difference of two of them is rounding."""
    batch = draw(dtype=torch.float32)
    batch = replace(
        batch,
        values=batch.values[:, :1],
        observed=batch.observed[:, :1],
        members=batch.members[:, :1],
        static=batch.static[:, :1],
    )
    features = ConvolutionFeatures(0, TIME, 16)
    features.draw(batch)
    found = features(replace(batch, values=batch.values * (1 + 1e-7)))
    torch.testing.assert_close(found, features(batch), rtol=0, atol=1e-4)


def test_cases_of_one_time_step_have_features():
    batch = Batch(
        torch.arange(6.0).view(3, 2, 1),
        torch.ones(3, 2, 1, dtype=torch.bool),
        torch.ones(3, 2, dtype=torch.bool),
        static=torch.tensor([[1, 2]] * 3),
    )
    for names in (0, 2):
        features = ConvolutionFeatures(names, 1, 8)
        features.draw(batch)
        assert features(batch).isfinite().all()
