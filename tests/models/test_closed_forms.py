import numpy as np
import pytest
import torch
from forecasting_cases import evaluator_of

from orderless.data import Series, window_starts
from orderless.data.simulate import plant
from orderless.models.folds import cut_folds, one_fold
from orderless.models.forecasting import Naive, Ridge
from orderless.models.forecasting.naive import naive, seasonal_naive
from orderless.models.forecasting.ridge import fit_ridges
from orderless.models.forecasting.windows import WindowEvaluator, thin
from orderless.models.member import State
from orderless.nn import LinearForecast, RidgeStatistics
from orderless.nn.ridge import PENALTIES


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


def test_a_season_longer_than_the_context_is_naive():
    values, observed = rows(1.0, 2.0)
    assert seasonal_naive(values, observed, 2, 3).flatten().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("season", [None, 1, 24])
def test_naive_members_are_restored_from_their_facts(season):
    one = Naive(6, season)
    assert Naive.restore(State(*one.state())) == one
    assert one.name == ("naive" if season is None else "seasonal naive")


def ridges_of(values, context, horizon, **options):
    evaluator, windows = evaluator_of(values, context, horizon)
    folds = cut_folds(windows.train, windows.selection, horizon)
    return evaluator, windows, folds, fit_ridges(evaluator, folds, context, **options)


def test_coupled_ridge_finds_what_the_others_know_and_is_ridge_for_a_lone_variable():
    x = plant(0, sensors=16, steps=1200)[0]
    evaluator, windows, _, fitted = ridges_of(x / x.std(), 48, 4, pooled=True)
    own, coupled = (one.member for one in fitted)
    assert (own.name, coupled.name) == ("ridge 48", "coupled ridge 48")
    errors = [evaluator.errors(windows.calibration, one).mse for one in (own, coupled)]
    assert errors[1] < 0.95 * errors[0]
    alone = evaluator.gather(windows.calibration, torch.zeros(len(windows.calibration), 1).long())
    torch.testing.assert_close(own(alone), coupled(alone))


def test_the_coupled_ridge_is_left_out_where_company_adds_nothing():
    lone = plant(0, sensors=1, steps=200)[0]
    *_, fitted = ridges_of(lone, 12, 4, pooled=True)
    assert [one.member.name for one in fitted] == ["ridge 12"]


@pytest.mark.parametrize(("pooled", "refit"), [(False, False), (True, False), (True, True)])
def test_the_ridge_of_a_fold_is_one_fitted_from_scratch_on_the_windows_that_are_kept(pooled, refit):
    """All folds, and the whole, with one and the same penalty of the list."""
    x = plant(0, sensors=6, steps=500)[0]
    evaluator, _, folds, fitted = ridges_of(x / x.std(), 16, 4, pooled=pooled, refit=refit)
    whole = fitted[-1]
    assert isinstance(whole.member, Ridge)
    final = torch.ones_like(folds.training) if refit else folds.training
    kept = [final, *(~folds.excluded(fold) for fold in range(folds.count))]
    found = [whole.member.linear, *(one.linear for one in whole.of_fold)]

    @torch.no_grad()
    def distance(penalty) -> float:
        worst = 0.0
        for one, chosen in zip(found, kept, strict=True):
            linear = LinearForecast(16, 4, pooled=False)
            batch = evaluator.gather(folds.windows[chosen])
            statistics = RidgeStatistics(linear)
            statistics.update(batch.values, batch.targets, batch.observed, batch.target_observed)
            linear.fit(statistics, [(statistics, statistics)], penalties=(penalty,))
            worst = max(worst, float((one.own - linear.own).abs().max()))
        return worst

    distances = sorted(map(distance, PENALTIES))
    assert distances[0] < 1e-6
    assert distances[1] > 1e-4


def test_very_many_windows_are_thinned_and_ridges_hardly_notice(monkeypatch):
    x = plant(0, sensors=8, steps=600)[0]
    x = x / x.std()
    evaluator, windows, _, (whole, _) = ridges_of(x, 16, 4, pooled=True)
    monkeypatch.setattr("orderless.models.forecasting.ridge.MOST_ROWS", 1000)
    monkeypatch.setattr("orderless.models.forecasting.ridge.MANY_WINDOWS", 200)
    _, _, _, (thinned, *_) = ridges_of(x, 16, 4, pooled=True)
    assert not torch.equal(whole.member.linear.own, thinned.member.linear.own)
    errors = [evaluator.errors(windows.calibration, one.member).mse for one in (whole, thinned)]
    assert errors[1] < 1.1 * errors[0]


def test_ridge_of_very_many_variables_learns_from_as_many_times_as_that_of_fewer():
    random = np.random.default_rng(0)
    drive = np.zeros(300)
    for t in range(1, 300):
        drive[t] = 0.9 * drive[t - 1] + random.normal()
    x = drive + random.normal(size=(20_000, 300))
    train = window_starts([300], 16, 1, targets=[(0, 200)])
    test = window_starts([300], 16, 1, targets=[(200, 300)])
    folds = one_fold(train, test)

    def evaluator(values):
        series = Series.from_arrays([values], [np.ones(values.shape, bool)])
        changes = torch.ones(1, len(values), dtype=torch.bool)
        return WindowEvaluator(series, changes, changes.float(), 16, 1)

    errors = []
    for some in (x[:1000], x):
        *_, coupled = fit_ridges(evaluator(some), folds, 16, pooled=True)
        errors.append(evaluator(x[:1000]).errors(test, coupled.member).mse)
    # From all variables of ten windows it would be 1.25.
    assert errors[1] < 1.03 * errors[0], errors


def test_thinning_keeps_at_most_the_number_asked_for():
    index = torch.arange(100)[:, None]
    assert len(thin(index, 30)) <= 30
    assert len(thin(index, 1000)) == 100
    assert len(thin(index, 0)) == 1
