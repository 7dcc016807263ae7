"""How the kernels are chosen, launched and registered; what is saved, and what repeats."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from test_form import KERNEL_DTYPE, arguments, call_of

from orderless.ops import VI_SCAN, Generator, vi_scan
from orderless.ops.call import CallFacts

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def _gpu_call(dtype=torch.bfloat16):
    named, _ = arguments((4, 19, 48, 64, 1, 16), ("field", "skip"))
    low = {
        name: value.to("cuda", dtype if name in KERNEL_DTYPE else torch.float32)
        for name, value in named.items()
    }
    return {name: value.requires_grad_() for name, value in low.items()}


def _scan(named, form="triton"):
    generator = Generator(named["h"], named["v"], named["vh"])
    rest = {name: value for name, value in named.items() if name not in ("h", "v", "vh")}
    return vi_scan(generator=generator, form=form, **rest)


@pytest.mark.gpu
@needs_gpu
def test_gradients_repeat_to_the_bit():
    named = _gpu_call()

    def gradients():
        y, state = _scan(named)
        return torch.autograd.grad(y.float().sum() + state.sum(), list(named.values()))

    for first, second in zip(gradients(), gradients(), strict=True):
        assert torch.equal(first, second)


def _tiny(device, states=1, options=("field", "skip", "state")):
    named, _ = arguments((1, 1, 2, 16, 1, states), options)
    return {name: value.float().to(device).requires_grad_() for name, value in named.items()}


def test_what_is_copied_in_lines_begins_at_one():
    from orderless.ops.gpu.plan import aligned

    numbers = torch.arange(65.0, dtype=torch.bfloat16)
    for value in (numbers[:64].view(1, 4, 16), numbers[1:].view(1, 4, 16)):
        assert aligned(value).data_ptr() % 16 == 0
        assert torch.equal(aligned(value), value)
    assert aligned(numbers).data_ptr() == numbers.data_ptr()


def _run(named):
    from orderless.ops.gpu.form import run

    return run(call_of(named, {}, False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_only_inputs_are_saved_for_the_backward_pass(device, dtype):
    named = _tiny(device, 8)
    for name in ("x", "write", "read", "field", "field_write"):
        named[name] = named[name].detach().to(dtype).requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y, _ = _run(named)
    assert y.requires_grad
    inputs = {value.data_ptr() for value in named.values()}
    assert saved
    assert {t.data_ptr() for t in saved} <= inputs


@pytest.mark.parametrize("call", [(1,), (18, ("gate", "state"))], ids=str)
def test_compiles_as_one_graph(device, call):
    named = _tiny(device, *call)
    compiled = torch.compile(_run, fullgraph=True, backend="aot_eager")

    def with_gradients(run):
        y, state = run(named)
        return y, state, *torch.autograd.grad(y.sum() + state.sum(), list(named.values()))

    for got, expected in zip(with_gradients(compiled), with_gradients(_run), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("coupling", ["field", "feedback"])
def test_a_second_derivative_is_refused(device, coupling):
    named, _ = arguments((1, 2, 2, 16, 1, 1), (coupling,))
    named = {name: value.float().to(device).requires_grad_() for name, value in named.items()}
    y, _ = _run(named)
    leaves = [named[name] for name in ("x", "step", "h", "write")]
    for power in (1, 2):  # the gradient of a linear function depends on inputs alone
        firsts = torch.autograd.grad(
            y.pow(power).sum(), leaves, create_graph=True, retain_graph=True
        )
        for first in firsts:
            with pytest.raises(RuntimeError, match="once"):
                torch.autograd.grad(first.square().sum(), named["read"], retain_graph=True)


@pytest.mark.parametrize(
    ("batch", "variables", "block"), [(64, 1, 4), (4096, 1, 1), (64, 3, 4), (1, 7, 4)]
)
def test_few_kinds_of_programs_are_compiled(device, batch, variables, block):
    from orderless.ops.gpu.plan import plan_scan

    x = torch.empty(batch, variables, 8, 16, device="meta")
    step, write = x.new_empty(batch, 8, 1), x.new_empty(batch, variables, 8, 2, 16)
    assert plan_scan(x, step, write, False).block == block


@pytest.mark.parametrize(
    ("capability", "available", "variables"),
    [
        ((8, 0), 166_912, 4),  # A100
        ((8, 6), 101_376, 2),  # RTX 30, A10
        ((8, 9), 101_376, 2),  # RTX 40, L4
        ((9, 0), 232_448, 4),  # H100
        ((12, 0), 101_376, 2),  # RTX 50
    ],
)
def test_programs_are_as_large_as_a_gpu_has_memory_for(
    device, capability, available, variables, monkeypatch
):
    from orderless.ops.gpu import plan, unsupported

    _pretend(monkeypatch, capability, available)
    assert unsupported(0) is None
    assert plan._most_variables(torch.device("cuda", 0)) == variables


FACTS = CallFacts(
    device=torch.device("cuda", 0),
    dtype=torch.float32,
    empty=False,
    time=32,
    head_size=16,
    variable_stride=512,
    constant_in_time=False,
    full_mean=False,
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": torch.device("cpu")}, "x lies on cpu"),
        ({"dtype": torch.float64}, "float64"),
        ({"empty": True}, "empty"),
        ({"head_size": 12}, "12"),
        ({"variable_stride": 2**28}, str(2**28)),
        ({"full_mean": True}, "closed form"),
    ],
    ids=str,
)
def test_what_the_kernels_cannot_run_goes_to_chunked_with_a_reason(
    device, change, reason, monkeypatch
):
    _pretend(monkeypatch, (9, 0), 232_448)
    assert VI_SCAN.choose(FACTS).name == "triton"
    refused, *others = VI_SCAN.explain(replace(FACTS, **change))
    assert (refused.form, refused.verdict) == ("triton", "refuses")
    assert reason in refused.reason
    chosen = next(row.form for row in others if row.verdict == "chosen")
    assert chosen == ("reference" if "full_mean" in change else "chunked")


def test_on_other_gpus_and_versions_of_triton_chunked_runs(device, monkeypatch):
    import triton

    _pretend(monkeypatch, (7, 5), 65_536)  # T4
    assert VI_SCAN.choose(FACTS).name == "chunked"
    assert "7.5 and 65536" in VI_SCAN.explain(FACTS)[0].reason
    _pretend(monkeypatch, (9, 0), 232_448)
    monkeypatch.setattr(triton, "__version__", "3.5.1")
    assert "3.5.1" in VI_SCAN.explain(FACTS)[0].reason


def _pretend(monkeypatch, capability, available):
    """As on another GPU, until the test ends."""
    from orderless.ops import gpu
    from orderless.ops.gpu import plan

    for home, cached in ((gpu, "unsupported"), (plan, "_most_variables")):  # with another memory
        monkeypatch.setattr(home, cached, cache(getattr(home, cached).__wrapped__))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    properties = SimpleNamespace(shared_memory_per_block_optin=available)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)


def test_kernels_are_launched_where_their_tensors_lie(device, monkeypatch):
    from orderless.ops.gpu import autograd

    places = []
    original = torch.cuda.device_of
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: places.append(x) or original(x))
    x, write = torch.ones(1, 2, 3, 4, device=device), torch.ones(1, 2, 3, 2, 5, device=device)
    autograd.pool_states(write, x, torch.ones(1, device=device), None)
    assert len(places) == 1
    assert places[0].data_ptr() == write.data_ptr()


def test_operators_are_registered_as_the_compiler_expects(device):
    from orderless.ops.gpu import autograd

    named = _tiny(device, 8)
    own = [named[name] for name in ("x", "step", "h", "v", "vh", "write", "read")]
    mask = torch.ones(1, 1, 2, dtype=torch.bool, device=device)
    field = (named["field"], named["field_write"])
    rest = (*field, None, named["skip"], None, named["state"], mask, False)
    drive = torch.randn(1, 2, 2, 8, 16, device=device, requires_grad=True)
    rates, deviates = own[2:5], torch.ones(1, device=device)
    share = torch.ones(1, device=device)
    parts = ("test_schema", "test_autograd_registration", "test_faketensor")
    for operator, given in (
        (autograd.scan, (*own, *rest)),
        (
            autograd.mean_mode,
            (drive, *field, own[1], *rates, *rates, None, deviates, False),
        ),
        (autograd.pool_states, (own[5], own[0], share, mask)),
    ):
        torch.library.opcheck(operator, given, test_utils=parts)


@pytest.mark.gpu
@needs_gpu
def test_runs_in_a_cuda_graph():
    named = _gpu_call()
    expected, _ = _scan(named)
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y, _ = _scan(named)
        y.zero_()
        graph.replay()
    torch.testing.assert_close(y, expected)


def test_a_call_on_the_cpu_is_refused_with_the_reason():
    from orderless.errors import FormUnavailable

    named, _ = arguments((1, 1, 2, 1, 1, 1))
    with pytest.raises(FormUnavailable, match="x lies on cpu"):
        _scan(named)
