"""Bad arguments get an error in words: the argument, both sizes, and why they must agree."""

from dataclasses import replace

import pytest
import torch
from scan_cases import Case, build

from orderless.errors import DtypeError, ShapeError, ValueRangeError
from orderless.ops import FullGenerator, Generator
from orderless.ops.call import check

CALL = build(Case(batch=2, variables=3, time=5, heads=2, head_size=2, states=4, feedback=True))


def broken(**changes):
    return replace(CALL, **changes)


def rates(name, part, value):
    generator = getattr(CALL, name)
    changed = getattr(generator, part).clone()
    changed[0, 1] = value
    return broken(**{name: generator._replace(**{part: changed})})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (broken(x=CALL.x[0]), "`x` has 3 axes .* needs four: .batch, variable, time, channel"),
        (broken(x=CALL.x[:, :0]), "`x` has 0 variables .* at least one"),
        (broken(x=CALL.x[:, :, :0]), "`x` has 0 time steps"),
        (broken(step=CALL.step[..., 0]), "`step` has 2 axes"),
        (broken(step=CALL.step[..., :1].repeat(1, 1, 3)), "3 heads and `x` has 4 channels"),
        (broken(step=CALL.step[:, :3]), "`step` has time size 3 .* and `x` has 5"),
        (broken(write=CALL.write[:, :2]), "`write` has variable size 2 .* and `x` has 3"),
        (broken(write=CALL.write[0]), "`write` has 4 axes"),
        (broken(write=CALL.write[..., :1, :]), "`write` has size 1 on its pair axis .* needs 2"),
        (broken(write=CALL.write[..., :0], read=CALL.read[..., :0]), "`write` has 0 states"),
        (broken(read=CALL.read[..., :3]), "`read` has state size 3 .* and `write` has 4"),
        (
            broken(generator=Generator(*(r[:, :2] for r in CALL.generator))),
            "`generator.h` has state",
        ),
        (broken(field_write=None), "`field` was given without `field_write`"),
        (broken(field=None), "`field_write` was given without `field`"),
        (broken(field=CALL.field[:1]), "`field` has batch size 1 .* and `x` has 2"),
        (broken(skip=CALL.skip[:3]), "`skip` has channel size 3 .* and `x` has 4"),
        (broken(gate=CALL.gate[..., :2]), "`gate` has channel size 2"),
        (broken(state=CALL.state[:, :1]), "`state` has variable size 1"),
        (broken(members=torch.ones(2, 4, dtype=torch.bool)), "`members` has variable size 4"),
        (broken(observed=torch.ones(2, 3, 6, dtype=torch.bool)), "`observed` has time size 6"),
    ],
)
def test_sizes_that_disagree_are_named(call, words):
    with pytest.raises(ShapeError, match=words):
        check(call)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (broken(x=CALL.x.long()), "`x` is torch.int64; convert"),
        (broken(read=CALL.read.float()), "`read` is torch.float32 and `x` is torch.float64"),
        (broken(members=torch.ones(2, 3)), "`members` is torch.float32; a mask is bool"),
        (broken(step=CALL.step.to("meta")), "`step` lies on meta and `x` on cpu"),
    ],
)
def test_dtypes_and_devices_that_do_not_fit_are_named(call, words):
    with pytest.raises(DtypeError, match=words):
        check(call)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (rates("generator", "h", 0.0), r"`generator.h` holds 0 at \(0, 1\); .* negative"),
        (rates("generator", "v", 0.5), r"`generator.v` holds 0.5 at \(0, 1\)"),
        (rates("mean_generator", "h", 2.0), "`mean_generator.h` holds 2 .* grows without bound"),
        (rates("generator", "h", torch.nan), "`generator.h` holds nan"),
        (rates("generator", "vh", torch.inf), r"`generator.vh` holds inf at \(0, 1\); .* finite"),
        (broken(step=CALL.step.clone().fill_(torch.nan)), "`step` holds nan .* finite"),
        (broken(step=-CALL.step), "`step` holds -.* length of time and cannot be negative"),
        (broken(skip=CALL.skip / 0), "`skip` holds .*inf"),
    ],
)
def test_values_outside_the_mathematics_are_named_with_their_place(call, words):
    with pytest.raises(ValueRangeError, match=words):
        check(call)


def test_a_good_call_passes():
    check(CALL)


def test_only_the_mean_may_have_a_full_generator():
    h, v, vh = CALL.generator
    full = FullGenerator(h=h, v=v, vh=vh, hv=torch.zeros_like(h))
    check(broken(mean_generator=full))
    with pytest.raises(DtypeError, match="`generator` is a FullGenerator; only the mean may"):
        check(broken(generator=full))
