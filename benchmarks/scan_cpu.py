"""The scan on one CPU thread: chunked against reference, one multiplication, and other layers.

    python -m benchmarks.scan_cpu

Times are of forward and backward, and taken in turns, so that a busy time of the machine meets
all of them; every repeat is in the record, and ratios are medians over the turns. A form that does
not give what the reference gives is not timed. Memory is the peak above the inputs, in a fresh
process. One multiplication is read in two ways: into a tensor that is there, the stricter one, and
`torch.mul(a, b)` as it stands, which also allocates its result.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.records import write_record
from orderless.nn import VI2DSSM
from orderless.nn.comparison import OrderedSSM2D, SelectiveSSM1D
from orderless.ops import Generator, vi_scan

SHAPES = ((4, 21, 96, 64, 16), (16, 7, 96, 64, 16), (1, 321, 96, 64, 16))  # B, C, T, D, N
FORMS = ("reference", "chunked")
CONSTANT = ((8, 16, 256, 32, 8), (2, 300, 256, 16, 8), (1, 7, 2048, 32, 16), (1, 4, 8192, 16, 8))
SHORT = ((32, 7), (128, 7), (1, 50))  # B, C of calls as networks make them
SHORT_SIZES = {"steps": 8, "channels": 32, "states": 8, "heads": 2}
REPEATS = 9
VARIABLES = (64, 128, 256, 512, 862)
LAYERS = (VI2DSSM, OrderedSSM2D, SelectiveSSM1D)
LAYER_VARIABLES = (16, 64, 256, 862)
LAYER_TIME, LAYER_CHANNELS = 256, 32


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {
        "cpu": _cpu(),
        "forms": [compare_forms(shape) for shape in SHAPES],
        "constant": [compare_constant(shape) for shape in CONSTANT],
        "short": [time_short_call(*sizes) for sizes in SHORT],
        "variables": compare_variables(),
        "layers": compare_layers(),
    }
    name = f"scan_cpu_{_cpu()}_torch{torch.__version__.split('+')[0]}_{date.today():%Y-%m-%d}"
    print("wrote", write_record(name, results))


def compare_forms(shape: tuple[int, ...]) -> dict:
    """Reference, chunked and one multiplication of a tensor [B,C,T,D,N]."""
    call = Call(*shape)
    call.must_agree()
    state = torch.randn(shape)
    product = torch.empty_like(state)
    seconds = in_turns(
        {
            "multiplication": lambda: torch.mul(state, state, out=product),
            "multiplication_allocating": lambda: torch.mul(state, state),
            **{form: lambda form=form: call.run(form) for form in FORMS},
        },
        REPEATS,
    )
    memory = {form: peak_memory(shape, form) for form in FORMS}
    result = {
        "shape": shape,
        "seconds": seconds,
        "reference_over_chunked": ratio(seconds, "reference", "chunked"),
        "chunked_over_multiplication": ratio(seconds, "chunked", "multiplication"),
        "chunked_over_allocating": ratio(seconds, "chunked", "multiplication_allocating"),
        "bytes_above_inputs": memory,
        "memory_chunked_over_reference": memory["chunked"] / memory["reference"],
    }
    each = {name: 1e9 * min(repeats) / state.numel() for name, repeats in seconds.items()}
    print(
        f"{shape}: reference {each['reference']:.1f}, chunked {each['chunked']:.2f}, multiplication"
        f" {each['multiplication']:.2f} ns an element; {result['reference_over_chunked']:.1f} times"
        f" faster, {result['chunked_over_multiplication']:.1f} multiplications"
        f" ({result['chunked_over_allocating']:.1f} allocating), memory"
        f" {memory['chunked'] / 2**20:.0f} of {memory['reference'] / 2**20:.0f} MiB",
        flush=True,
    )
    return result


def compare_constant(shape: tuple[int, ...]) -> dict:
    """Convolution and chunked where step, write and read are the same at every time."""
    call = Call(*shape, constant=True)
    call.must_agree("convolution")
    forms = ("convolution", "chunked")
    seconds = in_turns({form: lambda form=form: call.run(form) for form in forms}, REPEATS)
    faster = ratio(seconds, "chunked", "convolution")
    best = {form: 1e3 * min(repeats) for form, repeats in seconds.items()}
    print(
        f"{shape}, constant: convolution {best['convolution']:.1f}, chunked {best['chunked']:.1f}"
        f" ms; {faster:.1f} times faster",
        flush=True,
    )
    return {"shape": shape, "seconds": seconds, "chunked_over_convolution": faster}


def ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    """The median over the turns, each of which met the same time of the machine."""
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def time_short_call(batch: int, variables: int) -> dict:
    """A call as networks make them: few tokens, where what counts is the number of operations."""
    call = Call(batch, variables, **SHORT_SIZES)
    runs = {"forward": lambda: call.forward("chunked"), "both": lambda: call.run("chunked")}
    seconds = in_turns(runs, 5 * REPEATS)
    best = {name: min(repeats) for name, repeats in seconds.items()}
    print(
        f"short, {batch} x {variables} series of {SHORT_SIZES['steps']} tokens:"
        f" forward {1e3 * best['forward']:.2f} ms, with backward {1e3 * best['both']:.2f} ms",
        flush=True,
    )
    return {"batch": batch, "variables": variables, **SHORT_SIZES, "seconds": seconds}


def compare_variables() -> dict:
    """Time for a variable, as their number grows."""
    calls = {variables: Call(1, variables, 96, 64, 16) for variables in VARIABLES}
    runs = {str(v): lambda call=call: call.run("chunked") for v, call in calls.items()}
    seconds = in_turns(runs, REPEATS)
    each = {v: min(repeats) / int(v) for v, repeats in seconds.items()}
    spread = max(each.values()) / min(each.values()) - 1
    text = ", ".join(f"{v}: {1e3 * value:.3f}" for v, value in each.items())
    print(f"ms a variable, by their number: {text}; spread {100 * spread:.0f} %", flush=True)
    return {"seconds": seconds, "seconds_per_variable": each, "spread": spread}


def compare_layers() -> list[dict]:
    results = []
    for variables in LAYER_VARIABLES:
        x = torch.randn(1, variables, LAYER_TIME, LAYER_CHANNELS)
        runs = {kind.__name__: training_step(kind(LAYER_CHANNELS), x) for kind in LAYERS}
        seconds = in_turns(runs, 2)
        results.append({"shape": tuple(x.shape), "seconds": seconds})
        text = ", ".join(f"{name} {min(repeats):.3f} s" for name, repeats in seconds.items())
        print(f"{variables} variables, {LAYER_TIME} times: {text}", flush=True)
    return results


def training_step(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(layer(x)[0].sum(), list(layer.parameters()))


class Call:
    """`vi_scan` with a field and a skip, on noise."""

    def __init__(
        self,
        batch: int,
        variables: int,
        steps: int,
        channels: int,
        states: int,
        heads: int = 1,
        dtype: torch.dtype = torch.float32,
        constant: bool = False,
    ):
        times = 1 if constant else steps
        self.constant = constant

        def noise(*size: int) -> Tensor:
            return torch.randn(*size, dtype=dtype).requires_grad_()

        def rates() -> Tensor:
            return (-0.1 - 3 * torch.rand(heads, states, dtype=dtype)).requires_grad_()

        self.arguments = {
            "x": noise(batch, variables, steps, channels),
            "step": (0.2 * torch.rand(batch, times, heads, dtype=dtype)).requires_grad_(),
            "generator": Generator(rates(), rates(), noise(heads, states)),
            "write": noise(batch, variables, times, 2, states),
            "read": noise(batch, variables, times, 2, states),
            "field": noise(batch, steps, channels),
            "field_write": noise(batch, times, 2, states),
            "skip": noise(channels),
        }
        self.gradient = torch.randn(batch, variables, steps, channels, dtype=dtype)

    def forward(self, form: str) -> Tensor:
        """The output alone."""
        with torch.no_grad():
            return vi_scan(**self.arguments, form=form)[0]

    def run(self, form: str) -> tuple[Tensor, ...]:
        """The output, and the gradients of all arguments."""
        y, _ = vi_scan(**self.arguments, form=form)
        leaves = []
        for value in self.arguments.values():
            leaves.extend(value if isinstance(value, Generator) else [value])
        return y, *torch.autograd.grad(y, leaves, self.gradient)

    def must_agree(self, form: str = "chunked") -> None:
        """Refuse to time a form that is wrong. In float64: sums over many terms cancel."""
        exact = Call(*self._small_shape(), dtype=torch.float64, constant=self.constant)
        for true, found in zip(exact.run("reference"), exact.run(form), strict=True):
            error = ((found - true).norm() / true.norm()).item()
            if not error <= 1e-10:
                raise SystemExit(f"{form} is wrong by {error:.1e}: not timed")

    def _small_shape(self) -> list[int]:
        batch, variables, steps, channels = self.gradient.shape
        return [
            min(batch, 4),
            min(variables, 64),
            steps,
            channels,
            self.arguments["write"].shape[-1],
        ]


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run()
    gc.disable()
    for _ in range(repeats):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    gc.enable()
    return seconds


def peak_memory(shape: tuple[int, ...], form: str) -> int:
    """Bytes above the inputs at the peak, in a process of its own.

    The most of three: a system that takes pages back during a run hides part of the peak.
    """
    command = [sys.executable, "-m", "benchmarks.scan_cpu", "peak", json.dumps(shape), form]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return max(int(done.stdout) for done in runs)


def print_peak_memory(shape: str, form: str) -> None:
    torch.set_num_threads(1)
    Call(1, 2, 40, 4, 2).run(form)  # libraries are loaded on first use
    call = Call(*json.loads(shape))
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _status("VmRSS")
    call.run(form)
    print(_status("VmHWM") - before)


def _status(name: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return 1024 * int(line.split()[1])


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line for line in lines if line.startswith("model name")).split(":")[1]
    flags = next(line for line in lines if line.startswith("flags")).split()
    width = next((name for name in ("avx512f", "avx2") if name in flags), "sse")
    words = [word for word in model.replace("(R)", "").split() if word[0].isalnum()]
    return "-".join([*words, width]).lower()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        print_peak_memory(*sys.argv[2:])
    else:
        main()
