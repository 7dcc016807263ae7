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
from orderless.ops.triton import fast, shared_kernels, tables

low, states = sys.argv[1], int(sys.argv[2])
lows = "x write read field_write quick base field factors gate y states d_y d_x d_write d_read"
lows += " d_field partial sums"
wides = "step rate_h rate_v rate_vh tables over_chunks over_segments ends before start shared skip"
wides += " end d_end d_start d_skip borders drive table own_table deviates z"
wides += " other_h other_v other_vh d_drive d_step d_rates given_step given_rates back"
types = {name: low for name in lows.split()} | {name: "*fp32" for name in wides.split()}
types["present"] = "*i1"
unused, quick = ("tables", ()) if low == "*bf16" else ("quick", ("HAS_QUICK",))
sizes = {"BLOCK": 2, "WIDTH": 16, "STATES": states, "PADDED": 16, "AT_ONCE": 32}
sizes |= {"TIMES": 64, "UNROLL": 8, "STAGES": 4}
compiled = (
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
    (fast.fast_forward, 2, ()),
    (fast.fast_states, 4, ()),
    (fast.fast_states, 4, ("ADJOINT",)),
    (fast.fast_backward, 2, ()),
)
for kernel, warps, off in compiled:
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
    if states < 16 and not by_hand:
        continue
    source = (GluonASTSource if by_hand else ASTSource)(kernel, signature, constants, known)
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
"""


@pytest.mark.parametrize("states", ["16", "8"])
@pytest.mark.parametrize("low", ["*bf16", "*fp32"])
def test_kernels_with_every_option_compile_for_hopper(low, states, tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.triton import operators

    assert operators.fast_kernels is not None, "`fast` was not tried with this version of Triton"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", COMPILE, low, states]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
