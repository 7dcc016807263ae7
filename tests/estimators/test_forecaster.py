import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless import Forecaster, load
from orderless.data.simulate import plant
from orderless.errors import (
    DataError,
    ModelFileError,
    NotFittedError,
    SettingError,
    VariableMismatch,
)
from orderless.estimators.intervals import FEWEST_STEPS
from orderless.models import Stack
from orderless.models.forecasting import NetworkForecast, fit
from orderless.models.forecasting.fit import CLOSED

VALUES, NAMES = plant(0, sensors=10, steps=400)
FRAME = pd.DataFrame(VALUES, columns=NAMES).assign(
    time=pd.date_range("2024-01-01", periods=400, freq="h")
)
WAVES = np.sin(np.arange(300)[:, None] / 4 + np.arange(3))
TINY = {"channels": 8, "states": 2, "stride": 6, "patch": 12, "branches": ["long"]}
BRIEF = {"network": TINY, "training": {"learning_rate": 0.01, "steps_per_epoch": 8}}


def quick(**settings) -> Forecaster:
    """Of closed forms alone, unless other members are asked for."""
    base = {"horizon": 6, "context": 48, "members": CLOSED, "epochs": 1, "verbose": False}
    return Forecaster(**(base | settings))


@pytest.fixture(scope="module")
def trained() -> Forecaster:
    """A model in which every member has a say, the networks with weights that say something."""

    def keep_all(members, weights):
        return Stack(tuple(members), (1 / len(members),) * len(members))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "keep_earners", keep_all)
        model = quick(members=None, **BRIEF).fit(FRAME[[*NAMES[:5], "time"]])
    for member in model.stack_.members:
        if isinstance(member, NetworkForecast):
            member.network.deep.weight.normal_(generator=torch.Generator().manual_seed(0))
    return model


def test_every_kind_of_member_is_in_the_model_of_these_tests(trained):
    kinds = {name.rstrip(" 0123456789") for name, weight in trained.weights_.items() if weight > 0}
    assert kinds == {*CLOSED, "network on ridge", "network"}


def test_the_order_of_the_columns_changes_nothing_to_the_bit(trained):
    forecast = trained.predict(FRAME, level=[80])
    shuffled = trained.predict(FRAME[["time", *NAMES[::-1]]], level=[80])
    pd.testing.assert_frame_equal(forecast, shuffled[forecast.columns], check_exact=True)


def test_more_fewer_and_dead_variables_are_forecast(trained):
    assert trained.variables_in_ == tuple(NAMES[:5])
    many = trained.predict(FRAME)
    assert many[NAMES].notna().all(axis=None)
    few = trained.predict(FRAME[["time", *NAMES[3:5]]])
    assert list(few.columns) == ["time", *NAMES[3:5]]
    dead = trained.predict(FRAME.assign(sensor_1=np.nan))
    assert dead["sensor_1"].isna().all()
    assert dead.drop(columns="sensor_1").notna().all(axis=None)
    without = trained.predict(FRAME.drop(columns="sensor_1"))
    # Masks take another path through a network: the same sums, rounded in another order.
    pd.testing.assert_frame_equal(dead.drop(columns="sensor_1"), without, rtol=1e-5, atol=1e-5)


def test_a_variable_hears_the_others(trained):
    alone = trained.predict(FRAME[["time", NAMES[0]]])[NAMES[0]]
    assert not np.allclose(alone, trained.predict(FRAME)[NAMES[0]])


def test_strict_variables_are_an_error_that_names_them():
    model = quick(strict_variables=True).fit(FRAME[["time", *NAMES[:3]]])
    model.predict(FRAME[["time", *NAMES[2::-1]]])
    with pytest.raises(VariableMismatch, match=r"sensor_3.* new.*sensor_0.* missing"):
        model.predict(FRAME[["time", *NAMES[1:4]]])


def test_the_forecast_continues_the_time_stamps_and_keeps_the_form(trained):
    forecast = trained.predict(FRAME)
    assert forecast["time"].iloc[0] == FRAME["time"].iloc[-1] + pd.Timedelta(hours=1)
    assert len(forecast) == 6
    polars = trained.predict(pl.from_pandas(FRAME))
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars["sensor_0"], forecast["sensor_0"])
    array = trained.predict(VALUES)
    assert array.shape == (6, 10)


def test_several_systems_are_independent(trained):
    one, two = VALUES[:200, :4], VALUES[200:, 2:8]
    both = trained.predict([one, two])
    np.testing.assert_allclose(both[0], trained.predict(one), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(both[1], trained.predict(two), rtol=1e-5, atol=1e-5)


def test_a_short_history_is_enough(trained):
    for steps in (1, 2, 20):
        assert np.isfinite(trained.predict(VALUES[:steps])).all()


def test_intervals_widen_with_the_level_and_cover_their_share():
    model = quick().fit(VALUES[:300])
    forecast = model.predict(VALUES[:300], level=[50, 95], quantiles=[0.5])
    assert set(forecast) == {"", "lo-50", "hi-50", "lo-95", "hi-95", "q0.5"}
    assert (forecast["lo-95"] <= forecast["lo-50"]).all()
    assert (forecast["hi-50"] <= forecast["hi-95"]).all()
    result = model.backtest(VALUES[250:], windows=90, stride=1, level=[80])
    assert 0.65 < result.scores["this model"]["coverage-80"] < 0.95


def test_few_held_out_errors_give_wide_intervals_and_a_warning(tmp_path):
    hits = []
    for seed in range(10):
        noise = np.random.default_rng(seed).standard_normal(72)
        model = quick(horizon=12, context=15).fit(noise[:60])
        assert model.error_table_.count == 12
        with pytest.warns(UserWarning, match="12 held-out"):
            forecast = model.predict(noise[:60], level=95)
        assert (forecast["lo-95"] < forecast[""]).all()
        assert (forecast[""] < forecast["hi-95"]).all()
        hits.append((forecast["lo-95"] <= noise[60:]) & (noise[60:] <= forecast["hi-95"]))
    assert np.mean(hits) > 0.9
    model.save(tmp_path)
    with pytest.warns(UserWarning, match="12 held-out"):
        again = load(tmp_path).predict(noise[:60], level=95)
    np.testing.assert_array_equal(again["hi-95"], forecast["hi-95"])


def test_a_step_that_always_fell_on_a_day_off_has_an_interval():
    values = np.random.default_rng(0).standard_normal((70, 8)).cumsum(0)
    frame = pd.DataFrame(values, pd.bdate_range("2026-01-05", periods=70), list("abcdefgh"))
    forecast = quick(horizon=20, context=20).fit(frame).predict(frame[:-1], level=80)
    assert (forecast["a-hi-80"] > forecast["a-lo-80"]).all()


def test_constants_stay_and_make_no_other_interval_narrower(tmp_path):
    random = np.random.default_rng(0)
    noise = random.standard_normal((600, 2))
    levels = (0.0, 5.3, 1e-9, -1e9)
    constant = {f"constant {i}": np.full(600, level) for i, level in enumerate(levels)}
    data = {"a": noise[:, 0], "b": noise[:, 1]} | constant
    model = quick().fit({name: column[:400] for name, column in data.items()})
    past = {name: column[:500] for name, column in data.items()}
    model.save(tmp_path / "model")
    for forecast in (one.predict(past, level=80) for one in (model, load(tmp_path / "model"))):
        for name, column in constant.items():
            for ending in ("", "-lo-80", "-hi-80"):
                assert (forecast[name + ending] == column[0]).all()
        assert (forecast["a-hi-80"] - forecast["a-lo-80"] > 2).all()
    result = model.backtest({"a": data["a"], "b": data["b"]}, windows=30, level=80)
    assert 0.7 < result.scores["this model"]["coverage-80"] < 0.9
    changed = past | {"constant 1": np.where(np.arange(500) < 499, 5.3, 5.4)}
    moving = model.predict(changed, level=80)
    assert (moving["constant 1-hi-80"] - moving["constant 1-lo-80"] > 0.1).all()


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_a_constant_of_fit_that_moves_is_forecast_alike_in_every_unit(unit):
    def outcome(unit):
        idle = np.where(np.arange(400) < 330, 5.0, VALUES[:, 0] + 5.0)
        data = {"idle": idle * unit, "new": np.full(400, 7.0 * unit), "b": VALUES[:, 1]}
        model = quick().fit({name: data[name][:320] for name in ("idle", "b")})
        forecast = model.predict(data, level=80)
        # Origins on both sides of the first move.
        scores = model.backtest(data, windows=80, stride=1).scores["this model"]
        ends = ("", "-lo-80", "-hi-80")
        return {k + e: forecast[k + e] / unit for k in ("idle", "new") for e in ends}, scores

    (plain, scores), (found, others) = outcome(1.0), outcome(unit)
    for name, expected in plain.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)
    assert others["mae"] == pytest.approx(scores["mae"], rel=1e-5)
    assert (plain["idle-hi-80"] - plain["idle-lo-80"] > 1).all()
    for ending in ("", "-lo-80", "-hi-80"):
        np.testing.assert_allclose(plain["new" + ending], 7.0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("level", [0.0, 7.0])
def test_a_new_sensor_with_a_single_reading_stays_there_and_has_no_interval(unit, level):
    data = {"a": VALUES[:, 0] * unit, "b": VALUES[:, 1]}
    model = quick().fit(data)
    new = np.full(400, np.nan)
    new[390] = level * unit
    forecast = model.predict(data | {"new": new}, level=80)
    assert (forecast["new"] == level * unit).all()
    assert np.isnan(forecast["new-lo-80"]).all()
    assert np.isnan(forecast["new-hi-80"]).all()
    # One that `fit` saw has an interval, and one whose other readings lie before the context.
    early = np.where(np.arange(400) < 200, VALUES[:, 2] * unit, new)
    once = np.where(np.arange(400) == 390, data["a"], np.nan)
    seen = model.predict({"a": once, "b": data["b"], "early": early}, level=80)
    for name in ("a", "early"):
        assert (seen[f"{name}-hi-80"] > seen[f"{name}-lo-80"]).all()


@pytest.mark.parametrize("season", [24, 60])
def test_a_sensor_whose_unit_nothing_tells_is_nobodys_score(season):
    model = quick(season=season).fit({"a": VALUES[:, 0], "b": VALUES[:, 1]})
    data = {"a": VALUES[:, 0], "b": VALUES[:, 1]}
    # Its second reading comes after the only origin.
    new = np.where(np.isin(np.arange(400), [380, 396]), 1e9 * np.arange(400), np.nan)
    silent = np.where(np.arange(400) == 380, 0.0, np.nan)
    result, plain = (
        model.backtest(data | {"new": one}, windows=1, level=80) for one in (new, silent)
    )
    assert (result.forecast["new"] == 380e9).all()
    assert result.scores == plain.scores


def test_constants_first_seen_in_the_held_out_part_make_no_interval_narrower():
    frame = FRAME[NAMES[:4]]
    late = {f"late {i}": np.where(np.arange(400) >= 330, 3.0 + i, np.nan) for i in range(12)}
    plain = quick().fit(frame)
    model = quick().fit(frame.assign(**late))
    assert model.error_table_.count == plain.error_table_.count
    width, expected = (
        one.error_table_.at(0.9) - one.error_table_.at(0.1) for one in (model, plain)
    )
    assert (width > 0.7 * expected).all()


def test_what_changed_late_in_the_data_of_fit_may_change_again():
    data = {"a": WAVES[:, 0], "valve": np.where(np.arange(300) // 20 == 13, 20.0, 0.0)}
    forecast = quick(context=24).fit(data).predict(data, level=95)
    assert (forecast["valve-hi-95"] > forecast["valve-lo-95"]).all()


def test_groups_on_different_levels_are_forecast_like_one():
    alone = quick().fit(WAVES).predict(WAVES)
    levels = quick().fit([WAVES, WAVES + 1e9, WAVES - 1e5])
    one, other = levels.predict([WAVES, WAVES + 1e9])
    np.testing.assert_allclose(other - 1e9, one, atol=1e-6)  # of 1e9, 1e-7 is left
    np.testing.assert_allclose(one, alone, atol=0.02)  # weighed on other windows


def width_of_80(forecast, name):
    return (forecast[f"{name}-hi-80"] - forecast[f"{name}-lo-80"]).mean()


def returning(steps, seed):
    """A series that returns to 5 from a deviation of 1.7 or so."""
    noise = np.random.default_rng(seed).standard_normal(steps)
    return np.array(
        [5 + sum(0.8**k * noise[max(0, t - k)] for k in range(20)) for t in range(steps)]
    )


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 1, 100, 100), (1, 1e4)])
def test_intervals_of_a_group_are_of_its_size(sizes):
    groups = [size * returning(500, seed)[:, None] for seed, size in enumerate(sizes)]
    model = quick(context=24).fit([one[:300] for one in groups])
    for size, group in zip(sizes, groups, strict=True):
        result = model.backtest([group], windows=60, stride=3, level=80)
        assert 0.65 < result.scores["this model"]["coverage-80"] < 0.95
        ends = model.predict([group], level=80)
        assert 2 < np.mean(ends["hi-80"][0] - ends["lo-80"][0]) / size < 8


def test_one_impossible_reading_in_fit_makes_no_interval_wider():
    frame = FRAME[NAMES[:4]]
    spoilt = frame.copy()
    spoilt.loc[100, NAMES[0]] = -9999.0
    clean = quick().fit(frame)
    with pytest.warns(UserWarning, match="sensor_0.*100"):
        model = quick().fit(spoilt)
    expected, found = clean.predict(frame, level=80), model.predict(frame, level=80)
    for name in NAMES[:4]:  # one of the two has learned from it: 4 %
        assert width_of_80(found, name) == pytest.approx(width_of_80(expected, name), rel=0.1)
    # Nor that of a new sensor, whose history has it.
    new = frame.rename(columns={NAMES[0]: "new"})
    before = new.copy()
    before.loc[100, "new"] = -9999.0
    expected, found = clean.predict(new, level=80), clean.predict(before, level=80)
    assert width_of_80(found, "new") == pytest.approx(width_of_80(expected, "new"), rel=0.01)


def test_a_sensor_that_turns_wild_at_the_end_of_fit_changes_nothing_for_the_others():
    frame = FRAME[NAMES[:5]]
    broken = frame.copy()
    noise = np.random.default_rng(0).standard_normal(80)
    broken.loc[320:, NAMES[0]] += 100 * frame[NAMES[0]].std() * noise
    clean = quick().fit(frame)
    with pytest.warns(UserWarning, match=NAMES[0]):
        model = quick().fit(broken)
    error, expected = (
        one.backtest(frame, windows=10).scores["this model"]["mae"] for one in (model, clean)
    )
    assert error < 1.05 * expected


@pytest.mark.filterwarnings("ignore:These data are not what was fitted")
def test_intervals_follow_a_variable_that_comes_in_a_larger_unit():
    frame = FRAME[NAMES[:4]]
    model = quick().fit(frame[:300])
    expected = width_of_80(model.predict(frame, level=80), NAMES[0])
    for unit in (1e2, 1e4, 1e7, 1e12):
        found = width_of_80(model.predict(frame * unit, level=80), NAMES[0]) / unit
        # The baseline scale of `fit` has its small share in the width, and none in a larger unit.
        assert found == pytest.approx(expected, rel=0.1)
        scores = model.backtest(frame * unit, windows=16, level=80).scores["this model"]
        assert scores["coverage-80"] > 0.6


def test_a_context_that_is_constant_or_has_few_readings_has_an_interval():
    data = {name: FRAME[name].to_numpy() for name in NAMES[:4]}
    model = quick().fit(data)
    name, last = NAMES[0], np.arange(400) >= 352
    expected = width_of_80(model.predict(data, level=80), name)
    constant = data | {name: np.where(last, 1.0, data[name])}
    assert 0.1 * expected < width_of_80(model.predict(constant, level=80), name) < expected
    for readings in (1, 2, 5):
        seen = ~last | (np.arange(400) >= 400 - readings)
        few = data | {name: np.where(seen, data[name], np.nan)}
        assert width_of_80(model.predict(few, level=80), name) > 0.5 * expected


def test_constants_do_not_make_the_reported_errors_smaller():
    moving = {"a": VALUES[:, 0], "b": VALUES[:, 1]}
    constant = {f"constant {i}": np.full(400, float(i)) for i in range(18)}
    plain, model = quick().fit(moving), quick().fit(moving | constant)
    for name in ("naive", "seasonal naive", "ridge 48"):
        assert model.errors_[name] == pytest.approx(plain.errors_[name], rel=1e-4)
    assert model.errors_["this model"]["mae"] > 0.8 * plain.errors_["this model"]["mae"]
    assert quick().fit(constant).errors_["this model"]["mae"] == 0.0


def test_what_has_an_empty_context_is_not_a_reported_error():
    # Silent but for the last six steps, of which no window knows anything.
    late = np.where(np.arange(400) >= 394, 1e3 + np.arange(400.0), np.nan)
    plain = quick().fit({"a": VALUES[:, 0], "b": VALUES[:, 1]})
    model = quick().fit({"a": VALUES[:, 0], "b": VALUES[:, 1], "late": late})
    for name in ("naive", "ridge 48"):
        assert model.errors_[name]["mae"] == pytest.approx(plain.errors_[name]["mae"], rel=1e-3)


def test_trained_quantiles_widen_intervals_where_the_past_was_rough(tmp_path):
    random = np.random.default_rng(0)
    rough = np.repeat(random.random((60, 6)) < 0.5, 20, axis=0)  # a stretch of 20 steps is, or not
    values = random.standard_normal(rough.shape) * np.where(rough, 3.0, 0.3)
    training = {"learning_rate": 0.01, "batch_size": 16}
    model = quick(loss="quantile", members="network", epochs=2, network=TINY, training=training)
    model.fit(values[:900])
    test = values[900:]
    result = model.backtest(test, windows=200, stride=1, level=[80])
    assert 0.7 < result.scores["this model"]["coverage-80"] < 0.9
    ends = model.predict([values[: at + 12] for at in range(0, 900, 20)], level=[80])
    width = np.stack([one[0] for one in ends["hi-80"]]) - np.stack(
        [one[0] for one in ends["lo-80"]]
    )
    was_rough = np.stack([rough[at] for at in range(0, 900, 20)])
    assert width[was_rough].mean() > 1.3 * width[~was_rough].mean()
    model.save(tmp_path)
    again = load(tmp_path).predict(test, level=[80])
    for ending, expected in model.predict(test, level=[80]).items():
        np.testing.assert_array_equal(again[ending], expected)


@pytest.mark.parametrize("members", [CLOSED, ("ridge", "network")])
def test_intervals_of_a_stack_with_quantiles_cover_and_are_saved(members, tmp_path):
    model = quick(loss="quantile", members=members, **BRIEF).fit(VALUES[:300])
    result = model.backtest(VALUES[250:], windows=90, stride=1, level=[80])
    assert 0.65 < result.scores["this model"]["coverage-80"] < 0.95
    model.save(tmp_path)
    again = load(tmp_path).predict(VALUES, level=[80])
    for ending, expected in model.predict(VALUES, level=[80]).items():
        np.testing.assert_array_equal(again[ending], expected)
    assert (again["hi-80"] > again["lo-80"]).all()


@pytest.mark.filterwarnings("ignore:These data are not what was fitted")
def test_a_backtest_forecasts_from_the_past_only(trained):
    result = trained.backtest(FRAME, windows=3, level=[80])
    assert len(result.forecast) == 3 * 6
    assert result.forecast["cutoff"].nunique() == 3
    changed = FRAME.copy()
    changed.loc[394:, NAMES] += 1000.0
    again = trained.backtest(changed, windows=3)
    pd.testing.assert_frame_equal(
        result.forecast[["cutoff", *NAMES]][:18], again.forecast[["cutoff", *NAMES]][:18]
    )
    assert again.scores["this model"]["mae"] > 10
    with pytest.raises(DataError, match="fewer windows"):
        trained.backtest(FRAME, windows=1000)


def test_the_stack_beats_naive_on_the_plant_and_ships_what_it_reports():
    model = quick().fit(VALUES)
    assert model.errors_["this model"]["mae"] < 0.9 * model.errors_["naive"]["mae"]
    best = min(error["mae"] for name, error in model.errors_.items() if name != "this model")
    assert model.errors_["this model"]["mae"] < 1.01 * best
    assert set(model.weights_) == set(model.errors_) - {"this model"}
    shipped = dict(
        zip((one.name for one in model.stack_.members), model.stack_.weights, strict=True)
    )
    assert {name: weight for name, weight in model.weights_.items() if weight} == shipped


def test_without_a_context_members_have_contexts_of_their_own():
    model = quick(context=None).fit(VALUES[:300])
    assert model.context_ == 80
    assert {name for name in model.errors_ if name.startswith("ridge")} == {
        "ridge 11",
        "ridge 37",
        "ridge 80",
    }
    assert np.isfinite(model.predict(VALUES[:5])).all()


def test_a_wandering_series_goes_on_from_its_last_value_and_a_returning_one_from_its_mean():
    steps = np.random.default_rng(1).standard_normal((160, 3))

    def center(values, **settings):
        model = quick(members="ridge", **settings).fit(values)
        (ridge,) = model.stack_.members
        return ridge.linear.center

    assert center(steps.cumsum(0)) == "last"
    assert center(steps) == "mean"
    assert center(steps, network={"center": "none"}) == "none"
    errors = quick().fit(steps.cumsum(0)).errors_
    assert errors["this model"]["mae"] < 1.02 * errors["naive"]["mae"]


def test_fit_says_what_it_inferred_and_what_each_member_earned(capsys):
    model = quick(verbose=True).fit(FRAME)
    said = capsys.readouterr().out
    for words in ("10 variables", "1 hour", "0.0 % missing", "to train", "naive", "ridge"):
        assert words in said
    for name in model.weights_:
        (line,) = (row for row in model.report_ if row.startswith(f"{name} "))
        assert f"{model.weights_[name]:.2f}" in line
        assert f"{model.errors_[name]['mae']:.4f}" in line
    quick(verbose=False).fit(FRAME)
    assert capsys.readouterr().out == ""


def test_the_same_seed_gives_the_same_forecast():
    forecasts = [
        quick(members="network", random_state=seed, **BRIEF).fit(WAVES).predict(WAVES)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(forecasts[0], forecasts[1])
    assert not np.array_equal(forecasts[0], forecasts[2])


def test_fit_does_not_depend_on_the_order_of_the_columns():
    frame = pd.DataFrame(np.column_stack([WAVES, 2 * WAVES[:, 0]]), columns=list("dbca"))
    one, two = (
        quick(members=("naive", "coupled ridge", "network"), **BRIEF).fit(frame[list(order)])
        for order in ("dbca", "abcd")
    )
    assert one.weights_ == two.weights_
    pd.testing.assert_frame_equal(
        one.predict(frame)[list("abcd")], two.predict(frame[list("abcd")]), check_exact=True
    )


def test_a_saved_model_gives_the_same_forecast_to_the_bit(trained, tmp_path):
    trained.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    pd.testing.assert_frame_equal(
        loaded.predict(FRAME, level=[80]), trained.predict(FRAME, level=[80]), check_exact=True
    )
    assert loaded.get_params() == trained.get_params()
    assert loaded.errors_ == trained.errors_
    card, config, weights = sorted(p.name for p in (tmp_path / "model").iterdir())
    assert (card, config, weights[:6]) == ("README.md", "config.json", "model-")


def test_a_stopped_fit_is_continued(tmp_path):
    settings = BRIEF | {"members": ("ridge", "network on ridge", "network"), "epochs": 2}
    straight = quick(**settings).fit(VALUES[:200, :3])
    first = quick(**settings).fit(VALUES[:200, :3], checkpoint=tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"network-on-ridge", "network"}
    again = quick(**settings).fit(VALUES[:200, :3], checkpoint=tmp_path)
    for model in (first, again):
        np.testing.assert_array_equal(model.predict(VALUES), straight.predict(VALUES))
        assert model.weights_ == straight.weights_
    with pytest.raises(ModelFileError, match="another run"):
        quick(**settings).fit(VALUES[:201, :3], checkpoint=tmp_path)


def test_a_model_that_is_not_fitted_says_so():
    for verb in ("predict", "backtest"):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(Forecaster(), verb)(FRAME)
    with pytest.raises(NotFittedError):
        Forecaster().save("nowhere")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"context": 0}, "context"),
        ({"loss": "l3"}, "loss"),
        ({"preset": "huge"}, "preset"),
        ({"network": {"widht": 3}}, "widht"),
        ({"training": {"lr": 3}, "members": "network"}, "lr"),
        ({"members": "rigde"}, "members"),
        ({"epochs": 0}, "epochs"),
        ({"season": 0}, "season"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"random_state": "x"}, "random_state"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_a_wrong_setting_is_named(setting, words):
    with pytest.raises(SettingError, match=words):
        quick(**setting).fit(VALUES[:100])


def test_too_little_data_is_an_error_in_words():
    for rows in (1, 6):
        with pytest.raises(DataError, match=f"{rows} time steps.* at least 7"):
            quick().fit(VALUES[:rows])
    with pytest.raises(DataError, match="observed"):
        quick().fit(np.full((100, 3), np.nan))


def test_the_least_data_that_works():
    model = quick().fit(VALUES[:7, :2])
    assert model.predict(VALUES[:3, :2]).shape == (6, 2)


def test_the_report_is_saved_as_plain_json(trained):
    facts, _ = trained._fitted_state()
    json.dumps(facts, allow_nan=False)


def test_a_misspelt_argument_is_named(trained):
    with pytest.raises(SettingError, match="levels"):
        trained.predict(FRAME, levels=[80])


@pytest.mark.parametrize("silent", [slice(0, 300), slice(250, None)], ids=["start", "end"])
def test_a_part_without_a_single_reading_is_an_error_and_no_interval_of_no_width(silent):
    values = VALUES[:, :2].copy()
    values[silent] = np.nan
    with pytest.raises(DataError, match="No value is observed"):
        quick(validation_share=0.3).fit(values)


def test_a_parameter_changed_after_fit_waits_for_the_next_fit():
    model = quick().fit(VALUES[:, :2]).set_params(horizon=9)
    assert model.backtest(VALUES[:, :2], windows=2).forecast.shape == (2, 6, 2)


def test_a_season_longer_than_the_context_is_not_forgotten():
    values = np.tile(np.arange(24.0), 20)[:, None]
    model = quick(context=12, season=24).fit(values)
    assert model.errors_["seasonal naive"]["mae"] < 1e-6 < model.errors_["naive"]["mae"]
    scores = model.backtest(values, windows=5).scores
    assert scores["seasonal naive"]["mae"] < 1e-6 < scores["naive"]["mae"]


def test_a_glitch_before_the_context_has_no_influence(trained):
    glitch = FRAME.copy()
    glitch.loc[5, NAMES[0]] = 1e12
    known = ["time", *NAMES[:5]]
    pd.testing.assert_frame_equal(trained.predict(glitch[known]), trained.predict(FRAME[known]))
    # Unseen sensors are regressed on all of the history, clipped.
    found, expected = trained.predict(glitch)[NAMES], trained.predict(FRAME)[NAMES]
    assert np.abs(found - expected).to_numpy().max() < 0.02


@pytest.mark.filterwarnings("ignore:These data are not what was fitted")
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_a_season_longer_than_the_context_is_repeated_in_the_units_of_the_truth(shift):
    time = np.arange(600)
    values = 3 * np.sin(time[:, None] * np.pi / 24 + np.arange(3))
    model = quick(horizon=12, context=20, season=48).fit(values[:400])
    moved = values + shift * (time[:, None] >= 400)
    scores = model.backtest(moved, windows=8).scores
    assert scores["seasonal naive"]["mae"] < 0.01
    assert scores["naive"]["mae"] > 0.5


def test_a_backtest_scores_everybody_on_what_the_model_forecasts():
    model = quick().fit(FRAME[:300])
    plain = model.backtest(FRAME.drop(columns=NAMES[:3]), windows=1).scores
    silent = FRAME.copy()
    silent.loc[346:393, NAMES[:3]] = np.nan
    silent.loc[394:, NAMES[:3]] += 1000.0
    result = model.backtest(silent, windows=1)
    assert result.forecast[NAMES[:3]].isna().all(axis=None)
    for name in ("naive", "seasonal naive"):
        assert result.scores[name]["mae"] == pytest.approx(plain[name]["mae"])


def shop(name, times):
    values = np.random.default_rng(len(times)).standard_normal(len(times))
    return pd.DataFrame({"day": pd.DatetimeIndex(times), "shop": name, "x": values})


@pytest.fixture(scope="module")
def daily() -> Forecaster:
    """Fitted on daily data, beside a shop too young to tell its step."""
    young = shop("young", ["2025-01-01", "2025-01-04", "2025-01-10"])
    shops = [shop(name, pd.date_range("2025-01-01", periods=90)) for name in ("a", "b")]
    return quick(context=14).fit(pd.concat([young, *shops]), group="shop")


SPARSE = ["2026-07-10", "2026-07-13", "2026-07-19"]


@pytest.mark.filterwarnings("ignore:Time stamps are 15 minutes apart")
def test_a_group_with_gaps_is_forecast_at_the_step_of_fit(daily, tmp_path):
    assert [str(one) for one in daily.frequencies_] == ["1 day"]
    daily.save(tmp_path)
    for model in (daily, load(tmp_path)):
        forecast = model.predict(shop("new", SPARSE))
        assert list(forecast["day"]) == list(pd.date_range("2026-07-20", periods=6))
        # The same as with its gaps written out.
        whole = shop("new", SPARSE).set_index("day")
        whole = whole.reindex(pd.date_range(SPARSE[0], SPARSE[-1], name="day")).assign(shop="new")
        pd.testing.assert_frame_equal(forecast, model.predict(whole.reset_index()))
    assert len(daily.predict(shop("new", SPARSE[:1]))) == 6
    # A finer step is that of the data, as before.
    quarters = pd.date_range("2026-07-10", periods=30, freq="15min")
    ahead = daily.predict(shop("new", quarters))["day"]
    assert list(ahead) == list(pd.date_range(quarters[-1], periods=7, freq="15min")[1:])


@pytest.mark.filterwarnings("ignore:(The t|T)ime stamps are .* apart")
@settings(max_examples=25, deadline=None)
@given(
    days=st.sets(st.integers(0, 28), min_size=1, max_size=8),
    other=st.sampled_from(["15min", "h", "D", "3D", "7D", "MS"]),
    order=st.booleans(),
)
def test_a_group_has_the_same_answer_alone_and_beside_others(daily, days, other, order):
    one = shop("one", pd.Timestamp("2026-01-01") + pd.to_timedelta(sorted(days), "D"))
    two = shop("two", pd.date_range("2026-02-01", periods=20, freq=other))
    both = daily.predict(pd.concat([one, two] if order else [two, one]))
    for name, alone in (("one", one), ("two", two)):
        found = both[both["shop"] == name].reset_index(drop=True)
        expected = daily.predict(alone)
        assert list(found["day"]) == list(expected["day"])
        np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-5, atol=1e-5)
    last = one["day"].iloc[-1]
    assert list(both[both["shop"] == "one"]["day"]) == list(pd.date_range(last, periods=7)[1:])


def test_a_backtest_is_at_the_step_of_fit(daily):
    days = pd.date_range("2026-01-01", periods=60)[::3]
    with pytest.warns(UserWarning, match="3 days apart.* 1 day"):
        result = daily.backtest(shop("new", days), windows=2)
    assert sorted(set(result.forecast["day"].diff().dt.days.dropna())) == [1.0]


@pytest.mark.filterwarnings("ignore:The time stamps are 7 days apart")
def test_a_backtest_says_where_rows_too_far_apart_leave_nothing_to_score(daily):
    rows = shop("new", pd.date_range("2025-01-01", periods=40, freq="7D"))
    every_week = daily.backtest(rows, windows=7, stride=7)
    with pytest.warns(UserWarning, match="1 of 7 windows"):
        every_horizon = daily.backtest(rows, windows=7)
    for result, scored in ((every_week, 7), (every_horizon, 6)):
        assert result.forecast["day"].isin(rows["day"]).sum() == scored


@pytest.mark.parametrize("step", [1, 1.0, 0.5, 0.1, np.float32(0.1)])
def test_a_step_of_numbers_is_remembered_whole_or_not(step, tmp_path):
    model = quick().fit({"time": np.arange(200) * step, "x": VALUES[:200, 0]})
    model.save(tmp_path)
    few = {"time": np.array([0, 3, 9]) * step, "x": [1.0, 2.0, 3.0]}
    for one in (model, load(tmp_path)):
        np.testing.assert_allclose(one.predict(few)["time"], np.arange(10, 16) * step, rtol=1e-6)


def test_the_mean_of_steps_that_jitter_is_not_remembered():
    jitter = np.random.default_rng(0).uniform(-0.01, 0.01, 200)
    for time in (np.arange(200) + jitter, np.rint(1000 * (np.arange(200) + jitter)).astype(int)):
        assert quick().fit({"time": time, "x": VALUES[:200, 0]}).frequencies_ == ()


def test_steps_of_several_groups_that_fit_saw_stay():
    monthly, quarterly = (
        shop(name, pd.date_range("2000-01-01", periods=90, freq=name)) for name in ("MS", "QS")
    )
    model = quick(context=14).fit(pd.concat([quarterly, monthly]), group="shop")
    assert {str(one) for one in model.frequencies_} == {"1 month", "3 months"}
    ahead = model.predict(quarterly[-9:])["day"]
    assert ahead.iloc[0] == quarterly["day"].iloc[-1] + pd.DateOffset(months=3)
    half = shop("half a year", ["2026-01-01", "2026-07-01"])
    assert model.predict(half)["day"].iloc[0] == pd.Timestamp("2026-10-01")


@pytest.mark.parametrize("data", [WAVES, pd.DataFrame(WAVES), [WAVES, WAVES]])
def test_rows_that_are_only_counted_have_no_step_to_remember(data):
    assert quick().fit(data).frequencies_ == ()


@pytest.mark.parametrize("stuck", [250, 320])
def test_a_plant_that_is_constant_at_the_end_of_fit_is_no_measure_of_errors(stuck):
    constant = FRAME.copy()
    constant.loc[stuck:, NAMES] = constant.loc[stuck, NAMES].to_numpy()
    with pytest.warns(UserWarning, match="No variable moves") as said:
        model = quick().fit(constant)
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match="Intervals mean nothing"):
        model.predict(FRAME, level=95)
    with pytest.warns(UserWarning, match="Intervals mean nothing"):
        assert model.backtest(FRAME, level=95).scores["this model"]["coverage-95"] < 0.9
    model.predict(FRAME)  # without intervals there is nothing to warn of


def test_a_warning_says_when_what_never_moved_in_fit_moves():
    model = quick().fit(np.ones((300, 2)))
    model.predict(np.ones((60, 2)), level=80)
    with pytest.warns(UserWarning, match="Intervals mean nothing"):
        model.predict(WAVES[:60, :2], level=80)


def test_sensors_that_move_against_each_other_gain_by_factors_seen_or_not():
    values, names = plant(0, sensors=16, steps=900, mixed_signs=True)
    frame = pd.DataFrame(values, columns=names)
    models = [
        quick(members=members).fit(frame.loc[:699, names[:10]])
        for members in ("coupled ridge", "factor ridge")
    ]
    coupled, factors = (
        model.backtest(frame.loc[600:], 20, stride=10).scores["this model"] for model in models
    )
    assert factors["mae"] < 0.97 * coupled["mae"]
    assert factors["mse"] < 0.94 * coupled["mse"]
    assert models[1].factors_ is not None


def test_loadings_are_kept_only_where_a_member_needs_them():
    assert quick(members="ridge").fit(FRAME).factors_ is None
    lone = quick(members="factor ridge").fit(FRAME[["time", NAMES[0]]])
    assert lone.factors_ is None
    assert set(lone.weights_) == {"ridge 48"}


def test_that_these_data_are_not_what_was_fitted_is_said_once_and_stands_in_the_report():
    model = quick().fit(FRAME)
    model.predict(FRAME)
    shifted = FRAME.copy()
    shifted[NAMES[1]] += 1e6
    with pytest.warns(UserWarning, match=f"level has shifted of {NAMES[1]} ") as said:
        model.predict(shifted)
    assert said[0].filename == __file__
    assert len(said) == 1
    assert NAMES[1] in model.report_[-1]
    model.predict(shifted)  # once is enough


def test_rows_at_another_frequency_than_in_fit_are_said():
    index = pd.date_range("2026-01-01", periods=len(WAVES), freq="h")
    model = quick().fit(pd.DataFrame(WAVES, index))
    with pytest.warns(UserWarning, match="15 minutes apart"):
        model.predict(pd.DataFrame(WAVES, pd.date_range("2026", periods=len(WAVES), freq="15min")))


def test_a_new_variable_has_an_interval_as_soon_as_its_history_tells_its_unit():
    model = quick().fit(FRAME)
    new = FRAME[["time"]].assign(new=VALUES[:, 0])
    for rows, there in ((FEWEST_STEPS, True), (FEWEST_STEPS - 1, False)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = model.predict(new[-rows:], level=80)
        assert found["new"].notna().all()
        assert found["new-lo-80"].notna().all() == there
        assert any("No interval for 'new'" in str(one.message) for one in said) != there
    known = model.predict(FRAME[-1:], level=80)
    assert known.notna().all(axis=None)
