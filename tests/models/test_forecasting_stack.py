"""The stack ships the winner, by errors that no member was fitted on."""

import numpy as np
import pytest
import torch
from forecasting_cases import evaluator_of, stack_of

from orderless.errors import SettingError
from orderless.models import Stack
from orderless.models.forecasting import Naive, NetworkForecast, Ridge, fit
from orderless.models.forecasting.fit import CLOSED, check_members
from orderless.models.forecasting.quantiles import point_and_width, quantile_table, with_quantiles

RANDOM = np.random.default_rng(0)
TIME = np.arange(400)[:, None]
WALK = RANDOM.standard_normal((400, 3)).cumsum(0)
WALK /= WALK.std(0)
SEASON = np.sin(TIME * np.pi / 12 + np.arange(3)) + np.sign(np.sin(TIME * np.pi / 12))
SEASON += 0.2 * RANDOM.standard_normal((400, 3))
NETWORKS = ("network on ridge", "network")


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_a_random_walk_goes_to_naive(loss):
    """Beside a ridge around the mean; one around the last value learns nothing, and is naive."""
    found = stack_of(WALK, season=24, loss=loss, network={"center": "mean"})
    assert found.weights["naive"] > 0.9
    free = stack_of(WALK, season=24, loss=loss)
    evaluator, windows = evaluator_of(WALK, 24, 6)
    ahead, expected = (evaluator.errors(windows.calibration, one) for one in (free.stack, Naive(6)))
    assert ahead.mae <= 1.02 * expected.mae


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_a_strong_season_goes_to_what_sees_it(loss):
    found = stack_of(SEASON, season=24, context=48, loss=loss)
    assert found.weights["naive"] == 0.0
    assert "naive" not in [one.name for one in found.stack.members]
    # Without a ridge, to the seasonal naive forecast.
    baselines = stack_of(SEASON, ("naive", "seasonal naive"), season=24)
    assert baselines.weights == {"naive": 0.0, "seasonal naive": 1.0}


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_the_stack_is_about_as_good_as_its_best_member_or_better(loss):
    key = "mae" if loss == "l1" else "mse"
    for values in (WALK, SEASON, WALK + SEASON, RANDOM.standard_normal((400, 3))):
        found = stack_of(values, season=24, loss=loss)
        evaluator, windows = evaluator_of(values, 24, 6)
        own = getattr(evaluator.errors(windows.calibration, found.stack), key)
        assert own <= 1.02 * min(getattr(one, key) for one in found.errors.values())


def test_every_member_that_was_tried_has_an_error_and_a_weight():
    found = stack_of(SEASON, (*CLOSED, *NETWORKS), season=24)
    assert set(found.errors) == set(found.weights)
    assert {"naive", "seasonal naive", "ridge 24", *NETWORKS} <= set(found.errors)
    assert set(found.outcomes) == set(NETWORKS)
    kept = {one.name: w for one, w in zip(found.stack.members, found.stack.weights, strict=True)}
    assert {name: w for name, w in found.weights.items() if w > 0} == kept
    assert sum(kept.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [*(one for one in CLOSED if one != "factor ridge"), *NETWORKS])
def test_a_member_that_is_asked_for_alone_is_the_stack(kind):
    found = stack_of(WALK + SEASON, (kind,), season=24)
    (member,) = found.stack.members
    assert found.weights == {member.name: 1.0}
    assert member.name.startswith(kind)
    evaluator, windows = evaluator_of(WALK + SEASON, 24, 6)
    (batch, *_) = evaluator.batches(windows.calibration)
    assert torch.equal(found.stack(batch), member(batch))


def test_a_coupled_ridge_of_a_lone_variable_is_a_ridge():
    found = stack_of(SEASON[:, :1], ("coupled ridge",))
    assert found.weights == {"ridge 24": 1.0}


def test_with_a_season_of_one_step_seasonal_naive_is_naive():
    assert stack_of(WALK, ("seasonal naive",), season=1).weights == {"naive": 1.0}
    assert "seasonal naive" not in stack_of(WALK, CLOSED, season=1).weights


def test_a_network_that_cannot_be_is_refused_where_none_is_asked_for():
    with pytest.raises(SettingError, match="chanels"):
        stack_of(WALK, ("naive",), network={"chanels": 3})
    with pytest.raises(SettingError, match="steps"):
        stack_of(WALK, ("naive",), training={"steps": 3})


@pytest.mark.parametrize("quantiles", [(), (0.1, 0.5, 0.9)])
@pytest.mark.parametrize("members", [CLOSED, ("naive", *NETWORKS), ("network",)])
def test_data_that_never_changes_tells_no_members_apart_and_stays(members, quantiles):
    loss = "quantile" if quantiles else "l1"
    found = stack_of(np.full((120, 2), 3.0), members, loss=loss, quantiles=quantiles)
    assert sum(found.stack.weights) == pytest.approx(1.0)
    evaluator, windows = evaluator_of(np.full((120, 2), 3.0), 24, 6)
    (batch, *_) = evaluator.batches(windows.calibration)
    point, width = point_and_width(found.stack, found.table, batch)
    torch.testing.assert_close(point, torch.full_like(point, 3.0))
    assert width.isfinite().all()


def test_members_of_weight_zero_are_neither_saved_nor_run(monkeypatch):
    found = stack_of(SEASON, (*CLOSED, *NETWORKS), season=24, context=48)
    left_out = {name for name, weight in found.weights.items() if weight == 0}
    assert {"naive", "network"} <= left_out
    facts, tensors = found.stack.state()
    assert not left_out & {one["name"] for one in facts}
    assert {int(name.split("/")[1]) for name in tensors} <= set(range(len(facts)))
    evaluator, windows = evaluator_of(SEASON, 48, 6)
    (batch, *_) = evaluator.batches(windows.calibration)
    ran = []
    for kind in (Naive, Ridge, NetworkForecast):
        call = kind.__call__

        def remember(member, batch, call=call):
            ran.append(member.name)
            return call(member, batch)

        monkeypatch.setattr(kind, "__call__", remember)
    found.stack(batch)
    assert ran == [one.name for one in found.stack.members]
    assert not left_out & set(ran)


def test_a_network_on_a_ridge_that_learned_nothing_is_left_out():
    """Its forecast is that of the ridge, which is a member already; where it is not, it stays."""
    hopeless = {"learning_rate": 100.0}
    members = ("naive", "ridge", "network on ridge")
    found = stack_of(SEASON, members, context=48, refit=False, training=hopeless)
    assert found.outcomes["network on ridge"].best_epoch == 0
    assert found.weights["network on ridge"] == 0.0
    assert found.errors["network on ridge"] == found.errors["ridge 48"]
    assert found.weights["ridge 48"] > 0.9
    alone = stack_of(SEASON, ("naive", "network on ridge"), context=48, training=hopeless)
    assert alone.weights["network on ridge"] > 0.9


def test_networks_take_from_all_closed_forms_alike():
    both, network = ("naive", "seasonal naive"), {"center": "last"}
    closed = stack_of(WALK + SEASON, both, season=24)
    found = stack_of(WALK + SEASON, (*both, "network"), season=24, network=network)
    assert 0.1 < found.weights["network"] < 0.9
    assert found.weights["naive"] / found.weights["seasonal naive"] == pytest.approx(
        closed.weights["naive"] / closed.weights["seasonal naive"]
    )


@pytest.mark.parametrize("members", [CLOSED, ("network",), (*CLOSED, *NETWORKS)])
def test_a_stack_with_quantiles_has_finite_points_and_widths(members):
    levels = (0.1, 0.5, 0.9)
    found = stack_of(SEASON, members, season=24, loss="quantile", quantiles=levels)
    evaluator, windows = evaluator_of(SEASON, 24, 6)
    (batch, *_) = evaluator.batches(windows.calibration)
    point, width = point_and_width(found.stack, found.table, batch)
    assert point.isfinite().all()
    assert width.isfinite().all()
    assert (width > 0).all()
    torch.testing.assert_close(point, found.stack(batch))
    if members == ("network",):
        quantiles = found.stack.members[0].forecast(batch).quantiles
        torch.testing.assert_close(width, quantiles[..., -1] - quantiles[..., 0])


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_networks_are_weighed_by_their_quantiles_where_these_are_trained(unit, monkeypatch):
    """The point is the same, and good; it earns a weight where the quantiles are good too."""
    train = fit._train

    def with_quantiles_of_this_unit(*given):
        network, outcome = train(*given)
        network.network.around.weight.zero_()
        network.network.around.bias.mul_(unit)
        return network, outcome

    monkeypatch.setattr(fit, "_train", with_quantiles_of_this_unit)
    found = stack_of(
        SEASON,
        ("naive", "network on ridge"),
        context=48,
        loss="quantile",
        quantiles=(0.1, 0.5, 0.9),
        training={"learning_rate": 1e-9},
    )
    assert (found.weights["network on ridge"] > 0.5) == (unit == 1.0)


def test_quantiles_of_errors_are_those_of_each_step():
    errors = torch.arange(300.0)
    steps = torch.arange(300) % 3
    steps[steps == 2] = 1
    table = quantile_table(errors, steps, 3, (0.25, 0.5))
    for step in (0, 1):
        torch.testing.assert_close(
            table[step], errors[steps == step].quantile(torch.tensor([0.25, 0.5]))
        )
    torch.testing.assert_close(table[2], errors.quantile(torch.tensor([0.25, 0.5])))  # has none


def test_quantiles_around_closed_forms_lie_in_widths_off_the_point():
    evaluator, windows = evaluator_of(SEASON, 24, 6)
    (batch, *_) = evaluator.batches(windows.calibration)
    table = torch.tensor([[-1.0, 0.0, 2.0]]).expand(6, 3)
    naive = Stack((Naive(6),), (1.0,))
    low, middle, high = with_quantiles(naive, table, batch).unbind(-1)
    point, width = point_and_width(naive, None, batch)
    torch.testing.assert_close(middle, point)
    torch.testing.assert_close(high, point + 2 * width)
    torch.testing.assert_close(low, point - width)


def test_members_are_named():
    assert check_members(None) == (*CLOSED, *NETWORKS)
    assert check_members("ridge") == ("ridge",)
    assert check_members(["ridge", "naive", "ridge"]) == ("ridge", "naive")
    for wrong in ("rigde", [], ["naive", 3]):
        with pytest.raises(SettingError, match="members"):
            check_members(wrong)
