"""The peer is not installed for tests: a stand-in of the same name shows how it is called."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from bench_data import write_exchange
from torch import nn

from orderless.bench.config import frozen
from orderless.bench.models import peers
from orderless.bench.tables import long_term_table
from orderless.errors import SettingError


class StandIn(nn.Module):
    """A linear map of the history along time, in the shapes of neuralforecast."""

    def __init__(self, h, input_size, random_seed, n_series=None, **settings):
        super().__init__()
        self.n_series, self.settings = n_series, settings
        torch.manual_seed(random_seed)
        self.map = nn.Linear(input_size, h)

    def forward(self, windows):
        history = windows["insample_y"]
        assert history.shape == windows["insample_mask"].shape
        # Univariate networks see one variable at a time.
        assert history.shape[-1] == (self.n_series or 1)
        return self.map(history.mT).mT


@pytest.fixture
def stand_in(monkeypatch):
    module = ModuleType("neuralforecast.models")
    for name in peers.PEERS:
        setattr(module, name, StandIn)
    monkeypatch.setitem(sys.modules, "neuralforecast", ModuleType("neuralforecast"))
    monkeypatch.setitem(sys.modules, "neuralforecast.models", module)
    monkeypatch.setattr(peers, "find_spec", lambda name: name)


def test_every_peer_forecasts_in_our_shapes(stand_in):
    for name in peers.PEERS:
        x = torch.randn(3, 5, 12)
        module = peers.peer_builder(name, 12, 4, 5)()
        forecast = module(x)
        assert forecast.shape == (3, 5, 4)
        # Each variable by its own history, whichever way the shapes were turned.
        torch.testing.assert_close(forecast, module.network.map(x))


def test_the_weights_of_a_peer_follow_the_seed(stand_in):
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(peers.peer_builder("PatchTST", 12, 4, 5)().network.map.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("model", ["PatchTST", "iTransformer"])
def test_a_peer_is_a_model_of_the_long_term_table(folder, stand_in, model):
    write_exchange(folder)
    cell = long_term_table.TABLE.cell("Exchange", "6", model, "fair", (0,))
    options = cell.settings | {"contexts": (24,), "budget": {"epochs": 2, "steps": 20}}
    (seed,) = long_term_table.run(replace(cell, options=frozen(options))).seeds
    assert seed.epochs == 2
    assert 0 < seed.test["mse"] < 2


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="neuralforecast"):
        peers.peer_builder("PatchTST", 12, 4, 5)
