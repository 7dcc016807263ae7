"""The scan as matrix products over chunks of time, in plain torch.

Steps of one system commute, so the way from s to t is exp(A (S_t - S_s)), and within a chunk

    y[t] = sum over s of M[t, s] x[s],     M[t, s] = read[t] exp(A (S_t - S_s)) held[s]

with `held` the write held over its step. M is built by halving. For s in the first half of a
block and t in its second, the way is split at the border p between them:

    M[t, s] = (read[t] exp(A (S_t - S_p))) (exp(A (S_p - S_s)) held[s])

one matrix product per size of blocks, both exponents of decaying systems: nothing overflows and
nothing cancels, whatever the steps. From one size to the next, reads in second halves are carried
on to the start of the larger block, writes in first halves to its end. In the end they stand at
the start and at the end of the chunk, where they meet the states, carried from chunk to chunk.

The field is a second signal that every variable receives: its ticks are further columns of M.

The backward pass is written out: it saves the inputs of the operator alone, and rebuilds the rest
for a few rows at a time, so that memory does not grow with their number.

Layout: [batch, variable, chunk, head, ..., time in chunk], and [..., time in chunk, channel of the
head] for signals. The pair (h, v) and the state are one axis of size 2N. What all variables share
has variable size 1.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from orderless.ops.backward import run_once
from orderless.ops.feedback import solve_coupled
from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Generator, Spans

LONGEST_CHUNK = 16
# (batch, variable, time) entries worked on together: few calls, yet near caches on a CPU; on a GPU
# as many as keep it busy while the host makes calls.
ENTRIES = {"cpu": 2**13, "cuda": 2**17}

Rows = tuple[slice, slice]  # some batch entries, some of their variables


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    if r.mean is not None:
        return solve_coupled(r, r.mean, solve)
    time = r.x.shape[2]
    step = r.step.expand(-1, time, -1)
    write, read = (value.expand(-1, -1, time, -1, -1) for value in (r.write, r.read))
    field = field_write = None
    if r.field is not None:
        field, field_write = r.field.signal, r.field.write.expand(-1, time, -1, -1)
    y, last = _Scan.apply(r.x, write, read, r.state, field, field_write, step, *r.generator)
    return y, last


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        inputs, (step, *generator) = _Inputs(*tensors[:6]), tensors[6:]
        ways = _Ways(Generator(*generator), step, inputs.sources)
        carries = ways.carries()
        batch, variables, _, channels = inputs.x.shape
        y = inputs.x.new_empty(inputs.x.shape)
        last = y.new_empty(batch, variables, 2, inputs.write.shape[-1], channels)
        for rows in _blocks(inputs.x):
            work = _Work(inputs.of(rows), carries.of(rows[0]), ways.halving)
            work.put_outputs(y[rows], last[rows])
        return y, last

    @staticmethod
    def backward(ctx, *gradients):
        return run_once(_gradients, *ctx.saved_tensors, *gradients)


def _gradients(*tensors) -> tuple[Tensor | None, ...]:
    """By every input of `_Scan`, from its inputs and the gradients of its outputs."""
    *inputs, step, h, v, vh, dy, dlast = tensors
    inputs = _Inputs(*inputs)
    ways = _Ways(Generator(h, v, vh), step, inputs.sources)
    carries = ways.carries()
    dinputs, dcarries = inputs.alike(), carries.zeros()
    if dy is None:
        dy = torch.zeros_like(inputs.x)
    for rows in _blocks(inputs.x):
        work = _Work(inputs.of(rows), carries.of(rows[0]), ways.halving)
        dlast_here = None if dlast is None else dlast[rows]
        work.put_gradients(dy[rows], dlast_here, dinputs.of(rows), dcarries.of(rows[0]))
    return *dinputs, *ways.gradient(dcarries)


class _Inputs(NamedTuple):
    """What has a variable axis, and the field."""

    x: Tensor
    write: Tensor
    read: Tensor
    state: Tensor | None
    field: Tensor | None
    field_write: Tensor | None

    @property
    def sources(self) -> int:
        return 1 if self.field is None else 2

    def alike(self) -> "_Inputs":
        """Room for gradients, in the order of their axes; zero where several rows add to them."""
        x, write, read = (value.new_empty(value.shape) for value in self[:3])
        state = None if self.state is None else self.state.new_empty(self.state.shape)
        field = (None if value is None else value.new_zeros(value.shape) for value in self[4:])
        return _Inputs(x, write, read, state, *field)

    def of(self, rows: Rows) -> "_Inputs":
        x, write, read = (value[rows] for value in self[:3])
        state = None if self.state is None else self.state[rows]
        field = (None if value is None else value[rows[0]] for value in self[4:])
        return _Inputs(x, write, read, state, *field)


def _blocks(x: Tensor) -> Iterator[Rows]:
    """Rows that are worked on together; blocks of about equal size."""
    batch, variables, time, _ = x.shape
    rows = max(1, ENTRIES.get(x.device.type, ENTRIES["cpu"]) // time)
    few = _even_part(batch, max(1, rows // variables))
    many = _even_part(variables, rows)
    for b in range(0, batch, few):
        for v in range(0, variables, many):
            yield slice(b, b + few), slice(v, v + many)


def _even_part(whole: int, most: int) -> int:
    """The size of equal parts of at most `most`."""
    return math.ceil(whole / math.ceil(whole / most)) if whole else 1


class _Halving(NamedTuple):
    """How a chunk is halved, in matrices of zeros and ones."""

    sums: Tensor  # [tick, span]: the ticks of each block of each size, then the empty span
    reads: list[Tensor]  # [span, tick]: over which span a read is carried
    writes: list[Tensor]  # [span, tick of a source]
    borders: list[tuple[Tensor, Tensor]]
    """[t, s]: 1 where a size of blocks gives M, and its transpose; first the single ticks."""


@functools.lru_cache
def _halving(chunk: int, sources: int, dtype: torch.dtype, device: torch.device) -> _Halving:
    tick = torch.arange(chunk, device=device)
    sizes = [1 << k for k in range(chunk.bit_length())]  # 1, 2, ..., chunk
    empty = 2 * chunk - 1  # there are as many blocks
    blocks = torch.cat([tick.unsqueeze(-1) // size == tick[: chunk // size] for size in sizes], -1)
    reads, writes, borders = [tick], [], [torch.eye(chunk, device=device)]
    first = 0
    for size in sizes[:-1]:
        block = tick // size
        is_second = block % 2 == 1
        reads.append(torch.where(is_second, first + block - 1, empty))
        writes.append(torch.where(is_second, empty, first + block + 1))
        borders.append((block.unsqueeze(-1) == block + 1) & ~is_second)
        first += chunk // size

    def pick(spans: Tensor) -> Tensor:
        return one_hot(spans, empty + 1).mT.to(dtype)

    borders = [border.to(dtype).repeat(1, sources) for border in borders]
    return _Halving(
        pad(blocks.to(dtype), (0, 1)),
        [pick(spans) for spans in reads],
        [pick(spans).repeat(1, sources) for spans in writes],
        [(border, border.mT.contiguous()) for border in borders],
    )


class _Carries(NamedTuple):
    """Carries [B,1,C,H,3N,time in chunk], and those over each chunk, [B,1,C,H,3N,1]."""

    reads: list[Tensor]  # over the own step, then over first halves
    writes: list[Tensor]  # held over the own step, then over second halves
    whole: Tensor

    def of(self, batch: slice) -> "_Carries":
        reads, writes = ([z[batch] for z in part] for part in self[:2])
        return _Carries(reads, writes, self.whole[batch])

    def zeros(self) -> "_Carries":
        reads, writes = ([torch.zeros_like(z) for z in part] for part in self[:2])
        return _Carries(reads, writes, torch.zeros_like(self.whole))


class _Ways:
    """The ways within chunks, and the carries made of them."""

    def __init__(self, generator: Generator, step: Tensor, sources: int):
        self.time, self.sources = step.shape[1], sources
        chunk = min(LONGEST_CHUNK, 1 << (self.time - 1).bit_length())
        self.halving = _halving(chunk, sources, step.dtype, step.device)
        if self.time % chunk:
            step = pad(step, (0, 0, 0, -self.time % chunk))
        step = step.unflatten(1, (-1, chunk)).transpose(2, 3)  # [B,C,H,Q]
        self.moves, self.holds = Spans(generator, step @ self.halving.sums), Spans(generator, step)

    def carries(self) -> _Carries:
        moves, holds = self.moves.transition().unsqueeze(1), self.holds.hold().unsqueeze(1)
        reads, writes = ([moves @ pick for pick in picks] for picks in self.halving[1:3])
        held = torch.cat([holds] * self.sources, -1)
        return _Carries(reads, [held, *writes], moves[..., -2:-1].contiguous())

    def gradient(self, d: _Carries) -> tuple[Tensor, ...]:
        """By the step and the generator, from the gradients of the carries."""
        dholds = d.writes[0].unflatten(-1, (self.sources, -1)).sum(-2)
        dmoves = pad(d.whole, (self.halving.sums.shape[-1] - 2, 1))
        picks = (*self.halving.reads, *self.halving.writes)
        for part, pick in zip((*d.reads, *d.writes[1:]), picks, strict=True):
            dmoves.add_(part @ pick.mT)
        *by_moves, dspans = self.moves.transition_gradient(dmoves.squeeze(1))
        *by_holds, dstep = self.holds.hold_gradient(dholds.squeeze(1))
        dstep = dstep + dspans @ self.halving.sums.mT
        dstep = dstep.transpose(2, 3).flatten(1, 2)[:, : self.time]
        return dstep, *(one + other for one, other in zip(by_moves, by_holds, strict=True))


class _Work:
    """What forward and backward both need of some rows."""

    def __init__(self, inputs: _Inputs, carries: _Carries, halving: _Halving):
        self.inputs, self.carries, self.borders = inputs, carries, halving.borders
        _, _, chunks, self.heads, _, self.chunk = carries.reads[0].shape
        self.remembers = inputs.state is not None or chunks > 1
        read, write = (_by_state(z, self.chunk) for z in (inputs.read, inputs.write))
        signal = self._by_head(inputs.x)
        if inputs.field is not None and inputs.field_write is not None:
            field_write = _by_state(inputs.field_write.unsqueeze(1), self.chunk)
            field = self._by_head(inputs.field.unsqueeze(1))
            write = torch.cat((write, field_write.expand_as(write)), -1)
            signal = torch.cat((signal, field.expand_as(signal)), -2)
        self.shape = (*inputs.x.shape[:2], chunks, self.heads)
        self.read, self.write, self.signal = read.contiguous(), write.contiguous(), _flat(signal)

        self.reads = [self.read.expand(*self.shape, -1, -1)]
        self.writes = [_carry(carries.writes[0], self.write, _V, _H)]
        for carry in carries.reads if self.remembers else carries.reads[:-1]:
            self.reads.append(_carry(carry, self.reads[-1], _H, _V))
        for carry in carries.writes[1:]:
            self.writes.append(_carry(carry, self.writes[-1], _V, _H))
        self.sources = [self.writes[0], *self.writes[:-1]]
        products = zip(self.reads, self.sources, self.borders, strict=False)
        parts = (torch.bmm(_flat(r).mT, _flat(w)).mul_(border) for r, w, (border, _) in products)
        self.matrix = functools.reduce(Tensor.add_, parts)
        self.ends = self._unflat(torch.bmm(_flat(self.writes[-1]), self.signal))
        if self.remembers:
            self._join_chunks()

    def put_outputs(self, y: Tensor, last: Tensor) -> None:
        """Put the outputs, and the state after the last chunk."""
        out = torch.bmm(self.matrix, self.signal)
        if self.remembers:
            out.baddbmm_(_flat(self.reads[-1]).mT, _flat(self.starts))
        self._from_head(self._unflat(out), y)
        _to_heads(last, self.heads).copy_(self.ends[:, :, -1])

    def put_gradients(
        self, dy: Tensor, dlast: Tensor | None, dinputs: _Inputs, dcarries: _Carries
    ) -> None:
        """Put the gradients of the inputs; add to those of the carries and of the field."""
        dout = _flat(self._by_head(dy))
        dout_t = dout.mT.contiguous()
        dsignal = torch.bmm(self.matrix.mT, dout)
        dmatrix_t = torch.bmm(self.signal, dout_t)
        dmatrix = dmatrix_t.mT.contiguous()
        dread = dwrite = None
        if self.remembers or dlast is not None:
            dends = self._join_chunks_backward(dout, dlast, dinputs, dcarries)
            dsignal.baddbmm_(_flat(self.writes[-1]).mT, dends)
            dwrite = torch.bmm(dends, self.signal.mT.contiguous())
            if self.remembers:
                dread = torch.bmm(_flat(self.starts), dout_t)
        for k in reversed(range(len(self.borders))):
            dread, dwrite = self._unmultiply(k, dread, dwrite, dmatrix, dmatrix_t, dcarries)
        assert dread is not None
        assert dwrite is not None
        dwrite = self._unflat(self._uncarry_write(0, dwrite, dcarries))
        dsignal = self._unflat(dsignal)
        _from_state(self._unflat(dread), dinputs.read)
        _from_state(dwrite[..., : self.chunk], dinputs.write)
        self._from_head(dsignal[..., : self.chunk, :], dinputs.x)
        if dinputs.field is not None and dinputs.field_write is not None:
            self._add_from_head(dsignal[..., self.chunk :, :], dinputs.field)
            _add_from_state(dwrite[..., self.chunk :], dinputs.field_write)

    def _unmultiply(
        self,
        k: int,
        dread: Tensor | None,
        dwrite: Tensor | None,
        dmatrix: Tensor,
        dmatrix_t: Tensor,
        dcarries: _Carries,
    ) -> tuple[Tensor, Tensor]:
        """Gradients of what a size of blocks reads and writes, from those of the next size."""
        if dread is not None:
            dread = self._uncarry_read(k, dread, dcarries)
        if dwrite is not None and k > 0:
            dwrite = self._uncarry_write(k, dwrite, dcarries)
        border, border_t = self.borders[k]
        dread = _add_bmm(dread, _flat(self.sources[k]), dmatrix_t * border_t)
        return dread, _add_bmm(dwrite, _flat(self.reads[k]), dmatrix * border)

    def _uncarry_read(self, k: int, d: Tensor, dcarries: _Carries) -> Tensor:
        """The gradient of a read, from that of what it was carried to."""
        d = self._unflat(d)
        _add_products(dcarries.reads[k], d, self.reads[k], _H, _V)
        return _flat(_carry(self.carries.reads[k], d, _V, _H))

    def _uncarry_write(self, k: int, d: Tensor, dcarries: _Carries) -> Tensor:
        """The same for a write."""
        d = self._unflat(d)
        _add_products(dcarries.writes[k], d, self.writes[k - 1] if k else self.write, _V, _H)
        return _flat(_carry(self.carries.writes[k], d, _H, _V))

    def _join_chunks(self) -> None:
        """Carry what each chunk leaves behind to all later ones."""
        self.starts = torch.empty_like(self.ends)
        self.starts[:, :, 0] = 0.0
        if self.inputs.state is not None:
            self.starts[:, :, 0] = _to_heads(self.inputs.state, self.heads)
        parts = [z.unbind(2) for z in (self.carries.whole, self.starts, self.ends)]
        before = None
        for carry, start, end in zip(*parts, strict=True):
            if before is not None:
                start.copy_(before)
            _add_carried(carry, start, end, _V, _H)
            before = end

    def _join_chunks_backward(
        self, dout: Tensor, dlast: Tensor | None, dinputs: _Inputs, dcarries: _Carries
    ) -> Tensor:
        """The gradient of what each chunk adds to the state at its end."""
        dends = torch.empty_like(self.ends)
        dends[:, :, -1] = 0.0
        if dlast is not None:
            dends[:, :, -1] = _to_heads(dlast, self.heads)
        if self.remembers:
            dstarts = torch.bmm(_flat(self.reads[-1]), dout).view_as(dends)
            parts = [z.unbind(2) for z in (self.carries.whole, dends, dstarts)]
            after = None
            for carry, dend, dstart in reversed(list(zip(*parts, strict=True))):
                if after is not None:
                    dend.copy_(after)
                _add_carried(carry, dend, dstart, _H, _V)
                after = dstart
            if dinputs.state is not None:
                _to_heads(dinputs.state, self.heads).copy_(dstarts[:, :, 0])
            _add_products(dcarries.whole, dends, self.starts, _V, _H)
        return _flat(dends)

    def _by_head(self, z: Tensor) -> Tensor:
        """[B,V,T,D] to [B,V,C,H,Q,P], padded with zeros."""
        if z.shape[2] % self.chunk:
            z = pad(z, (0, 0, 0, -z.shape[2] % self.chunk))
        z = z.unflatten(-1, (self.heads, -1)).unflatten(2, (-1, self.chunk))
        return z.transpose(3, 4)

    def _from_head(self, z: Tensor, out: Tensor) -> None:
        """Put [B,V,C,H,Q,P] to [B,V,T,D]."""
        if out.shape[2] % self.chunk:
            out.copy_(z.transpose(3, 4).flatten(2, 3)[:, :, : out.shape[2]].flatten(-2))
        else:
            self._by_head(out).copy_(z)

    def _add_from_head(self, z: Tensor, out: Tensor) -> None:
        """Add the sum over the variables to [B,T,D]."""
        total = torch.empty_like(out.unsqueeze(1))
        self._from_head(z.sum(1, keepdim=True), total)
        out.add_(total.squeeze(1))

    def _unflat(self, z: Tensor) -> Tensor:
        return z.view(*self.shape, *z.shape[-2:])


_H, _V = 0, 1  # the halves of an axis of 2N


def _half(z: Tensor, which: int) -> Tensor:
    n = z.shape[-2] // 2
    return z.narrow(-2, which * n, n)


def _carry(carry: Tensor, z: Tensor, to: int, of: int) -> Tensor:
    """The product carry z, where what was written flows from h to v; or z carry, from v to h."""
    n = carry.shape[-2] // 3
    out = z * carry.narrow(-2, 0, 2 * n)
    _half(out, to).addcmul_(carry.narrow(-2, 2 * n, n), _half(z, of))
    return out


def _add_carried(carry: Tensor, z: Tensor, out: Tensor, to: int, of: int) -> None:
    """Add what `_carry` gives."""
    n = carry.shape[-2] // 3
    out.addcmul_(carry.narrow(-2, 0, 2 * n), z)
    _half(out, to).addcmul_(carry.narrow(-2, 2 * n, n), _half(z, of))


def _add_products(dcarry: Tensor, d: Tensor, z: Tensor, to: int, of: int) -> None:
    """Add up, over the variables, what each passes on to the entries of the carry."""
    n = dcarry.shape[-2] // 3
    over = (1,) if dcarry.shape[-1] == d.shape[-1] else (1, -1)
    dcarry.narrow(-2, 0, 2 * n).add_((d * z).sum(over, keepdim=True))
    dcarry.narrow(-2, 2 * n, n).add_((_half(d, to) * _half(z, of)).sum(over, keepdim=True))


def _add_bmm(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    return torch.bmm(left, right) if total is None else total.baddbmm_(left, right)


def _by_state(weights: Tensor, chunk: int) -> Tensor:
    """[B,V,T,2,N] to [B,V,C,1,2N,Q]: heads share what they write and read by."""
    weights = weights.flatten(-2)
    if weights.shape[2] % chunk:
        weights = pad(weights, (0, 0, 0, -weights.shape[2] % chunk))
    return weights.unflatten(2, (-1, 1, chunk)).mT


def _from_state(z: Tensor, out: Tensor) -> None:
    """Put [B,V,C,H,2N,Q], summed over the heads, to [B,V,T,2,N]."""
    z = z.sum(3) if z.shape[3] > 1 else z.squeeze(3)
    z = z.mT.flatten(2, 3)
    out.copy_(z[:, :, : out.shape[2]].unflatten(-1, (2, -1)))


def _add_from_state(z: Tensor, out: Tensor) -> None:
    """Add the sum over the variables to [B,T,2,N]."""
    total = torch.empty_like(out.unsqueeze(1))
    _from_state(z.sum(1, keepdim=True), total)
    out.add_(total.squeeze(1))


def _flat(z: Tensor) -> Tensor:
    return z.reshape(-1, *z.shape[-2:])


def _to_heads(state: Tensor, heads: int) -> Tensor:
    """[B,V,2,N,D] as [B,V,H,2N,P]."""
    return state.flatten(2, 3).unflatten(-1, (heads, -1)).transpose(2, 3)
