"""Compiles the kernels for a GPU that is not there, and prints a line for each variant of them.

    python tests/ops/triton/machine_code.py bf16|fp32 STATES CAPABILITY VARIABLES [--digest]

A line has the shared memory that a program takes, and with `--digest` that of its machine code:
then those of `fast/` are compiled also without each of their options, and without all. With another
source tree first on PYTHONPATH and `diff` it says whether two commits run the same instructions.

It is a process of its own in tests, where the interpreter takes the place of the compiler.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from orderless.ops.triton import fast, shared_kernels, tables

# Arguments that point to inputs and what is made of them, and those that point to float32.
LOW = "x write read field_write quick base field factors gate y states d_y d_x d_write d_read"
LOW += " d_field partial sums"
WIDE = "step rate_h rate_v rate_vh tables over_chunks over_segments ends before start shared skip"
WIDE += " end d_end d_start d_skip borders drive table own_table deviates z"
WIDE += " other_h other_v other_vh d_drive d_step d_rates given_step given_rates back"
SIZES = {"WIDTH": 64, "PADDED": 16, "AT_ONCE": 32, "TIMES": 64, "UNROLL": 8, "STAGES": 4}
# Kernel, warps (of `fast/` for each variable), and which options are off.
PLAIN = (
    (tables.sums_gradient, 4, ()),
    (shared_kernels.carry_segments, 1, ()),
    (shared_kernels.carry_segments, 1, ("ADJOINT",)),
    (shared_kernels.fill_steps, 1, ()),
    (shared_kernels.trajectory, 1, ("ENDS", "ADJOINT")),
    (shared_kernels.trajectory, 1, ("ENDS", "HAS_OWN", "HAS_FIELD")),
    (shared_kernels.trajectory, 1, ("HAS_OWN", "ADJOINT")),
    (shared_kernels.trajectory, 1, ("HAS_OWN", "HAS_FIELD")),
    (shared_kernels.trajectory_gradients, 1, ()),
    (shared_kernels.steps_gradient, 4, ()),
)
BY_HAND = (
    (fast.fast_forward, 1, ("HAS_BASE",)),
    (fast.fast_forward, 1, ("HAS_FIELD",)),
    (fast.fast_states, 2, ("ADJOINT",)),
    (fast.fast_states, 2, ("HAS_FIELD",)),
    (fast.fast_backward, 1, ()),
)


def main(low: str, states: str, capability: str, variables: str, *flags: str) -> None:
    """Compile, and print a line a variant."""
    digest = "--digest" in flags
    for kernel, warps, off in _variants(low, (states, capability), int(variables), digest):
        compiled = _compile(kernel, warps, off, low, int(states), int(capability), int(variables))
        without = ",".join(off) or "nothing"
        code = _digest(compiled.asm["cubin"]) if digest else ""
        print(kernel.__name__, "without", without, compiled.metadata.shared, code)


def _variants(low: str, place: tuple[str, str], variables: int, every: bool) -> Iterator[Any]:
    """Kernels, warps, and which options are off; plain ones for one place alone."""
    if place == ("16", "90"):
        yield tables.fill_tables, 4, () if low == "bf16" else ("HAS_QUICK",)
        yield from PLAIN
    for kernel, warps, off in _every_option() if every else BY_HAND:
        yield kernel, warps * variables, off


def _every_option() -> Iterator[Any]:
    for kernel, warps in {kernel: warps for kernel, warps, _ in BY_HAND}.items():
        names = [one for one in kernel.arg_names if one.startswith("HAS_") or one == "ADJOINT"]
        for off in ((), *((name,) for name in names), tuple(names)):
            yield kernel, warps, off


def _compile(
    kernel: Any,
    warps: int,
    off: tuple[str, ...],
    low: str,
    states: int,
    capability: int,
    block: int,
) -> Any:
    types = dict.fromkeys(LOW.split(), f"*{low}") | dict.fromkeys(WIDE.split(), "*fp32")
    types["present"] = "*i1"
    if kernel is fast.fast_states:
        types["states"] = "*fp32"
    unused = "tables" if low == "bf16" else "quick"
    sizes = SIZES | {"BLOCK": block, "STATES": states}
    signature, constants, known = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name.isupper():
            constants[(i,)] = sizes.get(name, name not in off)
        elif name == unused:
            constants[(i,)] = None
        elif name in types or name.endswith(("_batch", "_variable", "_time", "channels", "_size")):
            known[(i,)] = [["tt.divisibility", 16]]
        signature[name] = "constexpr" if (i,) in constants else types.get(name, "i32")
    by_hand = kernel.__module__.startswith(fast.__name__)
    source = (GluonASTSource if by_hand else ASTSource)(kernel, signature, constants, known)
    options = {"num_warps": warps} | ({"maxnreg": 128} if kernel is fast.fast_states else {})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _digest(binary: bytes) -> str:
    """Of the instructions alone: the rest of the binary names files and lines."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(binary)
        command = [triton.knobs.nvidia.nvdisasm.path, "-c", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = ("//", ".loc", ".file", ".headerflags")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(names)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main(*sys.argv[1:])
