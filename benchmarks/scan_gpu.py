"""The scan on a GPU: times, errors and bytes, all from one run.

    python -m benchmarks.scan_gpu --commit "$(git rev-parse HEAD)" --output benchmarks/results

Sizes are (batch, variables, time, channels, states), one head for 64 channels. Times are medians of
CUDA events; all repeats are kept in the file, each of a graph of some passes. Inputs that fit the
cache are rotated. Where mamba-ssm is installed, its scans are timed in the same run.

A run that was stopped is continued by the same command on a card of the same name, group by group;
"runs" says which groups are of which run, and what copy bandwidth was then.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path
from time import perf_counter

import torch
import triton
import triton.language as tl

from benchmarks import mamba_peers
from orderless.ops import Generator, vi_scan

MAIN = (32, 256, 256, 64, 16)


def timed(run, repeats=20):
    """Medians of what the device takes: it is kept busy until the host has launched all of it."""
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(400_000)  # cycles, a fifth of a millisecond
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return {"median_ms": sorted(times)[len(times) // 2], "all_ms": times}


def as_graph(run, times=1):
    """`run` as one CUDA graph: what the device does, without the host between launches.

    The graph knows addresses only: whoever replays it has to keep alive what `run` reads.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()

    def replay(inputs=run):
        graph.replay()

    return replay


def timed_graph(*runs, repeats=20):
    """Medians of a pass in a graph that holds `runs` in turn, for a millisecond or once.

    So the launch of a graph, 6 us, counts little: in a network it is one for all layers.
    """

    def run_all():
        for run in runs:
            run()

    graph = as_graph(run_all)
    rounds = max(1, round(1 / timed(graph, 3)["median_ms"]))
    if rounds > 1:
        graph = as_graph(run_all, rounds)
    result = timed(graph, repeats)
    result["passes"] = rounds * len(runs)
    result["median_ms"] /= result["passes"]
    return result


def copy_bandwidth():
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    result = timed(lambda: target.copy_(source))
    result["bytes_per_s"] = 2 * source.numel() * 4 / result["median_ms"] * 1e3
    return result


def arguments(sizes, dtype, coupling="none", seed=0, device="cuda"):
    batch, variables, time, channels, states = sizes
    heads = max(1, channels // 64)
    random = torch.Generator("cpu" if device == "cpu" else device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, device=device, generator=random)

    def rates():
        h, v = (-8 * torch.rand(heads, states, device=device, generator=random) - 0.1 for _ in "hv")
        return Generator(h, v, normal(heads, states))

    named = {
        "x": normal(batch, variables, time, channels).to(dtype),
        "step": 0.1 * torch.rand(batch, time, heads, device=device, generator=random),
        "generator": rates(),
        "write": normal(batch, variables, time, 2, states).to(dtype),
        "read": normal(batch, variables, time, 2, states).to(dtype),
        "skip": normal(channels),
    }
    if coupling == "field":
        named["field"] = normal(batch, time, channels).to(dtype)
        named["field_write"] = normal(batch, time, 2, states).to(dtype)
    if coupling == "feedback":
        named["mean_generator"] = rates()
    return named


def leaves(named):
    flat = []
    for value in named.values():
        flat += list(value) if isinstance(value, Generator) else [value]
    return [value.requires_grad_() for value in flat]


def forward(sizes, dtype, coupling="none"):
    named = arguments(sizes, dtype, coupling)

    def run():
        with torch.no_grad():
            vi_scan(**named, form="triton")

    return timed_graph(run)


def both_ways(sizes, dtype, coupling="none", seed=0):
    """A forward and backward pass, to be run."""
    named = arguments(sizes, dtype, coupling, seed)
    flat = leaves(named)
    d_y = torch.randn_like(named["x"])

    def run():
        y, _ = vi_scan(**named, form="triton")
        torch.autograd.grad(y, flat, d_y)

    return run


def training(sizes, dtype, coupling="none", sets=1):
    """Forward and backward; the small shape rotates among several sets of inputs."""
    return timed_graph(*(both_ways(sizes, dtype, coupling, seed) for seed in range(sets)))


def sustained(run, seconds=1.5, repeats=20):
    """Times of a card that has been busy with `run` and nothing else, as in training.

    By then it is at its power limit, which decides the clock: the busier, the lower.
    """
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * repeats + 1)]
    for mark in marks[:-1]:
        mark.record()
        run()
    marks[-1].record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in pairwise(marks)]
    return times[repeats:]  # those before keep it busy while the host gets ahead


def per_variable(counts, dtype, repeats=20):
    """Forward and backward by the number of variables: sustained, and all at the same clock.

    A graph holds as many passes as make up for fewer variables. For the same clock graphs take
    turns, with pauses in which the card does not get to its power limit.
    """
    graphs, passes = {}, {}
    for variables in counts:
        run = both_ways((32, variables, 256, 64, 16), dtype)
        passes[variables] = round(max(counts) / variables)
        graphs[variables] = as_graph(run, passes[variables])
    busy = {variables: sustained(graphs[variables], repeats=repeats) for variables in counts}
    found = {variables: [] for variables in counts}
    for _ in range(repeats):
        for variables in counts:
            found[variables] += timed(graphs[variables], 1)["all_ms"]
    for variables, times in found.items():
        median, of_busy = (
            sorted(all_ms)[repeats // 2] / passes[variables] for all_ms in (times, busy[variables])
        )
        result = {
            "median_ms": median,
            "passes": passes[variables],
            "us_per_variable": median / variables * 1e3,
            "sustained_us_per_variable": of_busy / variables * 1e3,
            "all_ms": times,
            "sustained_all_ms": busy[variables],
        }
        yield variables, result


def kernel_times(sizes, dtype, coupling="none", repeats=5):
    """Microseconds a forward and backward pass spends in each kernel; host time does not count."""
    run = both_ways(sizes, dtype, coupling)
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    times = {event.key[:60]: event.device_time_total / repeats for event in profile.key_averages()}
    return {name: round(us, 1) for name, us in times.items() if us >= 1}


def minimal_bytes(sizes, dtype):
    """x, write and read once each, and y. The last state, which is written too, does not count."""
    batch, variables, time, channels, states = sizes
    size = 2 if dtype == torch.bfloat16 else 4
    rows = batch * variables * time
    return size * rows * (2 * channels + 4 * states)


def errors(dtype, coupling):
    """Errors by norm against the reference in float64, of the output and of every gradient."""
    named = arguments((2, 24, 128, 64, 16), dtype, coupling)
    flat = leaves(named)
    names = [
        name + (f".{part}" if isinstance(value, Generator) else "")
        for name, value in named.items()
        for part in (("h", "v", "vh") if isinstance(value, Generator) else ("",))
    ]

    def exact(value):
        if isinstance(value, Generator):
            return Generator(*(exact(part) for part in value))
        return value.detach().double().requires_grad_()

    wide = {name: exact(value) for name, value in named.items()}
    y, _ = vi_scan(**named, form="triton")
    expected, _ = vi_scan(**wide, form="reference")
    random = torch.Generator(y.device).manual_seed(1)
    d_y = torch.randn(y.shape, device=y.device, generator=random).to(y.dtype)
    got = [y, *torch.autograd.grad(y, flat, d_y)]
    want = [expected, *torch.autograd.grad(expected, leaves(wide), d_y.double())]
    return {
        name: float((a.detach().double() - b.detach()).norm() / b.detach().norm())
        for name, a, b in zip(["y", *names], got, want, strict=True)
    }


def saved_bytes(coupling):
    named = arguments((4, 64, 64, 64, 16), torch.bfloat16, coupling)
    flat = leaves(named)
    saved = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.setdefault(t.data_ptr(), t) is None or t, lambda t: t
    ):
        vi_scan(**named, form="triton")
    pointers = {value.data_ptr() for value in flat}
    others = [t for pointer, t in saved.items() if pointer not in pointers]
    return {
        "inputs": sum(value.numel() * value.element_size() for value in flat),
        "beside_inputs": sum(t.numel() * t.element_size() for t in others),
        "beside_inputs_shapes": [list(t.shape) for t in others],
    }


@triton.jit
def chain(x, write, read, decay, held, h, y, first, count, time,
          WIDTH: tl.constexpr, STATES: tl.constexpr, VARIABLES: tl.constexpr):  # fmt: skip
    """An ordered scan along the variables: one program per (batch, time), `count` variables."""
    pid = tl.program_id(0).to(tl.int64)
    b, t = pid // time, pid % time
    n, d = tl.arange(0, STATES), tl.arange(0, WIDTH)
    keep = tl.load(decay + pid * STATES + n)[:, None]
    gain = tl.load(held + pid * STATES + n)[:, None]
    at = pid * STATES * WIDTH + n[:, None] * WIDTH + d[None, :]
    state = tl.load(h + at)
    for c in range(first, first + count):
        row = (b * VARIABLES + c) * time + t
        w = tl.load(write + row * 2 * STATES + STATES + n).to(tl.float32)[:, None]
        r = tl.load(read + row * 2 * STATES + STATES + n).to(tl.float32)[:, None]
        signal = tl.load(x + row * WIDTH + d).to(tl.float32)[None, :]
        state = keep * state + gain * w * signal
        out = tl.load(y + row * WIDTH + d).to(tl.float32) + tl.sum(r * state, 0)
        tl.store(y + row * WIDTH + d, out.to(y.dtype.element_ty))
    tl.store(h + at, state)


def ordered(dtype):
    """The ordered 2D scan: the same kernel along time, then the chain along the variables."""
    batch, variables, time, channels, states = MAIN
    named = arguments(MAIN, dtype)
    x, write, read = named["x"], named["write"], named["read"]
    decay = torch.rand(batch * time, states, device="cuda")
    h = torch.zeros(batch * time, states, channels, device="cuda")

    def run(at_once):
        with torch.no_grad():
            y, _ = vi_scan(**named, form="triton")
        for first in range(0, variables, at_once):
            chain[(batch * time,)](
                x, write, read, decay, decay, h, y, first, at_once, time,
                WIDTH=channels, STATES=states, VARIABLES=variables, num_warps=2,
            )  # fmt: skip

    return {
        "one launch per variable": timed_graph(lambda: run(1), repeats=10),
        "all variables in one launch": timed_graph(lambda: run(variables), repeats=10),
    }


FIRST_CALL = """
import time
import torch
from benchmarks import scan_gpu as g
named = g.arguments(g.MAIN, torch.bfloat16)
g.leaves(named)
d_y = torch.randn_like(named["x"])
torch.cuda.synchronize()
for _ in range(2):
    begun = time.perf_counter()
    y, _ = g.vi_scan(**named, form="triton")
    torch.cuda.synchronize()
    print(time.perf_counter() - begun)
    (y * d_y).sum().backward()  # as in training; grad() of a given d_y would load SymPy first
    torch.cuda.synchronize()
    print(time.perf_counter() - begun)
"""


def first_calls(repeats=3):
    """Seconds of the first call of a process, when nothing was ever compiled and when all was.

    Medians: the first process of a machine also reads Triton and the C compiler from a disk.
    """
    found = {"nothing compiled before": [], "compiled by an earlier process": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for times in found.values():
                done = subprocess.run(
                    [sys.executable, "-c", FIRST_CALL],
                    env=os.environ | {"TRITON_CACHE_DIR": cache},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                forward, both, *_ = map(float, done.stdout.split())
                times.append({"forward_s": forward, "forward_and_backward_s": both})
    return {
        when: {name: statistics.median(each[name] for each in times) for name in times[0]}
        | {"all": times}
        for when, times in found.items()
    }


BF16, FP32 = torch.bfloat16, torch.float32
KINDS = (("bf16", BF16), ("fp32", FP32))


def plain_passes(rate):
    for coupling in ("none", "field", "feedback"):
        result = forward(MAIN, BF16, coupling)
        ideal = minimal_bytes(MAIN, BF16) / rate * 1e3
        result["share_of_copy_bandwidth"] = ideal / result["median_ms"]
        yield f"forward bf16 {coupling}", result
    yield "forward fp32 none", forward(MAIN, FP32)
    for coupling in ("none", "field"):
        for name, dtype in KINDS:
            yield f"training {name} {coupling}", training(MAIN, dtype, coupling)
        for sizes, sets in (((32, 321, 64, 128, 16), 1), ((32, 7, 64, 64, 16), 8)):
            yield f"training bf16 {coupling} {sizes}", training(sizes, BF16, coupling, sets)
    for states, (name, dtype) in product((8, 32), KINDS):
        yield f"training {name} none, {states} states", training((*MAIN[:-1], states), dtype)


def peers(rate):
    for name, dtype in KINDS:
        yield f"training {name}, selective scan", timed(mamba_peers.selective_scan(MAIN, dtype))
    for (scan, both_passes), (name, dtype) in product(mamba_peers.DUALS.items(), KINDS):
        run = both_passes(MAIN, dtype)
        yield f"training {name}, {scan}", timed(run)
        # Its many kernels take the host as long to launch as some take to run.
        yield f"training {name}, {scan}, as a graph", timed(as_graph(run))


def numbers_of_variables(rate):
    for name, dtype in KINDS:
        for variables, result in per_variable((64, 128, 512, 862), dtype):
            yield f"training {name} none, {variables} variables", result


def long_series(rate):
    for variables, time in product((8, 32, 64), (16_384, 131_072)):
        sizes = (1, variables, time, 64, 16)
        ideal = minimal_bytes(sizes, BF16) / rate * 1e3
        for coupling in ("none", "field", "feedback"):
            result = forward(sizes, BF16, coupling)
            result["times_the_bandwidth_bound"] = result["median_ms"] / ideal
            yield f"forward bf16 {coupling} {sizes}", result
            yield f"training bf16 {coupling} {sizes}", training(sizes, BF16, coupling)


def ordered_scan(rate):
    yield "ordered bf16 forward", ordered(BF16)


def errors_and_bytes(rate):
    for (name, dtype), coupling in product(KINDS, ("none", "field", "feedback")):
        yield f"errors {name} {coupling}", errors(dtype, coupling)
    for coupling in ("none", "field"):
        yield f"saved {coupling}", saved_bytes(coupling)


def kernels(rate):
    for coupling, (name, dtype) in product(("none", "field"), KINDS):
        yield f"kernels {name} {coupling}", kernel_times(MAIN, dtype, coupling)


# Each takes the copy bandwidth, in bytes a second, and gives names and results.
GROUPS = (
    plain_passes, numbers_of_variables, long_series, ordered_scan, errors_and_bytes, kernels, peers,
)  # fmt: skip


def in_words(name, result):
    if "median_ms" in result:
        rest = {k: round(v, 3) for k, v in result.items() if not isinstance(v, list)}
        del rest["median_ms"]
        return f"{name}: {result['median_ms']:.4f} ms {rest or ''}"
    if name.startswith("errors"):
        worst = max(result, key=lambda key: result[key])
        return f"{name}: y {result['y']:.1e}, worst {worst} {result[worst]:.1e}"
    if name.startswith("ordered"):
        return f"{name} { {key: round(value['median_ms'], 4) for key, value in result.items()} }"
    return f"{name} {result}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", type=Path, required=True)
    names = ["first_calls", *(group.__name__ for group in GROUPS)]
    parser.add_argument(
        "--groups", nargs="+", choices=names, default=names, help="time these alone"
    )
    options = parser.parse_args()
    report = find_record(options.output, options.commit)
    if "first call" not in report and "first_calls" in options.groups:
        # Before this process takes hold of the card, which would slow down those that are timed.
        report["first call"] = first_calls()
        print(in_words("first call", report["first call"]), flush=True)
    device = torch.cuda.get_device_properties(0)
    conditions = {
        "command": f"-m benchmarks.scan_gpu --commit {options.commit} --output FOLDER",
        "commit": options.commit,
        "device": device.name,
        "multiprocessors": device.multi_processor_count,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }
    other = {
        name: report[name]
        for name in conditions.keys() & report
        if report[name] != conditions[name]
    }
    if other:
        parser.error(f"the record to be continued was made with {other}; give another folder")
    report |= conditions
    bandwidth = copy_bandwidth()
    run = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "groups": [], "copy": bandwidth}
    done = [name for earlier in report.setdefault("runs", []) for name in earlier["groups"]]
    report["runs"].append(run)
    card = device.name.lower().replace(" ", "_")
    target = options.output / f"scan_gpu_{card}_{options.commit[:7]}.json"
    options.output.mkdir(parents=True, exist_ok=True)
    for group in GROUPS:
        if group.__name__ in done or group.__name__ not in options.groups:
            continue
        if group is peers and not mamba_peers.installed():
            continue
        for name, result in group(bandwidth["bytes_per_s"]):
            report[name] = result
            print(in_words(name, result), flush=True)
        run["groups"].append(group.__name__)
        if group is peers:
            report["mamba-ssm"] = mamba_peers.installed()
        target.write_text(json.dumps(report, indent=1) + "\n")


def find_record(folder, commit):
    """What an earlier run of this commit has left, to be continued."""
    for path in folder.glob(f"scan_gpu_*_{commit[:7]}.json"):
        return json.loads(path.read_text())
    return {}


if __name__ == "__main__":
    main()
