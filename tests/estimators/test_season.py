import numpy as np
import pytest

from orderless.data.simulate import plant
from orderless.estimators.season import find_season


def of(values):
    return find_season([values], [np.isfinite(values)])


@pytest.mark.parametrize("period", [7, 24])
def test_a_season_is_found_under_noise_and_trend(period):
    time = np.arange(30 * period)
    noise = np.random.default_rng(0).standard_normal((3, len(time)))
    assert of(np.sin(2 * np.pi * time / period) + 0.01 * time + 0.2 * noise) == period


def test_the_day_of_the_plant_is_found():
    assert of(plant(0, sensors=8, steps=1000)[0].T) == 48


@pytest.mark.parametrize("walk", [False, True])
def test_noise_has_no_season(walk):
    noise = np.random.default_rng(1).standard_normal((4, 500))
    assert of(noise.cumsum(1) if walk else noise) == 1


def test_too_little_or_constant_data_has_no_season():
    assert of(np.ones((2, 300))) == 1
    assert of(np.ones((2, 3))) == 1
    assert of(np.full((1, 50), np.nan)) == 1
