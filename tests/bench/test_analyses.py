"""The analyses in settings small enough for a test."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from bench_data import write_exchange

from orderless import training
from orderless.bench.analyses import ablation, costs, flops, simulated, transfer
from orderless.bench.analyses.simulated import ORDERING, SCALING, WORLD, simulate
from orderless.bench.config import frozen
from orderless.bench.grid import build_grid
from orderless.bench.harness import run_cells
from orderless.bench.measuring import time_steps
from orderless.bench.models import forecasts
from orderless.bench.models.layer_forecaster import ALONE, LAYERS, ORDERED, OURS, build_forecaster
from orderless.bench.registry import ANALYSES, fit_of, run_cell
from orderless.bench.tables import long_term_table
from orderless.cli import main
from orderless.errors import SettingError

TINY = {"epochs": 2, "context": 8, "steps": 200, "sizes": {"channels": 8, "states": 4}}


def tiny(cell, **options):
    return replace(cell, options=frozen(cell.settings | TINY | options))


def test_the_order_of_the_variables_changes_ours_by_rounding_and_the_ordered_one_by_more():
    drift = {}
    for layer in (OURS, ALONE, ORDERED):
        plain, permuted = (
            tiny(ORDERING.cell(WORLD, setting, layer), variables=8)
            for setting in (simulated.AS_IT_COMES, simulated.PERMUTED)
        )
        (first,) = ORDERING.run(plain).seeds
        assert first.test["drift"] == 0
        others = ORDERING.run(replace(permuted, seeds=(1, 2))).seeds
        assert [seed.seed for seed in others] == [1, 2]
        drift[layer] = max(seed.test["drift"] for seed in others)
        if layer != ORDERED:
            assert all(abs(one.test["mae"] - first.test["mae"]) < 1e-5 for one in others)
    assert drift[OURS] < 1e-5
    assert drift[ALONE] < 1e-5
    assert drift[ORDERED] > 1e-4


def test_a_permutation_rearranges_and_changes_nothing_else():
    order = np.random.default_rng(1).permutation(8)
    np.testing.assert_array_equal(simulate(8, 100)[order], simulate(8, 100, order))


def test_every_layer_learns_for_any_number_of_variables():
    for layer in LAYERS:
        for variables in (4, 8):
            (seed,) = SCALING.run(tiny(SCALING.cell(WORLD, str(variables), layer))).seeds
            assert 0 < seed.test["mae"] < 1.2
            assert seed.test["seconds_an_epoch"] > 0
            assert seed.epochs == 2


def test_an_epoch_is_timed_without_its_validation_and_without_the_first_steps(monkeypatch):
    clock = iter([0.0, 9.0, 10.0, 11.0, 20.0, 22.0, 30.0])
    monkeypatch.setattr(simulated, "now", lambda: next(clock))
    (seed,) = SCALING.run(tiny(SCALING.cell(WORLD, "4", ALONE), epochs=3)).seeds
    # Validated from 9 to 10, 11 to 20 and 22 to 30; trained for 9, 1 and 2.
    assert seed.test["seconds_an_epoch"] == 2


def test_steps_are_timed_after_some_that_are_not():
    seen = []
    assert len(time_steps(lambda: seen.append(0), 3, uncounted=2)) == 3
    assert len(seen) == 5


@pytest.mark.parametrize("pool", costs.POOLS)
def test_the_cost_of_a_pool_is_measured(pool):
    (seed,) = costs.run_pools(costs.POOLS_TABLE.cell("random features", "4", pool)).seeds
    assert seed.test["milliseconds_a_step"] > 0


def test_only_the_layer_lets_variables_meet():
    x = torch.randn(1, 4, 8)
    changed = x.clone()
    changed[:, 0] += torch.randn(8)
    for layer, meet in ((OURS, True), (ORDERED, True), (ALONE, False)):
        # The field enters through weights that start at zero, so they are made to matter.
        module = build_forecaster(layer, 8, 2, 0, channels=8, states=4)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            same = torch.equal(module(x)[:, 1:], module(changed)[:, 1:])
        assert same != meet


def test_a_layer_of_no_name_is_an_error():
    with pytest.raises(SettingError, match="layer"):
        build_forecaster("3D SSM", 8, 2, 0)


def test_analyses_are_listed_run_and_reported_like_tables(folder, tmp_path, capsys):
    for table in ANALYSES.values():
        cells = table.cells("fair", (0,))
        assert len({cell.file_name for cell in cells}) == len(cells)
        assert {cell.model for cell in cells} == set(table.models)
        for metric in table.metrics["fair"]:
            grid = build_grid(table, "fair", metric, tmp_path)
            words = {row.figures[model].words for row in grid.rows for model in grid.measured}
            assert words == {"not run yet" if table.simulated else "no data here"}
    small = costs.POOLS_TABLE.cell("random features", "16", "mean")
    run_cells([small], costs.run_pools, tmp_path, say=lambda line: None)
    grid = build_grid(ANALYSES["pools"], "fair", ANALYSES["pools"].metrics["fair"][0], tmp_path)
    assert grid.rows[0].figures["mean"].value > 0
    assert main(["bench", "list", "pools", "--protocol", "both", "--results", str(tmp_path)]) == 0
    assert "not run yet" in capsys.readouterr().out


def test_an_ablation_changes_the_network_and_nothing_else(folder):
    whole, without = (ablation.TABLE.cell("ETTh1", "96", name) for name in ("whole", "w/o long"))
    assert without.settings["forecaster"].pop("network") == {"branches": ("short", "spectral")}
    one, two = whole.settings, without.settings
    del one["forecaster"]["network"], two["forecaster"]["network"]
    assert one == two


def test_tables_share_the_fits_that_they_have_in_common(folder, monkeypatch):
    write_exchange(folder)
    monkeypatch.setattr(forecasts, "_KNOWN", {})
    options = {"contexts": (24,), "budget": {"epochs": 1, "steps": 2}}
    alone = options | {"forecaster": {"preset": "tiny", "network": {"coupling": "none"}}}
    options |= {"forecaster": {"preset": "tiny", "network": None}}
    sharing = [
        long_term_table.TABLE.cell("Exchange", "6", "orderless", "fair", (0,)),
        long_term_table.TABLE.cell("Exchange", "6", "orderless", "paper", (0,)),
        ablation.TABLE.cell("Exchange", "6", "whole", "fair", (0,)),
        transfer.TABLE.cell("Exchange", "6", transfer.ALL),
    ]
    others = [
        long_term_table.TABLE.cell("Exchange", "6", "orderless uncoupled", "fair", (0,)),
        ablation.TABLE.cell("Exchange", "6", "no coupling", "paper", (0,)),
    ]
    sharing = [replace(cell, options=frozen(options)) for cell in sharing]
    others = [replace(cell, options=frozen(alone)) for cell in others]
    assert len({fit_of(cell) for cell in sharing}) == len({fit_of(cell) for cell in others}) == 1
    assert len({fit_of(cell) for cell in sharing + others}) == 2
    assert fit_of(transfer.TABLE.cell("Exchange", "6", transfer.HALF)) != fit_of(sharing[3])
    for cell in sharing + others:
        run_cell(cell)
    assert len(forecasts._KNOWN) == 2


def test_an_ablation_runs(folder):
    write_exchange(folder)
    cell = ablation.TABLE.cell("Exchange", "6", "w/o spectral", "fair", (0,))
    settings = cell.settings | {"contexts": (24,)}
    settings["forecaster"]["preset"] = "tiny"
    settings["budget"] = {"epochs": 1, "steps": 2}
    (seed,) = ablation.run(replace(cell, options=frozen(settings))).seeds
    assert seed.test["mse"] < 0.2


def test_what_was_learned_on_half_of_the_variables_is_used_on_the_others(folder):
    write_exchange(folder)
    budget = {"epochs": 1, "steps": 2}
    options = frozen({"contexts": (24,), "forecaster": {"preset": "tiny"}, "budget": budget})
    for model in (transfer.HALF, transfer.ALL):
        cell = replace(transfer.TABLE.cell("Exchange", "6", model), options=options)
        (seed,) = transfer.run(cell).seeds
        assert max(seed.test.values()) < 0.2
        assert set(seed.test) == {"mse_seen", "mse_unseen", "mse_all"}
        assert 0 < seed.validation["mse"] < 0.2
    with pytest.raises(SettingError, match="half"):
        transfer.run(replace(cell, model="a third"))


def test_the_halves_are_apart_and_together_all(folder):
    write_exchange(folder)
    data = transfer.long_term("Exchange")
    seen, unseen = transfer.take(data, 0), transfer.take(data, 1)
    assert sorted((*seen.variables, *unseen.variables)) == sorted(data.variables)
    assert seen.checksum != unseen.checksum


def test_the_speed_of_every_layer_is_measured():
    for layer in LAYERS:
        cell = costs.EFFICIENCY.cell("random series", "2", layer)
        options = cell.settings | {"length": 8, "steps": 2, "sizes": {"channels": 8, "states": 4}}
        (seed,) = costs.run_efficiency(replace(cell, options=frozen(options))).seeds
        assert seed.test["windows_a_second"] > 0


def test_operations_are_counted_and_grow_with_the_variables():
    figures = []
    for variables in (2, 4):
        sizes = {"variables": variables, "context": 32, "horizon": 8, "batch": 2}
        cell = replace(
            flops.TABLE.cell("random series", "321 variables", "orderless"), options=frozen(sizes)
        )
        figures.append(flops.run(cell).seeds[0].test)
    few, many = (one["gigaflops"] for one in figures)
    assert 1.5 < many / few <= 2
    assert figures[0]["weights"] == figures[1]["weights"] > 0


def test_operations_are_those_of_the_matrix_products(monkeypatch):
    linear = torch.nn.Linear(32, 8)
    monkeypatch.setattr(flops, "_build", lambda model, sizes: linear)
    sizes = {"variables": 3, "context": 32, "horizon": 8, "batch": 2}
    (seed,) = flops.run(
        replace(
            flops.TABLE.cell("random series", "321 variables", "orderless"), options=frozen(sizes)
        )
    ).seeds
    assert seed.test["gigaflops"] == pytest.approx(2 * 2 * 3 * 32 * 8 / 1e9)


def test_the_products_within_attention_count():
    class Attention(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    heads, tokens, channels = 2, 5, 8
    x = torch.randn(1, heads, tokens, channels)
    one_product = 2 * heads * tokens**2 * channels
    assert flops.count_operations(Attention(), x) == 2 * one_product


@pytest.mark.parametrize(
    "cell",
    [SCALING.cell(WORLD, "4", ALONE), ORDERING.cell(WORLD, simulated.AS_IT_COMES, ALONE)],
    ids=["scaling", "ordering"],
)
def test_a_budget_holds_for_simulated_series_too(cell, monkeypatch):
    asked = []

    def train(task, config, **settings):
        asked.append((config.epochs, config.steps_per_epoch))
        return training.train(task, config, **settings)

    monkeypatch.setattr(simulated, "train", train)
    cell = tiny(cell, variables=4)
    for budgeted in (cell, cell.with_budget(1, 3)):
        run_cell(budgeted)
    assert asked == [(2, None), (1, 3)]
    with pytest.raises(SettingError, match="budget"):
        run_cell(cell.with_budget(0, 3))
