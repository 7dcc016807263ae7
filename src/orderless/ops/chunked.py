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

The backward pass is written out: it saves the inputs of the operator alone, and rebuilds the rest
for a few variables at a time, so that memory does not grow with their number.

Layout: [batch, chunk, head, variable, ..., time in chunk], and [..., time in chunk, channel of the
head] for signals. The pair (h, v) and the state are one axis of size 2N. What all variables share,
the field and the carries, has variable size 1.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from orderless.ops.feedback import mean_mode
from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Block, Generator, transition_and_hold

LONGEST_CHUNK = 32
ENTRIES = 2048  # (batch, variable, time) entries worked on together: few calls, yet near caches

Rows = tuple[slice, slice]  # some batch entries, some of their variables


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    time = r.x.shape[2]
    step = r.step.expand(-1, time, -1)
    write, read = (value.expand(-1, -1, time, -1, -1) for value in (r.write, r.read))
    field = field_write = None
    if r.field is not None:
        field, field_write = r.field.signal, r.field.write.expand(-1, time, -1, -1)
    y, last = _Scan.apply(r.x, write, read, r.state, field, field_write, step, *r.generator)
    if r.mean is None:
        return y, last
    mean_y, mean_last = mean_mode(r, r.mean)
    return y + mean_y, last + mean_last


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        inputs, (step, *generator) = _Inputs(*tensors[:6]), tensors[6:]
        carries = _carries(_moves(Generator(*generator), step))
        scratch = _Scratch(inputs.x)
        y, last = inputs.x.new_empty(inputs.x.shape), torch.empty_like(inputs.state)
        for batch, blocks in _blocks(inputs.x):
            here = carries.of(batch)
            for rows in blocks:
                scratch.rewind()
                work = _build(inputs.of(rows), here, scratch)
                _from_chunks(
                    _outputs(work, scratch).all, y[rows].unflatten(-1, (step.shape[-1], -1))
                )
                last[rows] = _from_heads(work.last)
        return y, last

    @staticmethod
    def backward(ctx, *gradients):
        dy, dlast = gradients
        inputs, (step, *generator) = _Inputs(*ctx.saved_tensors[:6]), ctx.saved_tensors[6:]
        with torch.enable_grad():
            shared = [value.detach().requires_grad_() for value in (step, *generator)]
            moves = _moves(Generator(*shared[1:]), shared[0])
        carries = _carries([move.detach() for move in moves])
        dinputs = inputs.alike()
        dcarries = _Carries(*(torch.zeros_like(part) for part in carries))
        scratch = _Scratch(inputs.x)
        for batch, blocks in _blocks(inputs.x):
            here, dhere = carries.of(batch), dcarries.of(batch)
            for rows in blocks:
                scratch.rewind()
                work = _build(inputs.of(rows), here, scratch)
                _gradients(work, here, dhere, dy[rows], dlast[rows], dinputs.of(rows), scratch)
        return *dinputs, *torch.autograd.grad(moves, shared, _moves_gradient(dcarries))


class _Inputs(NamedTuple):
    """What has a variable axis, and the field."""

    x: Tensor
    write: Tensor
    read: Tensor
    state: Tensor
    field: Tensor | None
    field_write: Tensor | None

    def alike(self) -> "_Inputs":
        """Room for gradients, in the order of their axes; zero where several rows add to them."""
        field = (None if value is None else value.new_zeros(value.shape) for value in self[4:])
        return _Inputs(*(value.new_empty(value.shape) for value in self[:4]), *field)

    def of(self, rows: Rows) -> "_Inputs":
        field = (None if value is None else value[rows[0]] for value in self[4:])
        return _Inputs(*(value[rows] for value in self[:4]), *field)


def _chunk_size(time: int) -> int:
    """A power of two, so that it can be halved; no longer than a short series needs."""
    return min(LONGEST_CHUNK, max(2, 1 << (time - 1).bit_length()))


def _halves(chunk: int) -> list[int]:
    """The sizes of halves: 1, 2, ..., chunk / 2."""
    return [1 << k for k in range(chunk.bit_length() - 1)]


def _blocks(x: Tensor) -> Iterator[tuple[slice, list[Rows]]]:
    """Some batch entries, and rows of theirs that are worked on together; blocks of equal size."""
    batch, variables, time, _ = x.shape
    rows = max(1, ENTRIES // time)
    many = math.ceil(variables / math.ceil(variables / rows))
    few = max(1, rows // variables)
    for b in range(0, batch, few):
        some = slice(b, b + few)
        yield some, [(some, slice(v, v + many)) for v in range(0, variables, many)]


class _Carry:
    """Lower-triangular 2x2 blocks per state, their entries (h, v, vh) one axis of size 3N."""

    def __init__(self, entries: Tensor):
        self.entries = entries
        self._states = entries.shape[-2] // 3

    @cached_property
    def diagonal(self) -> Tensor:
        return self.entries.narrow(-2, 0, 2 * self._states)

    @cached_property
    def h(self) -> Tensor:
        return self.entries.narrow(-2, 0, self._states)

    @cached_property
    def v(self) -> Tensor:
        return self.entries.narrow(-2, self._states, self._states)

    @cached_property
    def vh(self) -> Tensor:
        return self.entries.narrow(-2, 2 * self._states, self._states)


class _Carries(NamedTuple):
    """All carries, stacked.

    A read is carried over its own step, a write is held over it; then, for each size of halves,
    both are carried over the other half of the block, or stay if they are in that half.
    """

    read: Tensor  # [k, B, chunk, H, 1, 3N, time in chunk]
    write: Tensor
    whole: Tensor  # over each chunk, [chunk, B, H, 1, 3N, 1]

    def of(self, batch: slice) -> "_BatchCarries":
        read, write = (value[:, batch].flatten(1, 3).unbind() for value in (self.read, self.write))
        parts = (read, write, self.whole[:, batch].unbind())
        return _BatchCarries(*([_Carry(entries) for entries in part] for part in parts))


class _BatchCarries(NamedTuple):
    """The carries of some batch entries: `read` and `write` [(batch, chunk, head), 1, 3N, time]."""

    read: list[_Carry]
    write: list[_Carry]
    whole: list[_Carry]


def _moves(generator: Generator, step: Tensor) -> list[Tensor]:
    """The moves that carries are made of, [B, chunk, H, 1, 3N, number in the chunk] each.

    Over each step, and its hold; over the first and the second halves, for each size of halves;
    over each chunk.
    """
    chunk = _chunk_size(step.shape[1])
    step = pad(step, (0, 0, 0, -step.shape[1] % chunk))
    whole, held = (_by_chunk(part, chunk) for part in transition_and_hold(generator, step))
    moves = [whole, held]
    for _ in _halves(chunk):
        first, second = whole.unflatten(-1, (-1, 2)).unbind(-1)
        moves += [first, second]
        (h, v, vh), (then_h, then_v, then_vh) = (z.tensor_split(3, dim=-2) for z in (first, second))
        whole = torch.cat((then_h * h, then_v * v, then_v * vh + then_vh * h), dim=-2)
    return [*moves, whole]


def _carries(moves: list[Tensor]) -> _Carries:
    moved, held, *halves, whole = moves
    sizes = 1 + len(halves) // 2
    read, write = (moved.new_empty(sizes, *moved.shape) for _ in range(2))
    carries = _Carries(read, write, whole.movedim(1, 0))
    read[0], write[0] = moved, held
    for (carried, stays), move in zip(_by_half(carries), halves, strict=True):
        carried.copy_(move.unsqueeze(-1))
        h, v, vh = stays.tensor_split(3, dim=-3)
        h.fill_(1.0), v.fill_(1.0), vh.fill_(0.0)
    return carries


def _moves_gradient(dcarries: _Carries) -> list[Tensor]:
    dhalves = (carried.sum(-1) for carried, _ in _by_half(dcarries))
    return [dcarries.read[0], dcarries.write[0], *dhalves, dcarries.whole.movedim(0, 1)]


def _by_half(carries: _Carries) -> Iterator[tuple[Tensor, Tensor]]:
    """Where reads, then writes are carried, and where they stay: [..., 3N, block, size] each."""
    for k, size in enumerate(_halves(carries.read.shape[-1]), start=1):
        first, second = carries.read[k].unflatten(-1, (-1, 2, size)).unbind(-2)
        yield second, first
        first, second = carries.write[k].unflatten(-1, (-1, 2, size)).unbind(-2)
        yield first, second


def _by_chunk(block: Block, chunk: int) -> Tensor:
    """[B,T,H,N] each to [B, chunk, H, 1, 3N, time in chunk]."""
    by_chunk = torch.cat(block, dim=-1).unflatten(1, (-1, chunk))
    return by_chunk.permute(0, 1, 3, 4, 2).unsqueeze(3).contiguous()


class _Matrices:
    """A matrix for every (batch, chunk, head) and variable.

    Its views are kept: making one takes as long as the arithmetic on a small block of rows.
    """

    def __init__(self, all: Tensor):
        self.all = all
        self.h, self.v = all.tensor_split(2, dim=-2)  # halves of the rows
        self._by_chunk: list[_Matrices] = []

    @cached_property
    def flat(self) -> Tensor:
        return self.all.flatten(0, 1)

    @cached_property
    def flat_t(self) -> Tensor:
        return self.flat.mT

    @cached_property
    def diagonal(self) -> Tensor:
        return self.all.diagonal(dim1=-2, dim2=-1)

    @cached_property
    def carry(self) -> _Carry:
        return _Carry(self.all)

    def by_chunk(self, batch: int, chunks: int) -> list["_Matrices"]:
        """[batch, head, variable, ...] for each chunk."""
        if not self._by_chunk:
            parts = self.all.unflatten(0, (batch, chunks, -1)).unbind(1)
            self._by_chunk = [_Matrices(part) for part in parts]
        return self._by_chunk


class _Border(NamedTuple):
    """1 where t is in the second half of a block and s in its first, else 0; and its transpose."""

    across: Tensor
    across_t: Tensor


def _borders(chunk: int, like: Tensor) -> list[_Border]:
    """For each size of halves."""
    s = torch.arange(chunk, device=like.device)
    t = s.unsqueeze(-1)
    borders = []
    for size in _halves(chunk):
        mask = (t // size == s // size + 1) & (t // (2 * size) == s // (2 * size))
        borders.append(_Border(mask.to(like), mask.mT.to(like).contiguous()))
    return borders


class _Scratch:
    """Buffers handed out in the same order for every block of rows.

    Only the first block pays for fresh memory, which costs more than the arithmetic on it.
    """

    def __init__(self, like: Tensor):
        self._like = like
        self.chunk = _chunk_size(like.shape[2])
        self.borders = _borders(self.chunk, like)
        self._buffers: dict[tuple[int, ...], _Matrices] = {}
        self.taken = 0

    def rewind(self, taken: int = 0) -> None:
        """Let go of all but the first `taken` buffers."""
        self.taken = taken

    def take(self, *shape: int) -> _Matrices:
        place = (self.taken, *shape)
        self.taken += 1
        if place not in self._buffers:
            self._buffers[place] = _Matrices(self._like.new_empty(shape))
        return self._buffers[place]

    def copy(self, z: Tensor) -> _Matrices:
        out = self.take(*z.shape)
        out.all.copy_(z)
        return out

    def mul(self, a: Tensor, b: Tensor) -> _Matrices:
        out = self.take(*a.shape)
        torch.mul(a, b, out=out.all)
        return out

    def matmul(self, a: _Matrices, b: _Matrices, transposed: bool = False) -> _Matrices:
        """a b, or a.mT b. Never with b.mT: that takes three times as long, a copy is cheaper."""
        left = a.flat_t if transposed else a.flat
        out = self.take(*a.all.shape[:2], left.shape[1], b.flat.shape[2])
        torch.bmm(left, b.flat, out=out.flat)
        return out

    def spread(self, a: _Matrices, variables: int) -> _Matrices:
        """What all variables share, for each of them."""
        if a.all.shape[1] == variables:
            return a
        return self.copy(a.all.expand(-1, variables, -1, -1))

    def gather(self, a: _Matrices, variables: int) -> _Matrices:
        """The sum over the variables where they share one; else `a` itself."""
        if a.all.shape[1] == variables:
            return a
        out = self.take(a.all.shape[0], 1, *a.all.shape[2:])
        torch.sum(a.all, 1, keepdim=True, out=out.all)
        return out

    def to_chunks(self, z: Tensor, transposed: bool = False) -> _Matrices:
        """[B,V,T,H,K] to [(batch, chunk, head), V, time in chunk, K], padded with zeros."""
        if z.shape[2] % self.chunk:
            z = pad(z, (0, 0, 0, 0, 0, -z.shape[2] % self.chunk))
        z = z.unflatten(2, (-1, self.chunk)).permute(0, 2, 4, 1, 3, 5)
        z = z.mT if transposed else z
        out = self.take(z.shape[0] * z.shape[1] * z.shape[2], *z.shape[3:])
        out.all.view(z.shape).copy_(z)
        return out


class _Source(NamedTuple):
    """A signal that is written to the states: the variable's own x, or the field."""

    signal: _Matrices  # [time in chunk, P]
    writes: list[_Matrices]  # write, held, and carried on, [2N, time in chunk]
    matrix: _Matrices  # M


class _Work(NamedTuple):
    """What forward and backward both need of some rows."""

    reads: list[_Matrices]  # read, carried back further and further, [2N, time in chunk]
    sources: list[_Source]
    starts: _Matrices  # the state before each chunk, [2N, P]
    last: Tensor


def _build(inputs: _Inputs, carries: _BatchCarries, scratch: _Scratch) -> _Work:
    heads = carries.whole[0].h.shape[1]
    signals = [(inputs.x, inputs.write)]
    if inputs.field is not None and inputs.field_write is not None:
        signals.append((inputs.field.unsqueeze(1), inputs.field_write.unsqueeze(1)))
    reads = [scratch.to_chunks(_per_head(inputs.read, heads), transposed=True)]
    for carry in carries.read:
        reads.append(_carry_read(carry, reads[-1], scratch))
    sources = []
    for signal, write in signals:
        chunks = scratch.to_chunks(signal.unflatten(-1, (heads, -1)))
        writes = [scratch.to_chunks(_per_head(write, heads), transposed=True)]
        for carry in carries.write:
            writes.append(_carry_write(carry, writes[-1], scratch))
        sources.append(_Source(chunks, writes, _matrix(reads, writes, scratch)))
    inflow = scratch.matmul(sources[0].writes[-1], sources[0].signal)
    for source in sources[1:]:
        inflow.all.add_(scratch.matmul(source.writes[-1], source.signal).all)
    starts, last = _chunk_states(_to_heads(inputs.state, heads), inflow, carries.whole, scratch)
    return _Work(reads, sources, starts, last)


def _matrix(reads: list[_Matrices], writes: list[_Matrices], scratch: _Scratch) -> _Matrices:
    groups, variables = reads[0].all.shape[:2]
    matrix = scratch.take(groups, variables, scratch.chunk, scratch.chunk)
    matrix.all.zero_()
    taken = scratch.taken
    matrix.diagonal.copy_(scratch.mul(reads[0].all, writes[1].all).all.sum(-2))
    for border, read, write in zip(scratch.borders, reads[1:-1], writes[1:-1], strict=True):
        scratch.rewind(taken)
        product = scratch.matmul(read, scratch.spread(write, variables), transposed=True)
        matrix.all.addcmul_(product.all, border.across)
    scratch.rewind(taken)
    return matrix


def _outputs(work: _Work, scratch: _Scratch) -> _Matrices:
    y = scratch.matmul(work.reads[-1], work.starts, transposed=True)
    for source in work.sources:
        y.flat.baddbmm_(source.matrix.flat, scratch.spread(source.signal, y.all.shape[1]).flat)
    return y


def _gradients(
    work: _Work,
    carries: _BatchCarries,
    dcarries: _BatchCarries,
    dy: Tensor,
    dlast: Tensor,
    dinputs: _Inputs,
    scratch: _Scratch,
) -> None:
    """Gradients of the inputs, written to `dinputs`; what others share is added to."""
    heads, variables = carries.whole[0].h.shape[1], dy.shape[1]
    by_head = dy.unflatten(-1, (heads, -1))
    dout, dout_t = scratch.to_chunks(by_head), scratch.to_chunks(by_head, transposed=True)
    dstarts = scratch.matmul(work.reads[-1], dout)
    dinflow, dstate = _chunk_states_backward(
        _to_heads(dlast, heads), dstarts, work.starts, carries.whole, dcarries.whole, scratch
    )
    dread = scratch.matmul(work.starts, dout_t)
    dsources = []
    for signal, writes, matrix in work.sources:
        own = signal.all.shape[1]
        dinflow = scratch.gather(dinflow, own)
        dsignal = scratch.gather(scratch.matmul(matrix, dout, transposed=True), own)
        dsignal.flat.baddbmm_(writes[-1].flat_t, dinflow.flat)
        signal_t = scratch.copy(signal.all.mT)
        dwrite = scratch.matmul(dinflow, signal_t)
        dmatrix = scratch.matmul(dout, scratch.spread(signal_t, variables))
        dsources.append(_SourceGradient(dsignal, dwrite, dmatrix, scratch))
    taken = scratch.taken
    for k in reversed(range(len(carries.read))):
        _carry_read_backward(dread, work.reads[k], carries.read[k], dcarries.read[k], scratch)
        scratch.rewind(taken)
        for (_, writes, _), d in zip(work.sources, dsources, strict=True):
            _carry_write_backward(d.write, writes[k], carries.write[k], dcarries.write[k], scratch)
            if k > 0:
                dproduct, dproduct_t = d.product(k - 1, scratch)
                dread.flat.baddbmm_(scratch.spread(writes[k], variables).flat, dproduct_t.flat)
                d.add_to_write(scratch.matmul(work.reads[k], dproduct), scratch)
            if k == 1:
                d.add_to_write(scratch.mul(work.reads[0].all, d.diagonal.all), scratch)
            if k == 0:
                dread.all.addcmul_(writes[1].all, d.diagonal.all)
            scratch.rewind(taken)
    own = dsources[0]
    _from_chunks(own.signal.all, dinputs.x.unflatten(-1, (heads, -1)))
    _weights_from_chunks(own.write, dinputs.write, heads)
    _weights_from_chunks(dread, dinputs.read, heads)
    dinputs.state.copy_(_from_heads(dstate))
    if dinputs.field is not None and dinputs.field_write is not None:
        dfield = dinputs.field.unsqueeze(1).unflatten(-1, (heads, -1))
        _from_chunks(dsources[1].signal.all, dfield, Tensor.add_)
        _weights_from_chunks(
            dsources[1].write, dinputs.field_write.unsqueeze(1), heads, Tensor.add_
        )


class _SourceGradient:
    def __init__(self, signal: _Matrices, write: _Matrices, matrix: _Matrices, scratch: _Scratch):
        self.signal = signal
        self.write = write  # of the last of the writes, then turned into that of the first
        self.diagonal = scratch.copy(matrix.diagonal.unsqueeze(2))
        self._matrix, self._matrix_t = matrix, scratch.copy(matrix.all.mT)

    def product(self, k: int, scratch: _Scratch) -> tuple[_Matrices, _Matrices]:
        """The gradient of the product across the borders of one size, and its transpose."""
        border = scratch.borders[k]
        return (
            scratch.mul(self._matrix.all, border.across),
            scratch.mul(self._matrix_t.all, border.across_t),
        )

    def add_to_write(self, part: _Matrices, scratch: _Scratch) -> None:
        self.write.all.add_(scratch.gather(part, self.write.all.shape[1]).all)


def _carry_write(carry: _Carry, z: _Matrices, scratch: _Scratch) -> _Matrices:
    """The product carry z: what was written flows from h to v."""
    out = scratch.mul(z.all, carry.diagonal)
    out.v.addcmul_(carry.vh, z.h)
    return out


def _carry_read(carry: _Carry, z: _Matrices, scratch: _Scratch) -> _Matrices:
    """The product z carry: a read of v also reads what will have flowed there from h."""
    out = scratch.mul(z.all, carry.diagonal)
    out.h.addcmul_(carry.vh, z.v)
    return out


def _carry_write_backward(
    d: _Matrices, z: _Matrices, carry: _Carry, dcarry: _Carry, scratch: _Scratch
) -> None:
    """Turn d, the gradient of the product, into that of z."""
    _add_products(dcarry, d, z, d.v, z.h, scratch)
    d.h.mul_(carry.h).addcmul_(carry.vh, d.v)
    d.v.mul_(carry.v)


def _carry_read_backward(
    d: _Matrices, z: _Matrices, carry: _Carry, dcarry: _Carry, scratch: _Scratch
) -> None:
    _add_products(dcarry, d, z, d.h, z.v, scratch)
    d.v.mul_(carry.v).addcmul_(carry.vh, d.h)
    d.h.mul_(carry.h)


def _add_products(
    dcarry: _Carry, d: _Matrices, z: _Matrices, d_to: Tensor, z_from: Tensor, scratch: _Scratch
) -> None:
    """Add up, over the variables, what each passes on to the entries of the carry."""
    *leading, rows, columns = z.all.shape
    products = scratch.take(*leading, rows // 2 * 3, columns)
    torch.mul(d.all, z.all, out=products.carry.diagonal)
    torch.mul(d_to, z_from, out=products.carry.vh)
    dcarry.entries.add_(scratch.gather(products, 1).all)


def _chunk_states(
    state: Tensor, inflow: _Matrices, whole: list[_Carry], scratch: _Scratch
) -> tuple[_Matrices, Tensor]:
    """The state before every chunk, and the one after the last, [B,H,V,2N,P]."""
    starts = scratch.take(*inflow.all.shape)
    chunks = (z.by_chunk(len(state), len(whole)) for z in (starts, inflow))
    for start, flow, carry in zip(*chunks, whole, strict=True):
        start.all.copy_(state)
        state = flow.all.addcmul_(carry.diagonal, start.all)
        flow.v.addcmul_(carry.vh, start.h)
    return starts, state


def _chunk_states_backward(
    dstate: Tensor,
    dstarts: _Matrices,
    starts: _Matrices,
    whole: list[_Carry],
    dwhole: list[_Carry],
    scratch: _Scratch,
) -> tuple[_Matrices, Tensor]:
    """The gradient of what flows into every state, and of the state before the first chunk."""
    dinflow = scratch.take(*dstarts.all.shape)
    chunks = (z.by_chunk(len(dstate), len(whole)) for z in (dinflow, dstarts, starts))
    steps = list(zip(*chunks, whole, dwhole, strict=True))
    for dflow, dstart, start, carry, dcarry in reversed(steps):
        dflow.all.copy_(dstate)
        dstate = dstart.all.addcmul_(carry.diagonal, dflow.all)
        dstart.h.addcmul_(carry.vh, dflow.v)
        taken = scratch.taken
        dcarry.diagonal.add_(scratch.mul(dflow.all, start.all).all.sum((2, 4), keepdim=True))
        dcarry.vh.add_(scratch.mul(dflow.v, start.h).all.sum((2, 4), keepdim=True))
        scratch.rewind(taken)
    return dinflow, dstate


def _from_chunks(z: Tensor, out: Tensor, put: Callable = Tensor.copy_) -> None:
    """Put [(batch, chunk, head), V, time in chunk, K] to [B,V,T,H,K]."""
    batch, _, time, heads, _ = out.shape
    z = z.unflatten(0, (batch, -1, heads)).permute(0, 3, 1, 4, 2, 5)
    chunk = z.shape[3]
    if time % chunk:
        put(out, z.flatten(2, 3)[:, :, :time])
    else:
        put(out.unflatten(2, (-1, chunk)), z)


def _weights_from_chunks(
    z: _Matrices, out: Tensor, heads: int, put: Callable = Tensor.copy_
) -> None:
    """To [B,V,T,2,N]: the sum over the heads, which share what they write and read by."""
    shared = z.all.mT if heads == 1 else z.all.mT.unflatten(0, (-1, heads)).sum(1)
    _from_chunks(shared, out.flatten(-2).unsqueeze(3), put)


def _per_head(weights: Tensor, heads: int) -> Tensor:
    """[B,V,T,2,N] to [B,V,T,H,2N]: heads share what they write and read by."""
    return weights.flatten(-2).unsqueeze(3).expand(-1, -1, -1, heads, -1)


def _to_heads(state: Tensor, heads: int) -> Tensor:
    """[B,V,2,N,D] to [B,H,V,2N,P]."""
    return state.flatten(2, 3).unflatten(-1, (heads, -1)).permute(0, 3, 1, 2, 4)


def _from_heads(state: Tensor) -> Tensor:
    return state.permute(0, 2, 3, 1, 4).flatten(-2).unflatten(2, (2, -1))
