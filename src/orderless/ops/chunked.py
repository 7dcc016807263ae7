"""The scan as matrix products over chunks of time, in plain torch.

Steps of one system commute, so the way from s to t is exp(A (S_t - S_s)), and within a chunk

    y[t] = sum over s of M[t, s] x[s],     M[t, s] = read[t] exp(A (S_t - S_s)) held[s]

with `held` the write held over its step. M is built by halving. For s in the first half of a
block and t in its second, the way is split at the border p between them:

    M[t, s] = (read[t] exp(A (S_t - S_p))) (exp(A (S_p - S_s)) held[s])

one matrix product per block, both exponents of decaying systems: nothing overflows and nothing
cancels, whatever the steps. States are carried from chunk to chunk.

The backward pass is written out: it saves the inputs of the operator alone, and rebuilds the rest
for a few variables at a time, so that memory does not grow with their number.

Layout: [batch, chunk, head, variable, (source,) time in chunk, ...]. The sources are the variable's
own x and, where there is one, the field. The pair (h, v) and the state are one axis of size 2N.
Coefficients have variable size 1.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from orderless.ops.feedback import mean_mode
from orderless.ops.recurrence import Recurrence
from orderless.ops.zero_order_hold import Block, Generator, hold, transition

CHUNK = 32  # the longest block that is halved; a power of two
HALVES = tuple(2**k for k in range(CHUNK.bit_length() - 1))  # 1, 2, ..., CHUNK / 2
ENTRIES = 4096  # (batch, variable, time) entries worked on together: few calls, yet near the caches

Rows = tuple[slice, slice]  # some batch entries, some variables


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
        carries = _carries(Generator(*generator), step)
        scratch = _Scratch(inputs.x)
        y, last = torch.empty_like(inputs.x), torch.empty_like(inputs.state)
        for rows in _blocks(inputs.x):
            scratch.rewind()
            work = _build(inputs.of(rows), carries.of(rows), scratch)
            y[rows], last[rows] = _outputs(work, scratch, inputs.x.shape[2])
        return y, last

    @staticmethod
    def backward(ctx, dy, dlast):
        inputs, (step, *generator) = _Inputs(*ctx.saved_tensors[:6]), ctx.saved_tensors[6:]
        with torch.enable_grad():
            shared = [value.detach().requires_grad_() for value in (step, *generator)]
            carries = _carries(Generator(*shared[1:]), shared[0])
        dinputs = _Inputs(*(None if v is None else torch.zeros_like(v) for v in inputs))
        dcarries = _Carries(*(torch.zeros_like(part) for part in carries))
        scratch = _Scratch(inputs.x)
        for rows in _blocks(inputs.x):
            scratch.rewind()
            here = carries.of(rows)
            work = _build(inputs.of(rows), here, scratch)
            found = _gradients(work, here, dcarries.of(rows), dy[rows], dlast[rows], scratch)
            for total, part in zip(dinputs.of(rows), found, strict=True):
                if total is not None:
                    total += part
        return *dinputs, *torch.autograd.grad(carries, shared, dcarries)


class _Inputs(NamedTuple):
    """What has a variable axis, and the field."""

    x: Tensor
    write: Tensor
    read: Tensor
    state: Tensor
    field: Tensor | None
    field_write: Tensor | None

    def of(self, rows: Rows) -> "_Inputs":
        field = (None if value is None else value[rows[0]] for value in self[4:])
        return _Inputs(*(value[rows] for value in self[:4]), *field)


def _blocks(x: Tensor) -> Iterator[Rows]:
    batch, variables, time, _ = x.shape
    rows = max(1, ENTRIES // time)
    many, few = min(variables, rows), max(1, rows // variables)
    for b in range(0, batch, few):
        for v in range(0, variables, many):
            yield slice(b, b + few), slice(v, v + many)


class _Carries(NamedTuple):
    """Lower-triangular 2x2 blocks per state that carry a state over each span of a chunk.

    The first axis is the span: to or since the border in blocks of two halves, for each size in
    HALVES; then since the start of the chunk, until its end, and the hold over one step.
    Then [B, chunk, H, 1, time in chunk, 2N or N].
    """

    diagonal: Tensor
    vh: Tensor

    def of(self, rows: Rows) -> "_Carries":
        return _Carries(self.diagonal[:, rows[0]], self.vh[:, rows[0]])

    def over(self, span: int) -> "_Carries":
        return _Carries(self.diagonal[span], self.vh[span])

    def half(self, span: int, which: int) -> "_Carries":
        """The carry of one half of every block."""
        return _Carries(*(_halves(part[span], HALVES[span])[which] for part in self))

    def whole_chunk(self) -> "_Carries":
        """Since the start of a chunk at its last time, [B, chunk, H, 1, 2N or N, 1]."""
        return _Carries(*(part[SINCE_START][..., -1, :, None] for part in self))

    def for_sources(self) -> "_Carries":
        """With an axis of size 1 before the last two."""
        return _Carries(*(part.unsqueeze(-3) for part in self))


SINCE_START, UNTIL_END, OVER_STEP = -3, -2, -1  # spans behind the halves
FIRST, SECOND = 0, 1  # halves of a block: the one that writes, the one that reads


def _carries(generator: Generator, step: Tensor) -> _Carries:
    step = pad(step, (0, 0, 0, -step.shape[1] % CHUNK))
    spans = [_around_borders(step, size) for size in HALVES]
    spans += [_since_start(step, CHUNK), _until_end(step, CHUNK)]
    moved, held = transition(generator, torch.stack(spans)), hold(generator, step)
    blocks = Block(*(torch.cat((m, h.unsqueeze(0))) for m, h in zip(moved, held, strict=True)))

    def by_chunk(part: Tensor) -> Tensor:
        return part.unflatten(2, (-1, CHUNK)).permute(0, 1, 2, 4, 3, 5).unsqueeze(4).contiguous()

    return _Carries(by_chunk(torch.cat((blocks.h, blocks.v), dim=-1)), by_chunk(blocks.vh))


def _since_start(step: Tensor, size: int) -> Tensor:
    """The time since the start of the block, its own step included.

    Sums stay within blocks: one running sum over a long series loses the digits of small steps.
    """
    return step.unflatten(1, (-1, size)).cumsum(2).flatten(1, 2)


def _until_end(step: Tensor, size: int) -> Tensor:
    """The time left until the end of the block, its own step excluded."""
    after = pad(step.unflatten(1, (-1, size))[:, :, 1:], (0, 0, 0, 1))
    return after.flip(2).cumsum(2).flip(2).flatten(1, 2)


def _around_borders(step: Tensor, size: int) -> Tensor:
    """In blocks of two halves: until the border in the first, since the border in the second."""
    until = _until_end(step, size).unflatten(1, (-1, 2, size))[:, :, FIRST]
    since = _since_start(step, size).unflatten(1, (-1, 2, size))[:, :, SECOND]
    return torch.stack((until, since), dim=2).flatten(1, 3)


class _Scratch:
    """Buffers handed out in the same order for every block of rows.

    Only the first block pays for fresh memory, which costs more than the arithmetic on it.
    """

    def __init__(self, like: Tensor):
        self._like = like
        self._buffers: list[Tensor] = []
        self._taken = 0

    def rewind(self) -> None:
        self._taken = 0

    def take(self, *shape: int) -> Tensor:
        size = math.prod(shape)
        if self._taken == len(self._buffers):
            self._buffers.append(self._like.new_empty(size))
        self._taken += 1
        return self._buffers[self._taken - 1][:size].view(shape)

    def copy(self, z: Tensor) -> Tensor:
        return self.take(*z.shape).copy_(z)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.mul(a, b, out=self.take(*a.shape))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        out = self.take(*a.shape[:-1], b.shape[-1])
        torch.bmm(a.flatten(0, -3), b.flatten(0, -3), out=out.flatten(0, -3))
        return out

    def matmul_transposed(self, a: Tensor, b: Tensor) -> Tensor:
        """a @ b.mT by way of a copy: a transposed view on the right takes three times as long."""
        return self.matmul(a, self.copy(b.mT))

    def to_chunks(self, z: Tensor) -> Tensor:
        """[B,V,T,H,K] to [B, chunk, H, V, time in chunk, K], padded with zeros."""
        if z.shape[2] % CHUNK:
            z = pad(z, (0, 0, 0, 0, 0, -z.shape[2] % CHUNK))
        return self.copy(z.unflatten(2, (-1, CHUNK)).permute(0, 2, 4, 1, 3, 5))


class _Work(NamedTuple):
    """What forward and backward both need of some rows. Columns are (source, time in chunk)."""

    x: Tensor  # [.., V, column, P]
    write: Tensor  # [.., V, source, time in chunk, 2N]
    read: Tensor  # [.., V, time in chunk, 2N]
    held: Tensor  # the write held over its step
    reads: list[
        Tensor
    ]  # read, carried since the border, per size of halves: [.., V, block, size, 2N]
    writes: list[Tensor]  # held, carried to the border: [.., V, block, (source, size), 2N]
    matrix: Tensor  # M, [.., V, time in chunk, column]
    read_start: Tensor  # read, carried since the start of the chunk
    write_end: Tensor  # held, carried to the end of the chunk, [.., V, column, 2N]
    starts: Tensor  # the state before each chunk, [..., 2N, P]
    last: Tensor


def _build(inputs: _Inputs, carries: _Carries, scratch: _Scratch) -> _Work:
    heads = carries.vh.shape[3]
    signals, weights = [inputs.x], [inputs.write]
    if inputs.field is not None:
        signals.append(inputs.field.unsqueeze(1).expand_as(inputs.x))
        weights.append(inputs.field_write.unsqueeze(1).expand_as(inputs.write))
    x = _sources_to_chunks([s.unflatten(-1, (heads, -1)) for s in signals], scratch).flatten(4, 5)
    write = _sources_to_chunks([_per_head(w, heads) for w in weights], scratch)
    read = scratch.to_chunks(_per_head(inputs.read, heads))
    held = _carry_write(carries.over(OVER_STEP).for_sources(), write, scratch)
    matrix = scratch.take(*read.shape[:-1], len(signals), CHUNK).zero_()
    diagonal = matrix.diagonal(dim1=-3, dim2=-1)
    diagonal.copy_(scratch.mul(held, read.unsqueeze(4)).sum(-1))
    reads, writes = [], []
    for k, size in enumerate(HALVES):
        reads.append(_carry_read(carries.half(k, SECOND), _halves(read, size)[SECOND], scratch))
        written = _halves(held, size)[FIRST].transpose(4, 5)
        carried = _carry_write(carries.half(k, FIRST).for_sources(), written, scratch)
        writes.append(carried.flatten(-3, -2))
        blocks = scratch.matmul(reads[k], writes[k].mT).unflatten(-1, (-1, size))
        _across_borders(matrix, size).copy_(blocks)
    read_start = _carry_read(carries.over(SINCE_START), read, scratch)
    write_end = _carry_write(carries.over(UNTIL_END).for_sources(), held, scratch).flatten(4, 5)
    inflow = scratch.matmul(write_end.mT, x)
    starts, last = _chunk_states(
        _to_heads(inputs.state, heads), inflow, carries.whole_chunk(), scratch
    )
    matrix = matrix.flatten(-2)
    return _Work(x, write, read, held, reads, writes, matrix, read_start, write_end, starts, last)


def _outputs(work: _Work, scratch: _Scratch, time: int) -> tuple[Tensor, Tensor]:
    y = scratch.matmul(work.matrix, work.x)
    y.flatten(0, 3).baddbmm_(work.read_start.flatten(0, 3), work.starts.flatten(0, 3))
    return _from_chunks(y, time).flatten(-2), _from_heads(work.last)


def _gradients(
    work: _Work,
    carries: _Carries,
    dcarries: _Carries,
    dy: Tensor,
    dlast: Tensor,
    scratch: _Scratch,
) -> tuple[Tensor | None, ...]:
    """Gradients in the order of `_Inputs`; those of the carries are added to `dcarries`."""
    time, heads, states = dy.shape[2], carries.vh.shape[3], carries.vh.shape[-1]
    dy = scratch.to_chunks(dy.unflatten(-1, (heads, -1)))

    # From state to state, backwards; `dinflow` is the gradient of what each chunk adds.
    dstarts = scratch.matmul(work.read_start.mT, dy)
    dinflow, dstate = _chunk_states_backward(
        _to_heads(dlast, heads), dstarts, carries.whole_chunk(), scratch
    )
    dwhole = dcarries.whole_chunk()
    along = scratch.mul(dinflow, work.starts)
    across = scratch.mul(dinflow[..., states:, :], work.starts[..., :states, :])
    dwhole.diagonal.add_(along.sum((3, 5), keepdim=True))
    dwhole.vh.add_(across.sum((3, 5), keepdim=True))

    dx = scratch.matmul(work.matrix.mT, dy)
    dx.flatten(0, 3).baddbmm_(work.write_end.flatten(0, 3), dinflow.flatten(0, 3))
    dread = _carry_read_backward(
        scratch.matmul_transposed(dy, work.starts),
        work.read,
        carries.over(SINCE_START),
        dcarries.over(SINCE_START),
        scratch,
    )
    dheld = _carry_write_backward(
        scratch.matmul_transposed(work.x, dinflow).unflatten(4, (-1, CHUNK)),
        work.held,
        carries.over(UNTIL_END).for_sources(),
        dcarries.over(UNTIL_END).for_sources(),
        scratch,
    )
    dmatrix = scratch.matmul_transposed(dy, work.x).unflatten(-1, (-1, CHUNK))
    ddiagonal = dmatrix.diagonal(dim1=-3, dim2=-1).unsqueeze(-1)
    dread += scratch.mul(work.held, ddiagonal).sum(4)
    dheld.addcmul_(ddiagonal, work.read.unsqueeze(4))
    for k, size in enumerate(HALVES):
        dblocks = scratch.copy(_across_borders(dmatrix, size)).flatten(-2)
        _halves(dread, size)[SECOND].add_(
            _carry_read_backward(
                scratch.matmul(dblocks, work.writes[k]),
                _halves(work.read, size)[SECOND],
                carries.half(k, SECOND),
                dcarries.half(k, SECOND),
                scratch,
            )
        )
        _halves(dheld, size)[FIRST].transpose(4, 5).add_(
            _carry_write_backward(
                scratch.matmul(dblocks.mT, work.reads[k]).unflatten(-2, (-1, size)),
                _halves(work.held, size)[FIRST].transpose(4, 5),
                carries.half(k, FIRST).for_sources(),
                dcarries.half(k, FIRST).for_sources(),
                scratch,
            )
        )
    dwrite = _carry_write_backward(
        dheld,
        work.write,
        carries.over(OVER_STEP).for_sources(),
        dcarries.over(OVER_STEP).for_sources(),
        scratch,
    )
    dx, *dfield = dx.unflatten(4, (-1, CHUNK)).unbind(4)
    dwrite, *dfield_write = dwrite.unbind(4)
    return (
        _from_chunks(dx, time).flatten(-2),
        _weights_from_chunks(dwrite, time),
        _weights_from_chunks(dread, time),
        _from_heads(dstate),
        *(_from_chunks(part.sum(3, keepdim=True), time).flatten(-2).squeeze(1) for part in dfield),
        *(
            _weights_from_chunks(part.sum(3, keepdim=True), time).squeeze(1)
            for part in dfield_write
        ),
        *(() if dfield else (None, None)),
    )


def _carry_write(carry: _Carries, z: Tensor, scratch: _Scratch) -> Tensor:
    """The product carry z: what was written flows from h to v."""
    states = carry.vh.shape[-1]
    out = scratch.mul(z, carry.diagonal)
    out[..., states:].addcmul_(carry.vh, z[..., :states])
    return out


def _carry_read(carry: _Carries, z: Tensor, scratch: _Scratch) -> Tensor:
    """The product z carry: a read of v also reads what will have flowed there from h."""
    states = carry.vh.shape[-1]
    out = scratch.mul(z, carry.diagonal)
    out[..., :states].addcmul_(carry.vh, z[..., states:])
    return out


def _carry_write_backward(
    dout: Tensor, z: Tensor, carry: _Carries, dcarry: _Carries, scratch: _Scratch
) -> Tensor:
    states = carry.vh.shape[-1]
    _add_summed(scratch.mul(dout, z), dcarry.diagonal)
    _add_summed(scratch.mul(dout[..., states:], z[..., :states]), dcarry.vh)
    return _carry_read(carry, dout, scratch)


def _carry_read_backward(
    dout: Tensor, z: Tensor, carry: _Carries, dcarry: _Carries, scratch: _Scratch
) -> Tensor:
    states = carry.vh.shape[-1]
    _add_summed(scratch.mul(dout, z), dcarry.diagonal)
    _add_summed(scratch.mul(dout[..., :states], z[..., states:]), dcarry.vh)
    return _carry_write(carry, dout, scratch)


def _add_summed(z: Tensor, total: Tensor) -> None:
    """Sum over the variables first: one pass over memory in its order; then over the sources."""
    total.add_(z.sum(3, keepdim=True).sum_to_size(total.shape))


def _chunk_states(
    state: Tensor, inflow: Tensor, whole: _Carries, scratch: _Scratch
) -> tuple[Tensor, Tensor]:
    """The state [B,H,V,2N,P] before every chunk, and after the last."""
    states = whole.vh.shape[-2]
    starts = scratch.take(*inflow.shape)
    for k in range(inflow.shape[1]):
        starts[:, k] = state
        state = inflow[:, k].addcmul_(whole.diagonal[:, k], starts[:, k])
        state[..., states:, :].addcmul_(whole.vh[:, k], starts[:, k, ..., :states, :])
    return starts, state


def _chunk_states_backward(
    dstate: Tensor, dstarts: Tensor, whole: _Carries, scratch: _Scratch
) -> tuple[Tensor, Tensor]:
    """The gradient of what flows into every state, and of the state before the first chunk."""
    states = whole.vh.shape[-2]
    dinflow = scratch.take(*dstarts.shape)
    for k in reversed(range(dstarts.shape[1])):
        dinflow[:, k] = dstate
        dstate = dstarts[:, k].addcmul_(whole.diagonal[:, k], dinflow[:, k])
        dstate[..., :states, :].addcmul_(whole.vh[:, k], dinflow[:, k, ..., states:, :])
    return dinflow, dstate


def _halves(z: Tensor, size: int) -> tuple[Tensor, ...]:
    """Both halves of every block of 2 size times: [..., block, size, k] each."""
    return z.unflatten(-2, (-1, 2, size)).unbind(-3)


def _across_borders(matrix: Tensor, size: int) -> Tensor:
    """Where M [.., time, source, time] reads in the second half of a block what its first wrote.

    A view [.., block, size, source, size].
    """
    blocks = matrix.unflatten(-1, (-1, 2, size)).unflatten(-5, (-1, 2, size))
    return blocks.diagonal(dim1=-7, dim2=-3)[..., SECOND, :, :, FIRST, :, :].movedim(-1, -4)


def _sources_to_chunks(sources: list[Tensor], scratch: _Scratch) -> Tensor:
    return torch.stack([scratch.to_chunks(source) for source in sources], dim=4)


def _from_chunks(z: Tensor, time: int) -> Tensor:
    """Back to [B,V,T,H,K]."""
    return z.permute(0, 3, 1, 4, 2, 5).flatten(2, 3)[:, :, :time]


def _per_head(weights: Tensor, heads: int) -> Tensor:
    """[B,V,T,2,N] to [B,V,T,H,2N]: heads share what they write and read by."""
    return weights.flatten(-2).unsqueeze(3).expand(-1, -1, -1, heads, -1)


def _weights_from_chunks(z: Tensor, time: int) -> Tensor:
    return _from_chunks(z, time).sum(3).unflatten(-1, (2, -1))


def _to_heads(state: Tensor, heads: int) -> Tensor:
    """[B,V,2,N,D] to [B,H,V,2N,P]."""
    return state.flatten(2, 3).unflatten(-1, (heads, -1)).permute(0, 3, 1, 2, 4)


def _from_heads(state: Tensor) -> Tensor:
    return state.permute(0, 2, 3, 1, 4).flatten(-2).unflatten(2, (2, -1))
