"""Runs the Gluon kernels in Triton's interpreter, which knows nothing of layouts or shared memory.

The source is taken as it is, with the language replaced: a layout is nothing, converting one
changes nothing, shared memory is an array that starts as NaN, and an asynchronous copy is done at
once. What this cannot show is a missing barrier.
"""

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from orderless.ops import gpu


def _tensor(values, dtype):
    block = tl.core.block_type(dtype, list(values.shape))
    return tl.core.tensor(TensorHandle(np.ascontiguousarray(values), dtype), block)


class _Shared:
    def __init__(self, values, dtype):
        self.values, self.dtype = values, dtype

    @property
    def shape(self):
        return self.values.shape

    def index(self, i):
        return _Shared(self.values[int(i)], self.dtype)

    def slice(self, start, length, dim=0):
        assert dim == 0
        return _Shared(self.values[int(start) : int(start) + int(length)], self.dtype)

    def permute(self, order):
        return _Shared(self.values.transpose(order), self.dtype)

    def _reinterpret(self, dtype, shape, layout):
        assert (self.dtype, dtype) == (tl.float32, tl.bfloat16)
        return _Shared(self.values.view(np.uint16).reshape([int(size) for size in shape]), dtype)

    def load(self, layout):
        return _tensor(self.values.copy(), self.dtype)

    def store(self, value):
        self.values[...] = np.broadcast_to(value.handle.data, self.values.shape)


class _Language:
    """`gluon.language` by way of `triton.language`, whose functions the interpreter replaces."""

    def __getattr__(self, name):
        return (lambda *_, **__: None) if name.endswith("Layout") else getattr(tl, name)

    def arange(self, start, end, layout):
        return tl.arange(start, end)

    def zeros(self, shape, dtype, layout):
        return tl.zeros([int(size) for size in shape], dtype)

    def convert_layout(self, value, layout):
        return value

    def thread_barrier(self):
        pass

    def inline_asm_elementwise(self, code, constraints, values, **_):
        (emulate,) = (run for part, run in _ASSEMBLY.items() if part in code)
        return emulate(*values)

    def allocate_shared_memory(self, dtype, shape, layout):
        shape = [int(size) for size in shape]
        if dtype == tl.bfloat16:  # the interpreter holds its bits
            return _Shared(np.full(shape, 0x7FC0, np.uint16), dtype)
        return _Shared(np.full(shape, np.nan, np.float32), dtype)


def _numbers(value):
    if value.dtype == tl.bfloat16:
        return (value.handle.data.astype(np.uint32) << 16).view(np.float32)
    return value.handle.data


def _rounded(values):
    """To bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return _tensor(bits.astype(np.uint16), tl.bfloat16)


def _parts(value):
    """A float32 as the sum of two bfloat16."""
    big = _rounded(value.handle.data)
    return big, _rounded(value.handle.data - _numbers(big))


def _flipped(value):
    """Each [8, 8] block of the last two axes, transposed."""
    *outer, rows, columns = value.handle.data.shape
    blocks = value.handle.data.reshape(*outer, rows // 8, 8, columns // 8, 8)
    return _tensor(blocks.swapaxes(-1, -3).reshape(*outer, rows, columns), value.dtype)


def _chosen(a, b, flag):
    return _tensor(np.where(flag.handle.data != 0, a.handle.data, b.handle.data), a.dtype)


def _added_to_one(first, second, a, b, flag):
    one, two, product = (value.handle.data for value in (first, second, a * b))
    flag = flag.handle.data != 0
    return (
        _tensor(one + np.where(flag, product, 0), tl.float32),
        _tensor(two + np.where(flag, 0, product), tl.float32),
    )


def _words(value):
    """Pairs of bfloat16: the even words, and the odd ones."""
    pairs = np.ascontiguousarray(value.handle.data).view(np.uint16)
    pairs = pairs.reshape(*value.handle.data.shape[:-1], -1, 2, 2)
    shape = value.handle.data.shape
    return tuple(_tensor(pairs[..., i, :].reshape(shape), tl.bfloat16) for i in (0, 1))


# By a part of the assembly; the kernels' own helpers say what each is for.
_ASSEMBLY = {
    "prefetch": lambda address: address,
    "mma.sync": lambda a, identity: _tensor(_numbers(a), tl.float32),
    "movmatrix": _flipped,
    "mov.b32 z, 0x80008000": lambda a, b: _rounded(_numbers(a) * _numbers(b)),
    "bf16x2 $0, $1, $2, $3": lambda a, b, c: _rounded(_numbers(a) * _numbers(b) + _numbers(c)),
    "cvt.rn.bf16x2": _parts,
    "selp.b32": _chosen,
    "lop3.b32": _chosen,
    "@p fma.rn.f32": _added_to_one,
    "mov.b32 $1": _words,
    "mov.s32": lambda index, now: index,
    "add.f32": lambda a, b: a + b,
}


def _product(a, b, total):
    values = np.matmul(_numbers(a), _numbers(b)) + total.handle.data
    return _tensor(values.astype(np.float32), tl.float32)


def _copy(buffer, source, mask=None):
    if mask is None:
        buffer.store(tl.load(source))
    else:
        source, mask = tl.broadcast(source, mask)
        buffer.store(tl.load(source, mask=mask, other=0.0))


def round_like_a_gpu() -> None:
    """From here on float32 becomes bfloat16 by rounding; the interpreter cuts."""
    cut = InterpreterBuilder.create_fp_trunc

    def rounded(self, source, kind):
        if kind.scalar == tl.bfloat16:
            return _rounded(source.data).handle
        return cut(self, source, kind)

    InterpreterBuilder.create_fp_trunc = rounded


def emulate(folder: Path) -> None:
    """From here on the Gluon kernels of this process are those of the interpreter."""
    stand_in = types.ModuleType("gluon_stand_in")
    stand_in.gl = _Language()
    stand_in.mma_v2 = _product
    stand_in.async_copy = types.SimpleNamespace(
        async_copy_global_to_shared=_copy,
        commit_group=lambda: None,
        wait_group=lambda outstanding: None,
    )
    sys.modules["gluon_stand_in"] = stand_in
    package = folder / "emulated_gpu"
    package.mkdir()
    sources = {path.stem: path.read_text() for path in Path(gpu.__file__).parent.glob("*.py")}
    names = [name for name, source in sources.items() if "triton.experimental" in source]
    for name in names:
        source = sources[name]
        for old, new in (
            (
                "from triton.experimental import gluon\n",
                "import triton as gluon\nimport triton.language as tl\n",
            ),
            (
                "from triton.experimental.gluon import language as gl\n",
                "from gluon_stand_in import gl\n",
            ),
            (
                "from triton.experimental.gluon.language.nvidia.ampere import",
                "from gluon_stand_in import",
            ),
            ("gl.constexpr", "tl.constexpr"),  # the interpreter goes by the written name
            ("d_direct.type.layout", "None"),
            (f"from {gpu.__name__} import", f"from {package.name} import"),
            *(
                (f"from {gpu.__name__}.{other} ", f"from {package.name}.{other} ")
                for other in names
            ),
        ):
            source = source.replace(old, new)
        assert "triton.experimental" not in source
        (package / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        for name in names:
            emulated = importlib.import_module(f"{package.name}.{name}")
            sys.modules[f"{gpu.__name__}.{name}"] = emulated
    finally:
        sys.path.remove(str(folder))
