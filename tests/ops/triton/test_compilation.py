"""Kernels compile for a GPU that is not there: what an emulation and the interpreter skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("machine_code.py")


# By states, compute capability and variables of a program: large GPUs have room for four.
@pytest.mark.parametrize(
    "sizes", [("16", "90", "4"), ("8", "90", "4"), ("16", "80", "4"), ("16", "120", "2")], ids=str
)
@pytest.mark.parametrize("low", ["bf16", "fp32"])
def test_kernels_compile_and_have_room(low, sizes, tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.triton import operators

    assert operators.fast_kernels is not None, "`fast` was not tried with this version of Triton"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, str(SCRIPT), low, *sizes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    by_hand = [line.split() for line in done.stdout.splitlines() if line.startswith("fast_")]
    assert len(by_hand) == 5
    room = operators.FAST_SHARED_MEMORY[int(sizes[-1])]
    assert all(int(shared) <= room for *_, shared in by_hand), done.stdout
