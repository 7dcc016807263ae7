"""`orderless doctor`: what runs on this machine: versions, devices, and the form of each call."""

import argparse
import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orderless.ops.call import CallFacts

EXAMPLES = """\
  orderless doctor"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The doctor asks for nothing."""


def run(arguments: argparse.Namespace) -> None:
    """Print versions, and for typical calls on each device every form with verdict and reason."""
    import torch
    from rich.table import Table

    from orderless import __version__
    from orderless.cli.console import open_console
    from orderless.ops import VI_SCAN

    console = open_console()
    console.print(
        f"orderless {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"threads {torch.get_num_threads()}",
        highlight=False,
    )
    for device in _devices():
        console.print(f"\n{device}: {_describe(device)}", style="bold", highlight=False)
        table = Table("call", "operator", "form", "verdict", "reason")
        for name, facts in _typical_calls(device).items():
            for verdict in VI_SCAN.explain(facts):
                table.add_row(
                    name,
                    verdict.op,
                    verdict.form,
                    verdict.verdict,
                    verdict.reason,
                    style="green" if verdict.verdict == "chosen" else None,
                )
                name = ""  # named once, on the first of its rows
            table.add_section()
        console.print(table)
    console.print("A call runs in the first form that can. All forms of an operator agree.")


def _devices() -> list[str]:
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else ["cpu", accelerator.type]


def _describe(device: str) -> str:
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    return platform.processor() or platform.machine() if device == "cpu" else device


def _typical_calls(device: str) -> dict[str, "CallFacts"]:
    """Facts of calls that users make: a batch of series, one tick of a stream, constant steps."""
    return {
        "a batch of series": _facts(device, time=96, ticks=96),
        "the same, bfloat16": _facts(device, time=96, ticks=96, dtype="bfloat16"),
        "constant step": _facts(device, time=96, ticks=1),
        "one tick of a stream": _facts(device, time=1, ticks=1),
    }


def _facts(device: str, *, time: int, ticks: int, dtype: str = "float32") -> "CallFacts":
    import torch

    from orderless.ops import Generator
    from orderless.ops.call import ScanCall

    def tensor(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=getattr(torch, dtype), device=device)

    rate = tensor(4, 16)
    call = ScanCall(
        x=tensor(4, 21, time, 64),
        step=tensor(4, ticks, 4),
        generator=Generator(rate, rate, rate),
        write=tensor(4, 21, ticks, 2, 16),
        read=tensor(4, 21, ticks, 2, 16),
    )
    return call.facts()
