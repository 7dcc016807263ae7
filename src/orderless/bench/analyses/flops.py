"""What one forward pass and one training step cost: operations and peak memory, in one setting.

Operations are those of matrix products and convolutions, two for each multiplication, counted on
the CPU, where our layer is made of products, and attention is taken apart into its own. Fourier
transforms and entry-wise work do not count, whoever does them.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from orderless.bench.config import CellConfig
from orderless.bench.measuring import OF_TENSORS, peak_of_tensors
from orderless.bench.models.peers import peer_builder
from orderless.bench.protocols import FAIR
from orderless.bench.records import Outcome, SeedResult
from orderless.bench.table import Metric, Table
from orderless.nn import PRESETS, ForecastingNetwork

PEERS = ("PatchTST", "iTransformer")
SIZES = {"variables": 321, "context": 96, "horizon": 720, "batch": 16}
"""The paper's setting: Electricity."""
OPTIONS = {**SIZES, "memory": OF_TENSORS}


def run(config: CellConfig) -> Outcome:
    """Count operations on the CPU; measure memory on the GPU where there is one."""
    sizes = config.settings
    torch.manual_seed(0)
    module = _build(config.model, sizes).eval()
    x = torch.randn(sizes["batch"], sizes["variables"], sizes["context"])
    begun = time.perf_counter()
    operations = count_operations(module, x)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module, x = module.to(device), x.to(device)
    figures = {
        "gigaflops": operations / 1e9,
        "weights": sum(p.numel() for p in module.parameters()) / 1e6,
        "forward_megabytes": _megabytes(lambda: _forward(module, x), module, x),
        "step_megabytes": _megabytes(lambda: _step(module, x), module, x),
    }
    seconds = round(time.perf_counter() - begun, 3)
    return Outcome((SeedResult(0, figures, seconds=seconds),), "none: simulated")


@torch.no_grad()
def count_operations(module: nn.Module, x: Tensor) -> int:
    """Operations of the matrix products and convolutions of a forward pass on the CPU."""
    # The counter does not see into the CPU's fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops()


def _build(model: str, sizes: dict[str, int]) -> nn.Module:
    context, horizon = sizes["context"], sizes["horizon"]
    if model in PEERS:
        return peer_builder(model, context, horizon, sizes["variables"])()
    preset = "paper" if "paper" in model else "default"
    return _Point(ForecastingNetwork(PRESETS[preset](context), context, horizon))


class _Point(nn.Module):
    def __init__(self, network: ForecastingNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).point


@torch.no_grad()
def _forward(module: nn.Module, x: Tensor) -> None:
    module(x)


def _step(module: nn.Module, x: Tensor) -> None:
    module.train()(x).square().mean().backward()


def _megabytes(work: Callable[[], None], module: nn.Module, x: Tensor) -> float:
    # Once before: gradients and what else is made at the first call stay.
    work()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return peak_of_tensors(work, [x, *module.state_dict().values(), *gradients]) / 1e6


TABLE = Table(
    "flops",
    "Operations and memory",
    run,
    ("random series",),
    dict.fromkeys(("orderless", "orderless, paper preset", *PEERS), OPTIONS),
    {
        FAIR: (
            Metric("gigaflops", "GFLOPs of a forward pass", 2),
            Metric("forward_megabytes", "peak MB of a forward pass", 1),
            Metric("step_megabytes", "peak MB of a training step", 1),
        )
    },
    (f"{SIZES['variables']} variables",),
    # A second seed would cost the same.
    drawn=(),
    simulated=True,
    peers=dict.fromkeys(PEERS, "neuralforecast"),
    comparable=False,
)
