"""One meaning: every form of `vi_scan` against the reference, values and all gradients."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scan_cases import (
    TOLERANCE,
    Case,
    assert_agrees,
    build,
    cases,
    results,
    tensors,
    with_tensors,
)

from orderless.errors import FormUnavailable
from orderless.ops import VI_SCAN, Generator, vi_scan, vi_step
from orderless.theory import causality_error, equivariance_error

FORMS = ("chunked", "convolution", "reference", "step")
SLOW, FAST = (-0.1, -0.2, 0.5), (-5.0, -4.0, 0.5)  # rates h, v, vh


def run(call, form):
    arguments = {name: getattr(call, name) for name in call.__dataclass_fields__}
    return vi_scan(**arguments, form=form)


def settle(case: Case, form: str) -> Case:
    """A case the form can run."""
    if form == "convolution":
        return replace(case, constant=True)
    return replace(case, time=1) if form == "step" else case


def test_every_plain_form_is_listed_here():
    on_this_device = {form.name for form in VI_SCAN.forms} - {"triton"}
    assert on_this_device == set(FORMS)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (form, dtype)
        for form in FORMS
        for dtype in (torch.float64, torch.float32)
        if (form, dtype) != ("reference", torch.float64)  # that is the reference
    ],
    ids=str,
)
@settings(max_examples=20)
@given(case=cases())
def test_a_form_agrees_with_the_reference(form, dtype, case):
    call = build(settle(case, form), dtype)
    assert_agrees(results(call, lambda c: run(c, form)), call, TOLERANCE[dtype])


@pytest.mark.parametrize("v", [-1e-3, -1.0, -1.000001, -1e3])
@pytest.mark.parametrize("h", [-1e-3, -1.0, -1e3])
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_agrees_for_all_steps_and_rates(form, feedback, h, v):
    case = settle(Case(time=20, states=1, field=False, feedback=feedback), form)
    call = build(case, torch.float32)
    own = Generator(*(torch.full((1, 1), rate) for rate in (h, v, 1.0)))
    call = replace(call, generator=own, mean_generator=own if feedback else None)
    for step in (0.0, 1e-6, 1e-3, 1.0, 1e3, 1e6):
        call = replace(call, step=torch.full_like(call.step, step))
        assert_agrees(results(call, lambda c: run(c, form)), call, TOLERANCE[torch.float32])


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_agrees_at_full_size(form, feedback):
    case = settle(Case(variables=300, time=70, heads=2, feedback=feedback), form)
    call = build(case)
    assert_agrees(results(call, lambda c: run(c, form)), call, TOLERANCE[torch.float64])


@pytest.mark.parametrize("variables", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_variable_alone_is_its_own_mean(form, variables):
    """It never deviates: the rates of deviations get zeros, and cost the small rest no digits."""
    case = settle(Case(variables=variables, heads=2, feedback=True, steps="huge"), form)
    call = build(case, torch.float32)
    sizes = call.generator.h.shape
    slow, fast = (Generator(*(torch.full(sizes, r) for r in rates)) for rates in (SLOW, FAST))
    call = replace(call, generator=slow, mean_generator=fast)
    if variables > 1:
        alone = torch.eye(case.batch, variables, dtype=torch.bool)  # another one in each entry
        call = replace(call, members=alone)
    found = results(call, lambda c: run(c, form))
    assert_agrees(found, call, TOLERANCE[torch.float32])
    assert all((found[f"generator.{part}"] == 0).all() for part in Generator._fields)


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_gradcheck_passes(form, feedback):
    sizes = {"batch": 1, "variables": 2, "time": 3, "head_size": 1, "states": 2}
    case = settle(Case(**sizes, rates="equal", feedback=feedback), form)
    call = build(case)
    leaves = {name: value.detach().requires_grad_() for name, value in tensors(call).items()}

    def function(*values):
        return run(with_tensors(call, dict(zip(leaves, values, strict=True))), form)

    assert torch.autograd.gradcheck(function, list(leaves.values()))


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10)
@given(case=cases())
def test_reordering_variables_reorders_the_output_and_the_state(form, case):
    case = settle(replace(case, variables=max(case.variables, 2)), form)
    call = build(case)
    order = torch.randperm(case.variables, generator=torch.Generator().manual_seed(case.seed))
    by_variable = ("x", "write", "read", "gate", "state", "members", "observed")
    moved = {
        name: getattr(call, name)[:, order]
        for name in by_variable
        if getattr(call, name) is not None
    }
    for straight, shuffled in zip(run(call, form), run(replace(call, **moved), form), strict=True):
        assert (straight[:, order] - shuffled).norm() <= 1e-10 * straight.norm()


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10)
@given(case=cases(observed=True, members=True, extras=True))
def test_what_a_masked_entry_holds_changes_nothing(form, case):
    call = build(settle(case, form))
    present = call.observed & call.members.unsqueeze(-1)
    harmless = replace(
        call,
        x=torch.where(present.unsqueeze(-1), call.x, 0.0),
        gate=torch.where(present.unsqueeze(-1), call.gate, 0.0),
    )
    poisoned = replace(call, gate=torch.where(present.unsqueeze(-1), call.gate, torch.nan))
    if not case.constant and form != "convolution":
        over_io = present[..., None, None]
        poisoned = replace(
            poisoned,
            write=torch.where(over_io, call.write, torch.nan),
            read=torch.where(over_io, call.read, 1e30),
        )
    for clean, dirty in zip(run(harmless, form), run(poisoned, form), strict=True):
        assert torch.equal(clean, dirty)
    y, state = run(poisoned, form)
    assert (y[~present] == 0).all()
    assert torch.equal(state[~call.members], call.state[~call.members])
    gradients = results(poisoned, lambda c: run(c, form))
    assert all(value.isfinite().all() for value in gradients.values())
    assert (gradients["x"][~present] == 0).all()


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference"])
@settings(max_examples=10)
@given(case=cases(), share=st.floats(0, 1))
def test_two_short_calls_equal_one_long_call(form, case, share):
    case = settle(replace(case, time=max(case.time, 2)), form)
    call = build(case)
    cut = 1 + int(share * (case.time - 2))
    y, state = run(call, form)
    early, late = _part(call, slice(0, cut)), _part(call, slice(cut, None))
    first, second = (late, early) if case.reverse else (early, late)
    y_first, between = run(first, form)
    y_second, last = run(replace(second, state=between), form)
    whole = torch.cat((y_second, y_first) if case.reverse else (y_first, y_second), dim=2)
    assert (whole - y).norm() <= 1e-10 * y.norm()
    assert (last - state).norm() <= 1e-10 * state.norm()


def _part(call, times):
    changed = {}
    for name, axis in (
        ("x", 2),
        ("step", 1),
        ("write", 2),
        ("read", 2),
        ("field", 1),
        ("field_write", 1),
        ("gate", 2),
        ("observed", 2),
    ):
        value = getattr(call, name)
        if value is not None and value.shape[axis] > 1:
            changed[name] = value[(slice(None),) * axis + (times,)]
    return replace(call, **changed)


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference"])
@settings(max_examples=10)
@given(case=cases(reverse=False))
def test_reverse_equals_flipping_every_time_axis(form, case):
    call = build(settle(case, form))
    flipped = {
        name: getattr(call, name).flip(axis)
        for name, axis in (
            ("x", 2),
            ("step", 1),
            ("write", 2),
            ("read", 2),
            ("field", 1),
            ("field_write", 1),
            ("gate", 2),
            ("observed", 2),
        )
        if getattr(call, name) is not None
    }
    y, state = run(replace(call, **flipped), form)
    y_reverse, state_reverse = run(replace(call, reverse=True), form)
    assert (y.flip(2) - y_reverse).norm() <= 1e-10 * y.norm()
    assert (state - state_reverse).norm() <= 1e-10 * state.norm()


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference"])
def test_the_future_does_not_change_the_past(form):
    call = build(settle(Case(time=50, feedback=True), form))

    def outputs(x):
        return run(replace(call, x=x), form)[0]

    assert causality_error(outputs, call.x) == 0.0


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference"])
def test_an_outlier_at_the_end_does_not_change_the_past(form):
    call = build(settle(Case(time=50), form), torch.float32)
    last = torch.arange(50).unsqueeze(-1) == 49
    y, _ = run(call, form)
    for outlier in (1e6, 1e30, torch.nan):
        changed, _ = run(replace(call, x=torch.where(last, outlier, call.x)), form)
        # What is not a number spreads within a matrix product, which holds 16 ticks.
        reached = 16 if outlier != outlier else 1
        assert torch.equal(changed[:, :, :-reached], y[:, :, :-reached])


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_empty_batch_is_answered_by_an_empty_one(form, feedback):
    call = build(settle(Case(batch=0, time=4, feedback=feedback), form))
    for name, value in results(call, lambda c: run(c, form)).items():
        sizes = tensors(call) | {"output": call.x, "last state": call.state}
        assert value.shape == sizes[name].shape


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_second_derivative_is_right_or_refused(form, feedback):
    sizes = {"batch": 1, "variables": 2, "time": 3, "head_size": 1, "states": 2}
    call = build(settle(Case(**sizes, feedback=feedback), form))
    leaves = {name: value.detach().requires_grad_() for name, value in tensors(call).items()}

    def seconds(form, name):
        """Of a linear and of a nonlinear function of the output, by one argument, then by all."""
        for power in (1, 2):
            y, _ = run(with_tensors(call, leaves), form)
            (first,) = torch.autograd.grad(y.pow(power).sum(), leaves[name], create_graph=True)
            yield from torch.autograd.grad(
                first.square().sum(), list(leaves.values()), materialize_grads=True
            )

    for name in leaves:
        of_rates = name == "step" or "generator" in name
        if of_rates or form == "chunked" or (feedback and form == "convolution"):
            if name not in ("skip", "gate"):
                with pytest.raises(RuntimeError, match="gradient can be taken once"):
                    list(seconds(form, name))
            continue
        for found, truth in zip(seconds(form, name), seconds("reference", name), strict=True):
            torch.testing.assert_close(found, truth)


def test_second_derivatives_of_the_reference_pass_gradgradcheck():
    sizes = {"batch": 1, "variables": 2, "time": 3, "head_size": 1, "states": 1}
    call = build(Case(**sizes, feedback=True))
    leaves = {
        name: value.detach().requires_grad_()
        for name, value in tensors(call).items()
        if name != "step" and "generator" not in name
    }

    def function(*values):
        return run(with_tensors(call, dict(zip(leaves, values, strict=True))), "reference")

    assert torch.autograd.gradgradcheck(function, list(leaves.values()))


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference"])
def test_the_equivariance_that_users_can_measure_holds(form):
    call = build(Case(variables=11, constant=form == "convolution", extras=False))
    shared = replace(call, write=call.write[:, :1].expand_as(call.write))
    shared = replace(shared, read=call.read[:, :1].expand_as(call.read))
    assert equivariance_error(lambda x: run(replace(shared, x=x), form)[0], call.x) <= 1e-10


@settings(max_examples=10)
@given(case=cases(constant=False, reverse=False))
def test_ticks_one_by_one_equal_the_scan(case):
    call = build(replace(case, time=min(case.time, 40)))
    y, last = run(call, "reference")
    at_time = {"x": 2, "step": 1, "write": 2, "read": 2, "field": 1, "field_write": 1, "gate": 2}
    at_time["observed"] = 2
    state = call.state
    for t in range(call.x.shape[2]):
        now = {
            name: None if getattr(call, name) is None else getattr(call, name).select(axis, t)
            for name, axis in at_time.items()
        }
        y_now, state = vi_step(
            **now,
            generator=call.generator,
            mean_generator=call.mean_generator,
            skip=call.skip,
            members=call.members,
            state=state,
        )
        torch.testing.assert_close(y_now, y[:, :, t], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(state, last, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["chunked", "reference"])
def test_half_precision_inputs_keep_a_float32_state(form, dtype):
    call = build(Case(time=64, feedback=True), dtype)
    y, state = run(call, form)
    assert y.dtype == dtype
    assert state.dtype == torch.float32
    exact, _ = run(with_tensors(call, {k: t.double() for k, t in tensors(call).items()}), form)
    assert (y.double() - exact).norm() <= 5e-3 * exact.norm()


def test_chunked_saves_its_inputs_and_nothing_else():
    call = build(Case(variables=20, time=96, extras=False))
    leaves = {name: value.detach().requires_grad_() for name, value in tensors(call).items()}
    storages = {value.untyped_storage().data_ptr() for value in leaves.values()}
    saved = {}

    def note(value):
        saved[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        run(with_tensors(call, leaves), "chunked")
    rest = sum(size for pointer, size in saved.items() if pointer not in storages)
    state = call.x[:, :, 0].numel() * 2 * call.write.shape[-1] * call.x.element_size()
    assert rest <= state  # the initial state, which is zero here


def test_a_form_asked_for_by_name_runs_or_says_why():
    call = build(Case())
    with pytest.raises(FormUnavailable, match="time axis of size 1"):
        run(call, "convolution")
    with pytest.raises(FormUnavailable, match="one time step, and x has 37"):
        run(call, "step")
    with pytest.raises(FormUnavailable, match=r"no form 'fast'; known are .*reference"):
        run(call, "fast")


@pytest.mark.parametrize(
    ("change", "chosen"),
    [
        ({}, "chunked"),
        ({"time": 1}, "step"),
        ({"constant": True}, "convolution"),
    ],
)
def test_the_choice_depends_on_the_facts_of_the_call(change, chosen):
    facts = build(Case(**change)).facts()
    assert VI_SCAN.choose(facts).name == chosen
    verdicts = {row.form: row.verdict for row in VI_SCAN.explain(facts)}
    assert verdicts[chosen] == "chosen"
