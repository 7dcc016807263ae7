"""Compiles the kernels for a GPU that is not there, and prints a line for each variant of them.

    python tests/ops/gpu/machine_code.py bf16|fp32 STATES CAPABILITY VARIABLES [--digest]

A line has the shared memory that a program takes, and with `--digest` a digest of its machine code:
then the Gluon kernels are compiled also without each of their options, and without all. With
another source tree first on PYTHONPATH and `diff` it says whether two commits run the same code.

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

from orderless.ops.gpu import shared, tables
from orderless.ops.gpu.backward import scan_backward
from orderless.ops.gpu.forward import scan_forward
from orderless.ops.gpu.states import segment_states

# Arguments that point to inputs and what is made of them, and those that point to float32.
LOW = "x write read field_write tables_bf16 base field factors gate y states d_y d_x d_write d_read"
LOW += " weights d_weights d_field partial sums"
WIDE = "step rate_h rate_v rate_vh tables over_chunks over_segments ends before start shared skip"
WIDE += " end d_end d_start d_skip borders drive table own_table deviates z scale total"
WIDE += " other_parts other_total other_h other_v other_vh d_drive d_step d_rates given_step"
WIDE += " given_rates back"
SIZES = {"WIDTH": 64, "PADDED": 16, "AT_ONCE": 32, "TIMES": 64, "UNROLL": 8, "STAGES": 4}
SIZES |= {"OTHER_BLOCK": 64, "PRECISION": "tf32"}
# Kernel, warps (of the Gluon kernels for each variable), and which options are off.
TRITON = (
    (tables.sums_gradient_kernel, 4, ()),
    (tables.sum_parts_kernel, 8, ()),
    (shared.readout_kernel, 4, ()),
    (shared.pool_kernel, 4, ()),
    (shared.pool_kernel, 4, ("ADD", "INNER")),
    (shared.carry_segments, 1, ()),
    (shared.carry_segments, 1, ("ADJOINT",)),
    (shared.fill_steps, 1, ()),
    (shared.trajectory, 1, ("ENDS", "ADJOINT")),
    (shared.trajectory, 1, ("ENDS", "HAS_OWN", "HAS_FIELD")),
    (shared.trajectory, 1, ("HAS_OWN", "ADJOINT")),
    (shared.trajectory, 1, ("HAS_OWN", "HAS_FIELD")),
    (shared.trajectory_gradients, 1, ()),
    (shared.steps_gradient, 4, ()),
)
GLUON = (
    (scan_forward, 1, ("base",)),
    (scan_forward, 1, ("field",)),
    (segment_states, 2, ("ADJOINT",)),
    (segment_states, 2, ("field",)),
    (scan_backward, 1, ()),
)
# Arguments of these that may be absent, and what is absent with them.
OPTIONAL = ("start", "base", "field", "d_end", "skip", "gate", "mask", "ADJOINT")
TOGETHER = {"base": "shared", "field": "factors"}


def main(low: str, states: str, capability: str, variables: str, *flags: str) -> None:
    """Compile, and print a line a variant."""
    digest = "--digest" in flags
    triton.knobs.compilation.disable_line_info = True  # on it depends which registers are used
    only = [flag for flag in flags if not flag.startswith("--")]
    for kernel, warps, off in _variants(low, (states, capability), int(variables), digest):
        if only and kernel.__name__ not in only:
            continue
        compiled = _compile(kernel, warps, off, low, int(states), int(capability), int(variables))
        without = ",".join(off) or "nothing"
        code = _digest(compiled.asm["cubin"], kernel.__name__) if digest else ""
        print(kernel.__name__, "without", without, compiled.metadata.shared, code, flush=True)


def _variants(low: str, place: tuple[str, str], variables: int, every: bool) -> Iterator[Any]:
    """Kernels, warps, and which options are off; those in plain Triton for one place alone."""
    if place == ("16", "90"):
        yield tables.fill_tables_kernel, 4, () if low == "bf16" else ("IS_BF16",)
        yield from TRITON
    for kernel, warps, off in _every_option() if every else GLUON:
        yield kernel, warps * variables, off


def _every_option() -> Iterator[Any]:
    for kernel, warps in {kernel: warps for kernel, warps, _ in GLUON}.items():
        names = [name for name in OPTIONAL if name in kernel.arg_names]
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
    types["mask"] = "*i1"
    if kernel is segment_states:
        types["states"] = "*fp32"
    if kernel is tables.sum_parts_kernel:
        types["parts"] = "*fp32"
    absent = {"tables" if low == "bf16" else "tables_bf16"}
    if kernel.is_gluon():  # these have one of the two for both
        types["tables"] = f"*{low}"
        absent = {name for one in off for name in (one, TOGETHER.get(one)) if one != "ADJOINT"}
    sizes = SIZES | {"BLOCK": block, "STATES": states}
    if kernel.__name__ in ("readout_kernel", "pool_kernel"):
        sizes |= {"BLOCK": 32, "TIMES": 4} if low == "bf16" else {"BLOCK": 16, "TIMES": 2}
    signature, constants, known = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name.isupper():
            constants[(i,)] = sizes.get(name, name not in off)
        elif name in absent:
            constants[(i,)] = None
        elif name in types or name.endswith(("_batch", "_variable", "_time", "channels", "_size")):
            known[(i,)] = [["tt.divisibility", 16]]
        signature[name] = "constexpr" if (i,) in constants else types.get(name, "i32")
    source = (GluonASTSource if kernel.is_gluon() else ASTSource)(
        kernel, signature, constants, known
    )
    options = {"num_warps": warps} | ({"maxnreg": 128} if kernel is segment_states else {})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _digest(binary: bytes, name: str) -> str:
    """Of the instructions alone: the rest of the binary names kernels, files and lines."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(binary)
        command = [triton.knobs.nvidia.nvdisasm.path, "-c", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = ("//", ".loc", ".file", ".headerflags")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(names)]
    code = "\n".join(lines).replace(name, "KERNEL")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


if __name__ == "__main__":
    main(*sys.argv[1:])
