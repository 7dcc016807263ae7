import dataclasses
import math

import pytest
import torch
from torch import nn

from orderless.errors import NothingToCertify, ValueRangeError
from orderless.nn import VI2DSSM
from orderless.ops import FullGenerator, Generator
from orderless.theory import certify


def rates(h, v, vh):
    return Generator(*(torch.tensor([[value]]) for value in (h, v, vh)))


class Layer(nn.Module):
    def __init__(self, coupling, own, mean=None):
        super().__init__()
        self.coupling, self.own, self.mean = coupling, own, mean

    def generator(self):
        return self.own

    def mean_generator(self):
        return self.mean


def test_without_a_loop_both_modes_decay_with_the_rates_of_the_layer():
    certificate = certify(Layer("field", rates(-1.0, -0.25, 0.5)), n_variables=7)
    assert certificate.layers[0].proof == "no loop"
    assert certificate.difference_rate == certificate.mean_rate == -0.25
    assert certificate.margin == 0.25
    assert certificate.largest_n_variables == math.inf
    assert certificate.holds


def test_under_feedback_the_mean_has_a_rate_of_its_own():
    layer = Layer("feedback", rates(-1.0, -0.25, 0.5), rates(-0.125, -2.0, 0.5))
    certificate = certify(layer, n_variables=7)
    assert certificate.layers[0].proof == "two modes"
    assert certificate.difference_rate == -0.25
    assert certificate.mean_rate == -0.125
    assert certificate.margin == 0.125
    (found,) = certificate.layers
    assert found.input_bound >= max(found.difference.input_bound, found.mean.input_bound)
    assert found.transient == max(found.difference.transient, found.mean.transient)


def test_a_growing_mean_is_never_certified_and_a_growing_difference_for_one_variable_only():
    growing_mean = Layer("feedback", rates(-1.0, -1.0, 0.0), rates(-1.0, 0.5, 0.0))
    assert not certify(growing_mean, 1).holds
    assert certify(growing_mean, 1).largest_n_variables == 0
    growing_difference = Layer("feedback", rates(-1.0, 0.5, 0.0), rates(-1.0, -1.0, 0.0))
    assert certify(growing_difference, 1).holds
    assert not certify(growing_difference, 2).holds
    assert certify(growing_difference, 2).largest_n_variables == 1
    assert certify(growing_difference, 2).margin < 0.0


def test_a_model_is_as_stable_as_its_worst_layer_and_names_each():
    model = nn.Sequential(Layer("none", rates(-1.0, -3.0, 0.0)), nn.Identity())
    model.append(Layer("field", rates(-0.5, -3.0, 9.0)))
    certificate = certify(model, n_variables=3)
    assert [layer.name for layer in certificate.layers] == ["0", "2"]
    assert certificate.difference_rate == -0.5
    assert certificate.transient == certificate.layers[1].transient > 1.0
    assert certificate.input_bound == certificate.layers[1].input_bound


def test_a_margin_per_tick_needs_a_smallest_step():
    layer = Layer("none", rates(-1.0, -0.5, 0.0))
    assert certify(layer, 1).margin_per_tick is None
    found = certify(layer, 1, smallest_step=0.1).margin_per_tick
    assert found == pytest.approx(1 - math.exp(-0.05), rel=1e-12)


def test_the_text_names_verdict_proof_and_what_is_missing():
    layer = Layer("field", rates(-1.0, -0.5, 0.0))
    text = certify(layer, 5).to_text()
    assert text.startswith("stable for 5 variables; this model is stable for any number")
    assert "--smallest-step" in text
    assert "coupling field, proof: no loop" in text
    assert "for steps of 0.1 and more" in certify(layer, 5, smallest_step=0.1).to_text()
    unstable = Layer("feedback", rates(-1.0, -0.5, 0.0), rates(1.0, -0.5, 0.0))
    assert certify(unstable, 5).to_text().startswith("NOT stable for 5 variables")


def test_a_certificate_cannot_be_edited():
    certificate = certify(Layer("none", rates(-1.0, -0.5, 0.0)), 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.n_variables = 2


def test_what_cannot_be_certified_is_an_error_in_words():
    with pytest.raises(NothingToCertify, match="Linear holds no layer"):
        certify(nn.Linear(2, 2), 3)
    with pytest.raises(ValueRangeError, match="`n_variables` is 0"):
        certify(Layer("none", rates(-1.0, -0.5, 0.0)), 0)
    with pytest.raises(ValueRangeError, match=r"`n_variables` is 2\.5; .* whole number"):
        certify(Layer("none", rates(-1.0, -0.5, 0.0)), 2.5)
    full = FullGenerator(*rates(-1.0, -0.5, 0.0), torch.zeros(1, 1))
    with pytest.raises(NothingToCertify, match="v drives h as well"):
        certify(Layer("feedback", rates(-1.0, -0.5, 0.0), full), 2)
    with pytest.raises(ValueRangeError, match="`smallest_step` is 0"):
        certify(Layer("none", rates(-1.0, -0.5, 0.0)), 1, smallest_step=0.0)


@pytest.mark.parametrize("coupling", ["none", "field", "feedback"])
def test_our_layer_is_certified_for_any_number_of_variables_whatever_its_parameters(coupling):
    layer = VI2DSSM(8, states=4, heads=2, coupling=coupling)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(3 * torch.randn(parameter.shape))
    certificate = certify(layer, n_variables=1_000)
    assert certificate.holds
    assert certificate.largest_n_variables == math.inf
    assert certificate.margin > 0.0
    assert certificate.layers[0].proof == ("two modes" if coupling == "feedback" else "no loop")
    assert math.isfinite(certificate.transient)
    assert math.isfinite(certificate.input_bound)
