"""Kernels compile for a GPU that is not there: what an emulation and the interpreter skip."""

import os
import subprocess
import sys

import pytest

# In a process of its own, for the interpreter would take the place of the compiler.
COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource
from orderless.ops.triton import fast, operators, shared_kernels, tables

low, (states, capability, variables) = sys.argv[1], map(int, sys.argv[2:])
lows = "x write read field_write quick base field factors gate y states d_y d_x d_write d_read"
lows += " d_field partial sums"
wides = "step rate_h rate_v rate_vh tables over_chunks over_segments ends before start shared skip"
wides += " end d_end d_start d_skip borders drive table own_table deviates z"
wides += " other_h other_v other_vh d_drive d_step d_rates given_step given_rates back"
types = {name: low for name in lows.split()} | {name: "*fp32" for name in wides.split()}
types["present"] = "*i1"
unused, quick = ("tables", ()) if low == "*bf16" else ("quick", ("HAS_QUICK",))
sizes = {"BLOCK": variables, "WIDTH": 64, "STATES": states, "PADDED": 16, "AT_ONCE": 32}
sizes |= {"TIMES": 64, "UNROLL": 8, "STAGES": 4}
kernels = (
    (tables.fill_tables, 4, quick),
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
    (fast.fast_forward, variables, ("HAS_BASE",)),
    (fast.fast_forward, variables, ("HAS_FIELD",)),
    (fast.fast_states, 2 * variables, ("ADJOINT",)),
    (fast.fast_states, 2 * variables, ("HAS_FIELD",)),
    (fast.fast_backward, variables, ()),
)
for kernel, warps, off in kernels:
    types["states"] = "*fp32" if kernel is fast.fast_states else low
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
    if (states, capability) != (16, 90) and not by_hand:
        continue
    source = (GluonASTSource if by_hand else ASTSource)(kernel, signature, constants, known)
    target, options = GPUTarget("cuda", capability, 32), {"num_warps": warps}
    if kernel is fast.fast_states:
        options["maxnreg"] = 128
    compiled = triton.compile(source, target=target, options=options)
    if by_hand:
        assert compiled.metadata.shared <= operators.FAST_SHARED_MEMORY[variables], kernel
"""


# By states, compute capability and variables of a program: large GPUs have room for four.
@pytest.mark.parametrize(
    "sizes", [("16", "90", "4"), ("8", "90", "4"), ("16", "80", "4"), ("16", "120", "2")], ids=str
)
@pytest.mark.parametrize("low", ["*bf16", "*fp32"])
def test_kernels_compile_and_have_room(low, sizes, tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.triton import operators

    assert operators.fast_kernels is not None, "`fast` was not tried with this version of Triton"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", COMPILE, low, *sizes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
