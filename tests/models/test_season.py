import numpy as np
import pytest

from orderless.data.simulate import plant
from orderless.models.forecasting.season import find_season


def of(values):
    return find_season([values], [np.isfinite(values)])


@pytest.mark.parametrize("period", [7, 24])
def test_a_season_is_found_under_noise_and_trend(period):
    time = np.arange(30 * period)
    noise = np.random.default_rng(0).standard_normal((3, len(time)))
    assert of(np.sin(2 * np.pi * time / period) + 0.01 * time + 0.2 * noise) == period


@pytest.mark.parametrize("period", [7, 24, 48, 96, 144])
def test_a_season_is_found_where_single_steps_are_mostly_noise(period):
    time = np.arange(40 * period)
    noise = np.random.default_rng(period).standard_normal((3, len(time)))
    assert abs(of(np.sin(2 * np.pi * time / period) + noise) - period) <= period / 100


def test_a_season_is_found_in_systems_of_different_length():
    noise = np.random.default_rng(2).standard_normal((2, 900))
    long = np.sin(2 * np.pi * np.arange(900) / 24) + 0.3 * noise
    pair = [long, long[:, 300:700], long[:, :5]]
    assert find_season(pair, [np.isfinite(one) for one in pair]) == 24


@pytest.mark.parametrize("short", [8, 12, 40])
def test_one_short_system_does_not_hide_the_season_of_the_others(short):
    noise = np.random.default_rng(2).standard_normal((6, 1, 400))
    systems = list(np.sin(2 * np.pi * np.arange(400) / 24) + 0.3 * noise)
    systems[3] = systems[3][:, :short]
    assert find_season(systems, [np.isfinite(one) for one in systems]) == 24


def test_two_alternating_kinds_of_days_are_two_days():
    day = np.random.default_rng(3).standard_normal((2, 24))
    noise = np.random.default_rng(4).standard_normal(48 * 30)
    assert of((np.tile(day.ravel(), 30) + 0.1 * noise)[None]) == 48


@pytest.mark.parametrize("seed", range(5))
def test_the_day_of_the_plant_is_found(seed):
    assert of(plant(seed, sensors=8, steps=1000)[0].T) == 48


@pytest.mark.parametrize("walk", [False, True])
def test_noise_has_no_season(walk):
    noise = np.random.default_rng(1).standard_normal((4, 500))
    assert of(noise.cumsum(1) if walk else noise) == 1


def test_too_little_or_constant_data_has_no_season():
    assert of(np.ones((2, 300))) == 1
    assert of(np.ones((2, 3))) == 1
    assert of(np.full((1, 50), np.nan)) == 1
