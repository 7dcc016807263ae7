"""Loadings: what data they follow, what cannot move them, and what unseen variables get."""

import numpy as np
import pytest
import torch

from orderless.data import read_panel
from orderless.data.factors import (
    Factors,
    principal_loadings,
    regress_loadings,
    stack_loadings,
)
from orderless.data.scaling import scales_of_training
from orderless.data.simulate import plant
from orderless.data.transform import Transform
from orderless.errors import ModelFileError
from orderless.ops.factors import MOST


def mixed(sensors=24, steps=2000):
    """Rows [variable, time] of unit scale, gains of either sign."""
    values = plant(0, sensors=sensors, steps=steps, mixed_signs=True)[0].T
    return (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)


def everything(values):
    return np.ones(values.shape, bool)


def likeness(one, other):
    """The cosine between two directions."""
    return abs(float(one @ other) / float(one.norm() * other.norm()))


def test_many_rows_give_the_principal_components():
    values = mixed()
    found = principal_loadings(values, everything(values)).gains.double()
    _, vectors = np.linalg.eigh(values @ values.T)
    for factor in range(2):
        expected = torch.from_numpy(vectors[:, -1 - factor].copy())
        assert likeness(found[:, factor], expected) > 0.99
    torch.testing.assert_close(
        found.mT @ found / len(found), torch.eye(MOST).double(), atol=1e-4, rtol=0
    )


def test_more_variables_than_rows_and_fewer_have_the_same_loadings():
    values = mixed(sensors=40, steps=600)
    few = principal_loadings(values, everything(values))
    doubled = np.concatenate([values] * 20)
    many = principal_loadings(doubled, everything(doubled))
    assert likeness(few.gains[:, 0], many.gains[:40, 0]) > 0.999


def test_a_broken_sensor_decides_nothing():
    values = mixed()
    broken = values.copy()
    broken[5, ::50] = 1e6
    found = principal_loadings(broken, everything(broken)).gains
    right = principal_loadings(values, everything(values)).gains
    others = np.arange(24) != 5
    assert likeness(found[others, 0], right[others, 0]) > 0.999
    plain = np.linalg.eigh(broken @ broken.T)[1][:, -1]
    assert abs(plain[5]) > 0.99


def test_few_rows_of_sensors_that_agree_give_their_mean():
    values = plant(0, sensors=24, steps=20)[0].T
    values = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    found = principal_loadings(values, everything(values)).gains[:, 0]
    assert likeness(found, torch.ones(24)) > 0.999


def test_noise_has_no_direction_that_rows_could_tell():
    values = np.random.default_rng(0).standard_normal((30, 5))
    assert principal_loadings(values, everything(values)).gains.isfinite().all()
    constant = np.zeros((4, 50))
    assert not principal_loadings(constant, everything(constant)).gains.any()


@pytest.mark.parametrize(("rows", "least"), [(1000, 0.999), (100, 0.99), (20, 0.9)])
def test_unseen_variables_follow_the_factors_of_known_ones(rows, least):
    values = mixed(sensors=48)
    everyone = principal_loadings(values, everything(values)).gains[24:, 0]
    known = principal_loadings(values[:24], everything(values[:24]))
    recent, seen = values[:, -rows:], everything(values[:, -rows:])
    found = regress_loadings(recent[24:], seen[24:], recent[:24], seen[:24], known)
    assert likeness(found.gains[:, 0], everyone) > least
    assert (found.trust < 1).all()


def test_a_variable_without_history_has_no_loadings():
    values = mixed(sensors=6, steps=300)
    seen = everything(values)
    seen[5] = False
    known = principal_loadings(values[:5], seen[:5])
    found = regress_loadings(values[5:], seen[5:], values[:5], seen[:5], known)
    assert not found.gains.any()
    assert not found.trust.any()


def test_a_scale_from_calm_days_is_corrected_by_the_others():
    values = mixed(sensors=40)
    values[:, -50:] *= 0.2
    known = principal_loadings(values[:39], everything(values[:39]))
    recent = values[:, -50:]
    alone = recent[39:] / recent[39:].std()
    found = regress_loadings(alone, everything(alone), recent[:39], everything(recent[:39]), known)
    assert 0.1 < found.units.item() < 0.4


def learned(values, names, ends):
    (system,) = read_panel(dict(zip(names, values, strict=True))).systems
    panel = read_panel(dict(zip(names, values, strict=True)))
    transform = Transform(scales_of_training(panel, [ends]))
    scaled = transform.apply(system, last=len(system.times))
    return transform, Factors.learn([system], [scaled], [ends]), system, scaled


def test_the_order_of_the_columns_changes_no_bit():
    values, names = plant(1, sensors=7, steps=300)
    order = [3, 0, 6, 1, 5, 2, 4]
    _, one, system, scaled = learned(values.T, names, 200)
    _, other, shuffled, again = learned(values.T[order], [names[i] for i in order], 200)
    assert one.variables == other.variables
    for found, expected in zip(one.of(system, scaled), other.of(shuffled, again), strict=True):
        assert torch.equal(found, expected)


def test_nothing_after_the_origin_has_any_influence():
    values, names = plant(1, sensors=8, steps=400)
    transform, factors, *_ = learned(values[:, :4].T, names[:4], 200)
    (system,) = read_panel(dict(zip(names, values.T, strict=True))).systems
    later = values.copy()
    later[300:] = 7.0
    (changed,) = read_panel(dict(zip(names, later.T, strict=True))).systems
    pairs = [
        factors.of(one, transform.apply(one, last=96, end=300), 300) for one in (system, changed)
    ]
    for one, other in zip(*pairs, strict=True):
        assert torch.equal(one, other)


def test_an_unseen_system_has_the_leading_direction_of_its_own_history():
    values, names = plant(1, sensors=6, steps=400)
    transform, factors, *_ = learned(values.T, names, 300)
    others = dict(zip("abcdef", mixed(6, 400), strict=True))
    (system,) = read_panel(others).systems
    found = factors.of(system, transform.apply(system, last=96))
    assert found.gains[:, 0].all()
    assert not found.gains[:, 1:].any()


def test_saved_and_restored_loadings_are_the_same():
    values, names = plant(1, sensors=6, steps=400)
    _, factors, system, scaled = learned(values.T, names, 300)
    facts, tensors = factors.state()
    again = Factors.restore(facts, tensors)
    for one, other in zip(factors.of(system, scaled), again.of(system, scaled), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ModelFileError, match="loadings"):
        Factors.restore(facts, tensors | {"factors/gains": torch.zeros(2, MOST)})


def test_systems_of_different_width_are_stacked():
    each = [principal_loadings(mixed(n, 100), everything(mixed(n, 100))) for n in (3, 5)]
    both = stack_loadings(each)
    assert both is not None
    assert both.gains.shape == (2, 5, MOST)
    assert torch.equal(both.gains[0, :3], each[0].gains)
    assert not both.gains[0, 3:].any()
    assert stack_loadings([each[0], None]) is None
