"""Kernels compile for a GPU that is not there: what an emulation and the interpreter skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("machine_code.py")
# By states, compute capability and variables of a program: large GPUs have room for four.
PLACES = [
    ("16", "90", "4"),
    ("16", "120", "2"),
    pytest.param(("8", "90", "4"), marks=pytest.mark.long),
    pytest.param(("16", "80", "4"), marks=pytest.mark.long),
]


@pytest.mark.parametrize("low", ["bf16", "fp32"])
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_kernels_compile_and_have_room(low, place, tmp_path):
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    from orderless.ops.gpu import SHARED_MEMORY

    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, str(SCRIPT), low, *place]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    gluon = [line for line in lines if line[0].startswith(("scan_", "segment_"))]
    assert len(gluon) == 5
    assert all(int(shared) <= SHARED_MEMORY[int(place[-1])] for *_, shared in gluon), done.stdout
