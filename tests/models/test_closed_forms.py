import numpy as np
import torch

from orderless.data import Series, window_starts
from orderless.data.simulate import plant
from orderless.estimators.baselines import fit_ridges, naive, seasonal_naive, thin


def rows(*values):
    x = torch.tensor([values], dtype=torch.float32).unsqueeze(0)
    return torch.nan_to_num(x), x.isfinite()


def test_naive_repeats_the_last_observed_value():
    values, observed = rows(1.0, 2.0, float("nan"))
    assert naive(values, observed, 2).flatten().tolist() == [2.0, 2.0]


def test_seasonal_naive_repeats_the_last_season():
    values, observed = rows(9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    forecast = seasonal_naive(values, observed, 5, 3)
    assert forecast.flatten().tolist() == [4.0, 5.0, 6.0, 4.0, 5.0]


def test_seasonal_naive_takes_an_older_season_where_the_last_is_missing():
    values, observed = rows(1.0, 2.0, 3.0, 4.0, float("nan"), 6.0)
    assert seasonal_naive(values, observed, 3, 3).flatten().tolist() == [4.0, 2.0, 6.0]


def test_a_season_longer_than_the_look_back_is_naive():
    values, observed = rows(1.0, 2.0)
    assert seasonal_naive(values, observed, 2, 3).flatten().tolist() == [2.0, 2.0]


def test_coupled_ridge_finds_what_the_others_know_and_is_ridge_for_a_lone_variable():
    x = plant(0, sensors=16, steps=1200)[0].T
    series = Series.from_arrays([x], [np.ones(x.shape, bool)])
    train = window_starts([1200], 48, 4, targets=[(0, 900)])
    validation = window_starts([1200], 48, 4, targets=[(900, 1200)])
    ridges = fit_ridges(series, train, validation, 48, 4)
    batch = series.batch(validation, 48, 4)
    own = (ridges.own(batch.values) - batch.targets).square().mean()
    coupled = (ridges.coupled(batch.values) - batch.targets).square().mean()
    assert coupled < 0.95 * own
    alone = batch.values[:, :1]
    torch.testing.assert_close(ridges.own(alone), ridges.coupled(alone))


def test_ridge_of_very_many_variables_learns_from_as_many_times_as_that_of_fewer():
    random = np.random.default_rng(0)
    drive = np.zeros(300)
    for t in range(1, 300):
        drive[t] = 0.9 * drive[t - 1] + random.normal()
    x = drive + random.normal(size=(20_000, 300))
    train = window_starts([300], 16, 1, targets=[(0, 200)])
    validation = window_starts([300], 16, 1, targets=[(200, 300)])
    errors = []
    for some in (x[:1000], x):
        series = Series.from_arrays([some], [np.ones(some.shape, bool)])
        ridges = fit_ridges(series, train, validation, 16, 1)
        batch = Series.from_arrays([x[:1000]], [np.ones((1000, 300), bool)]).batch(
            validation, 16, 1
        )
        errors.append(float((ridges.coupled(batch.values) - batch.targets).square().mean()))
    # From all variables of ten windows it would be 1.25.
    assert errors[1] < 1.03 * errors[0], errors


def test_thinning_keeps_at_most_the_number_asked_for():
    index = torch.arange(100)[:, None]
    assert len(thin(index, 30)) <= 30
    assert len(thin(index, 1000)) == 100
    assert len(thin(index, 0)) == 1
