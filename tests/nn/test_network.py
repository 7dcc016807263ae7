"""Properties of the network and of every head on it."""

import dataclasses
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_cases import drawn, error, shaken

from orderless.errors import SettingError, ShapeError
from orderless.nn import (
    ClassificationNetwork,
    ForecastingNetwork,
    NetworkConfig,
    ReconstructionNetwork,
    VI2DMamba,
    default,
    paper,
    tiny,
)
from orderless.nn.classification import places

CONTEXT, HORIZON = 37, 5
ON_A_GPU = (
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
)
SMALL = NetworkConfig(patch=8, stride=4, channels=8, states=2, head_rank=4)
CONFIGS = {
    "small": SMALL,
    "two layers": dataclasses.replace(SMALL, layers=2, expansion=2),
    "sum": dataclasses.replace(SMALL, pool="sum"),
    "attention": dataclasses.replace(SMALL, pool="attention"),
    "feedback": dataclasses.replace(SMALL, coupling="feedback"),
    "none": dataclasses.replace(SMALL, coupling="none"),
    "concatenated": dataclasses.replace(SMALL, spectral_layout="concatenated", gate="global"),
    "long only": dataclasses.replace(SMALL, branches=("long",), center="last", scale=False),
    "spectral only": dataclasses.replace(SMALL, branches=("spectral",), skip=False),
    "no center": dataclasses.replace(SMALL, center="none", scale=False),
    "default": default(CONTEXT),
    "tiny": tiny(CONTEXT),
    "paper": paper(CONTEXT),
}
seeds = st.integers(0, 2**20)
modest = settings(max_examples=3)
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
a_few = pytest.mark.parametrize("config", [CONFIGS["small"], CONFIGS["feedback"]], ids=["a", "b"])


def tokens(config):
    network = VI2DMamba(config)
    return lambda *arguments: network(*arguments).tokens, network


def forecast(config):
    network = ForecastingNetwork(config, CONTEXT, HORIZON, quantiles=(0.1, 0.5, 0.9))

    def everything(*arguments):
        found = network(*arguments)
        assert found.quantiles is not None
        return torch.cat((found.point.unsqueeze(-1), found.quantiles), dim=-1)

    return everything, network


def reconstruction(config):
    network = ReconstructionNetwork(config)
    return network, network


HEADS = {"tokens": tokens, "forecast": forecast, "reconstruction": reconstruction}
every_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
# Every setting under one head and every head under one setting: they do not know each other.
every_pair = pytest.mark.parametrize(
    ("head", "config"),
    [
        *(pytest.param(forecast, config, id=name) for name, config in CONFIGS.items()),
        pytest.param(tokens, SMALL, id="tokens"),
        pytest.param(reconstruction, SMALL, id="reconstruction"),
        pytest.param(reconstruction, CONFIGS["none"], id="reconstruction alone"),
    ],
)


def built(head, config, seed=0):
    function, module = head(config)
    shaken(module, seed)
    return function, module


@every_pair
@given(variables=st.sampled_from((1, 2, 5, 11)), seed=seeds)
@modest
def test_reordering_variables_reorders_the_result(head, config, variables, seed):
    function, _ = built(head, config, seed)
    x, members, present = drawn((2, variables, CONTEXT), seed)
    order = torch.randperm(variables, generator=torch.Generator().manual_seed(seed))
    assert error(function(x[:, order]), function(x)[:, order]) <= 1e-10
    masked = function(x, present, members)[:, order]
    assert error(function(x[:, order], present[:, order], members[:, order]), masked) <= 1e-10


@every_pair
def test_what_is_masked_may_hold_anything_and_passes_no_gradient(head, config):
    function, module = built(head, config)
    x, members, present = drawn((2, 5, CONTEXT), 1)
    present[0, 1] = False  # a dead variable
    present[1, :, 20:32] = False  # a stretch with nobody there
    there = present & members.unsqueeze(-1)
    clean = function(torch.where(there, x, 0.0), present, members)
    dirty = function(torch.where(there, x, torch.nan), present, members)
    assert torch.equal(clean, dirty)
    assert dirty.isfinite().all()
    assert (dirty[~members] == 0).all()
    dirty.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters() if p.grad is not None)


@every_pair
def test_padding_variables_and_batch_rows_change_nothing(head, config):
    function, _ = built(head, config)
    x, _, present = drawn((3, 4, CONTEXT), 2)
    members = torch.arange(6).expand(3, -1) < 4
    nobody = torch.full((3, 2, CONTEXT), torch.nan, dtype=x.dtype)
    padded = torch.cat((x, nobody), dim=1)
    padded_present = torch.cat((present, torch.ones_like(nobody, dtype=torch.bool)), dim=1)
    alone = function(x, present)
    assert error(function(padded, padded_present, members)[:, :4], alone) <= 1e-10
    assert error(function(x[1:2], present[1:2]), alone[1:2]) <= 1e-10


@every_head
@a_few
def test_a_full_mask_equals_no_mask(head, config):
    function, _ = built(head, config)
    x, _, _ = drawn((2, 4, CONTEXT), 3)
    everything = torch.ones_like(x, dtype=torch.bool)
    assert error(function(x, everything, everything[..., 0]), function(x)) <= 1e-10


@every_head
# Under feedback the mean is that of all members, dead or not.
@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - {"feedback"}))
def test_a_dead_variable_is_as_good_as_none(head, name):
    config = CONFIGS[name]
    function, _ = built(head, config)
    x, _, present = drawn((2, 4, CONTEXT), 2)
    present[:, 3] = False
    present[:, :3, 0] = True
    alone = function(x[:, :3], present[:, :3])
    assert error(function(x, present)[:, :3], alone) <= 1e-10


@every_head
@pytest.mark.parametrize("gate", ["variable", "global"])
def test_without_coupling_a_variable_gets_the_same_alone(head, gate):
    function, _ = built(head, dataclasses.replace(CONFIGS["none"], gate=gate))
    x, _, present = drawn((2, 4, CONTEXT), 4)
    assert error(function(x[:, 2:3], present[:, 2:3]), function(x, present)[:, 2:3]) <= 1e-10


@every_head
def test_with_coupling_it_does_not(head):
    function, _ = built(head, SMALL)
    x, _, _ = drawn((2, 4, CONTEXT), 4)
    assert error(function(x[:, 2:3]), function(x)[:, 2:3]) > 1e-4


@every_pair
def test_no_weight_has_the_size_of_the_number_of_variables(head, config):
    function, module = built(head, config)
    shapes = {name: parameter.shape for name, parameter in module.state_dict().items()}
    for variables in (1, 23):
        function(drawn((1, variables, CONTEXT), 0)[0])
    assert {name: parameter.shape for name, parameter in module.state_dict().items()} == shapes
    assert all(23 not in shape for shape in shapes.values())


@every_pair
def test_gradients_reach_every_parameter(head, config):
    function, module = built(head, config)
    x, members, present = drawn((2, 5, CONTEXT), 5)
    y = function(x, present, members)
    (y * drawn(y.shape, 6)[0]).sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


@every_head
@a_few
def test_constant_and_tiny_and_huge_series_stay_finite(head, config):
    function, _ = built(head, config)
    for level in (0.0, 5.0, 1e6, 1e-9):
        x = torch.full((1, 3, CONTEXT), level, dtype=torch.float64)
        assert function(x).isfinite().all()
    assert function(torch.zeros(1, 3, CONTEXT, dtype=torch.float64)).isfinite().all()


@a_few
def test_scaling_and_shifting_a_series_does_the_same_to_its_forecast(config):
    function, _ = built(forecast, dataclasses.replace(config, coupling="none"))
    x, _, _ = drawn((1, 3, CONTEXT), 7)
    # The floor under the variance keeps this from being exact.
    assert error(function(10 * x + 3), 10 * function(x) + 3) <= 1e-4


def test_before_training_the_forecast_is_the_linear_one():
    network = ForecastingNetwork(SMALL, CONTEXT, HORIZON).double()
    linear = network.linear
    assert linear is not None
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.normal_(std=0.1)
    x, members, present = drawn((2, 5, CONTEXT), 8)
    point = network(x, present, members).point
    assert torch.equal(point, linear(x, present, members))
    assert point.abs().sum() > 0


@every_config
@pytest.mark.parametrize(
    ("device", "of_values", "of_gradients"),
    # With these weights 3.4e-7 and 6.6e-7 on a CPU. To move each by its rounding moves gradients by
    # up to 1.1e-6, the least of twelve draws of weights, and by 7e-5 where two weights of writing
    # are near zero before they are divided by their norm. A GPU keeps 17 bits, 128 times less.
    [("cpu", 1e-6, 5e-6), pytest.param("cuda", 1e-4, 1e-3, marks=ON_A_GPU)],
)
def test_in_float32_values_and_gradients_are_those_of_float64_on_a_cpu(
    config, device, of_values, of_gradients
):
    x, members, observed = drawn((3, 5, CONTEXT), 1)
    torch.manual_seed(3)
    body, results = shaken(VI2DMamba(config), 0), []
    for dtype, place in ((torch.float64, "cpu"), (torch.float32, device)):
        body = body.to(place, dtype)
        masks = (mask.to(place) for mask in (observed, members))
        found = body(x.to(place, dtype), *masks).tokens
        slopes = torch.autograd.grad(found.square().sum(), list(body.parameters()))
        slopes = torch.cat([slope.flatten() for slope in slopes])
        results.append([value.detach().cpu().double() for value in (found, slopes)])
    (right, right_slopes), (found, slopes) = results
    assert error(found, right) <= of_values
    assert error(slopes, right_slopes) <= of_gradients


def test_without_a_skip_the_forecast_starts_at_the_center_of_the_context():
    network = ForecastingNetwork(CONFIGS["spectral only"], CONTEXT, HORIZON).double()
    x, _, _ = drawn((2, 5, CONTEXT), 8)
    torch.testing.assert_close(network(x).point, x.mean(-1, keepdim=True).expand(-1, -1, HORIZON))
    with pytest.raises(SettingError, match="skip=True"):
        network.start_from(ForecastingNetwork(SMALL, CONTEXT, HORIZON).linear)


def test_the_linear_part_is_frozen():
    _, network = built(forecast, SMALL)
    trained = {name for name, p in network.named_parameters() if p.requires_grad}
    assert not any(name.startswith("linear.") for name in trained)


@given(seed=seeds)
@modest
def test_quantiles_never_cross(seed):
    _, network = built(forecast, SMALL, seed)
    x, _, _ = drawn((2, 3, CONTEXT), seed)
    quantiles = network(x).quantiles
    assert (quantiles.diff(dim=-1) >= 0).all()


def test_hidden_values_are_not_seen_but_their_tokens_are_there():
    _, network = built(reconstruction, SMALL)
    x, _, _ = drawn((2, 3, CONTEXT), 10)
    hidden = torch.zeros_like(x, dtype=torch.bool)
    hidden[:, 1, 16:32] = True
    y = network(x, hidden=hidden)
    assert torch.equal(y, network(torch.where(hidden, 7e5, x), hidden=hidden))
    assert y[:, 1, 16:32].std() > 0
    as_missing = network(x, ~hidden)
    assert error(as_missing[:, 1], y[:, 1]) > 1e-6


def test_reconstruction_takes_windows_of_any_length():
    _, network = built(reconstruction, SMALL)
    for length in (1, 7, 8, 9, 50):
        x, _, _ = drawn((1, 2, length), length)
        assert network(x).shape == x.shape


NAMES = ("a", "b", "c", "d", "e")


@every_config
@given(seed=seeds)
@modest
def test_reordering_variables_does_not_change_the_class(config, seed):
    network = shaken(ClassificationNetwork(config, 3), seed)
    x, members, present = drawn((2, 5, CONTEXT), seed)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    scores = network(x, present, members)
    assert error(network(x[:, order], present[:, order], members[:, order]), scores) <= 1e-10
    assert error(network(x[:, order]), network(x)) <= 1e-10


def test_named_variables_may_be_reordered_but_not_renamed():
    network = shaken(ClassificationNetwork(SMALL, 3, names=NAMES), 0)
    x, _, _ = drawn((2, 5, CONTEXT), 0)
    order = [3, 1, 4, 0, 2]
    scores = network(x, identities=network.identify(NAMES))
    reordered = network.identify([NAMES[i] for i in order])
    assert error(network(x[:, order], identities=reordered), scores) <= 1e-10
    assert error(network(x, identities=reordered), scores) > 1e-3


def test_all_unknown_names_are_alike():
    network = ClassificationNetwork(SMALL, 3, names=NAMES)
    assert network.identify(["b", "new", "ü", "b"]).tolist() == [2, 0, 0, 2]


def test_padding_in_time_and_variables_does_not_change_the_class():
    config = dataclasses.replace(SMALL, branches=("long", "short"))
    network = shaken(ClassificationNetwork(config, 3), 0)
    x, _, _ = drawn((2, 5, 40), 1)
    padded = torch.full((2, 7, 40), torch.nan, dtype=x.dtype)
    padded[:, :5] = x
    members = torch.arange(7).expand(2, -1) < 5
    assert error(network(padded, None, members), network(x)) <= 1e-10


def test_places_keep_the_order_of_tokens_and_do_not_see_padding():
    x = torch.randn(3, 11, 2, dtype=torch.float64)
    found = places(x, None)
    assert not torch.allclose(found, places(x.flip(1), None))
    torch.testing.assert_close(found, places(x.flip(1), None).flip(1))
    padded = torch.nn.functional.pad(x, (0, 0, 4, 2))
    present = torch.zeros(3, 17, dtype=torch.bool)
    present[:, 4:15] = True
    torch.testing.assert_close(places(padded, present), found)
    torch.testing.assert_close(places(torch.ones(1, 3, 2), None), torch.ones(1, 8, 2))
    assert not places(0 * x, torch.zeros(3, 11, dtype=torch.bool)).any()


def test_masked_values_reach_neither_the_class_nor_the_gradients():
    network = shaken(ClassificationNetwork(SMALL, 3, names=NAMES), 0)
    x, members, present = drawn((2, 5, CONTEXT), 2)
    present[0] = False  # a sample with nothing in it
    identities = network.identify(NAMES)
    there = present & members.unsqueeze(-1)
    clean = network(torch.where(there, x, 0.0), present, members, identities)
    dirty = network(torch.where(there, x, torch.nan), present, members, identities)
    assert torch.equal(clean, dirty)
    dirty.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


def test_identities_are_asked_for_exactly_when_there_are_names():
    x, _, _ = drawn((2, 5, CONTEXT), 0)
    with pytest.raises(SettingError, match="identify"):
        ClassificationNetwork(SMALL, 3, names=NAMES).double()(x)
    with pytest.raises(SettingError, match="identify"):
        ClassificationNetwork(SMALL, 3).double()(x, identities=torch.arange(5))


def test_names_are_forgotten_now_and_then_while_training_only():
    network = ClassificationNetwork(SMALL, 3, names=NAMES).double()
    x, _, _ = drawn((2, 5, CONTEXT), 0)
    identities = network.identify(NAMES)
    network.eval()
    assert torch.equal(network(x, identities=identities), network(x, identities=identities))
    forgotten = network.train()._forget_some(torch.ones(1000, dtype=torch.long))
    assert 50 < (forgotten == 0).sum() < 200


def test_a_config_survives_json():
    for config in CONFIGS.values():
        again = NetworkConfig(**json.loads(json.dumps(dataclasses.asdict(config))))
        assert again == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"branches": ()}, "one or more"),
        ({"branches": ("long", "wide")}, "one or more"),
        ({"stride": 9}, "never be seen"),
        ({"channels": 0}, "at least 1"),
        ({"dropout": 1.0}, "dropout"),
        ({"gate": "loud"}, "not one of variable"),
        ({"pool": "max"}, "not one of mean"),
    ],
)
def test_settings_that_cannot_be_are_errors_in_words(changes, message):
    with pytest.raises(SettingError, match=message):
        dataclasses.replace(SMALL, **changes)


def test_shapes_that_do_not_fit_are_errors_in_words():
    network = ForecastingNetwork(SMALL, CONTEXT, HORIZON)
    with pytest.raises(ShapeError, match="built for 37"):
        network(torch.zeros(1, 2, 36))
    with pytest.raises(ShapeError, match="at least one variable"):
        network.body(torch.zeros(1, 0, CONTEXT))
    with pytest.raises(ShapeError, match="`members`"):
        network.body(torch.zeros(1, 2, CONTEXT), None, torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(SettingError, match="must rise"):
        ForecastingNetwork(SMALL, CONTEXT, HORIZON, quantiles=(0.9, 0.1))
