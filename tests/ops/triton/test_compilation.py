"""The kernels with layouts by hand compile for a GPU that is not there: what an emulation skips."""

import os
import subprocess
import sys

import pytest

# In a process of its own, for the interpreter would take the place of the compiler.
COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from orderless.ops.triton import fast

low = sys.argv[1]
lows = "x write read quick base field factors gate y states d_y d_x d_write d_read".split()
wides = "tables over_chunks start shared skip end d_end d_start d_skip partial borders".split()
types = {name: low for name in lows} | {name: "*fp32" for name in wides} | {"present": "*i1"}
unused = "tables" if low == "*bf16" else "quick"
kernels = (
    (fast.fast_forward, 2, ()),
    (fast.fast_states, 4, ("ADJOINT",)),
    (fast.fast_states, 4, ("ADJOINT", "EVERY_CHUNK")),
    (fast.fast_states, 4, ("EVERY_CHUNK",)),
    (fast.fast_backward, 2, ()),
)
for kernel, warps, off in kernels:
    types["states"] = "*fp32" if "EVERY_CHUNK" in off else low
    signature, constants, known = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name.isupper():
            constants[(i,)] = {"BLOCK": 2, "WIDTH": 16}.get(name, name not in off)
        elif name == unused:
            constants[(i,)] = None
        elif name in types or name.endswith(("_batch", "_variable", "_time", "channels", "_size")):
            known[(i,)] = [["tt.divisibility", 16]]
        signature[name] = "constexpr" if (i,) in constants else types.get(name, "i32")
    source = GluonASTSource(kernel, signature, constants, known)
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
"""


@pytest.mark.parametrize("low", ["*bf16", "*fp32"])
def test_fast_kernels_with_every_option_compile_for_hopper(low, tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.triton import operators

    if operators.fast_kernels is None:
        pytest.skip("they are not for this version of Triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", COMPILE, low]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
