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

Layout of everything with a variable axis: [batch, chunk, head, variable, time in chunk, ...], the
pair (h, v) and the state joined in one axis of size 2N. Coefficients have variable size 1.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from orderless.ops.recurrence import Recurrence
from orderless.ops.trajectory import shared_part
from orderless.ops.zero_order_hold import Block, Generator, hold, transition

CHUNK = 32  # the longest block that is halved; a power of two
HALVES = tuple(2**k for k in range(CHUNK.bit_length() - 1))  # 1, 2, ..., CHUNK / 2
ENTRIES = 8192  # (batch, variable, time) entries worked on together: few calls, yet near the caches


def solve(r: Recurrence) -> tuple[Tensor, Tensor]:
    """Outputs [B,V,T,D] and the state after the last time step [B,V,2,N,D]."""
    time = r.x.shape[2]
    step = r.step.expand(-1, time, -1)
    write, read = (value.expand(-1, -1, time, -1, -1) for value in (r.write, r.read))
    y, last = _OwnPart.apply(r.x, write, read, r.state, step, *r.generator)
    if r.field is None and r.mean_generator is None:
        return y, last
    # What is shared has no variable axis, but a state at every time: rebuilt, rather than kept.
    shared_y, shared_last = checkpoint(
        shared_part, r, use_reentrant=False, preserve_rng_state=False
    )
    return y + shared_y, last + shared_last


class _OwnPart(torch.autograd.Function):
    """What every variable makes of its own input and state."""

    @staticmethod
    def forward(ctx, x, write, read, state, step, *generator):
        ctx.save_for_backward(x, write, read, state, step, *generator)
        carries = _carries(Generator(*generator), step)
        y, last = torch.empty_like(x), torch.empty_like(state)
        for rows in _blocks(x):
            work = _build(x[rows], write[rows], read[rows], state[rows], carries.of(rows))
            y[rows], last[rows] = _outputs(work, x.shape[2])
        return y, last

    @staticmethod
    def backward(ctx, dy, dlast):
        x, write, read, state, step, *generator = ctx.saved_tensors
        with torch.enable_grad():
            step = step.detach().requires_grad_()
            generator = [rate.detach().requires_grad_() for rate in generator]
            carries = _carries(Generator(*generator), step)
        dcarries = _Carries(*(torch.zeros_like(part) for part in carries))
        dx, dwrite, dread, dstate = (torch.empty_like(v) for v in (x, write, read, state))
        with torch.no_grad():
            for rows in _blocks(x):
                here = carries.of(rows)
                work = _build(x[rows], write[rows], read[rows], state[rows], here)
                dx[rows], dwrite[rows], dread[rows], dstate[rows] = _gradients(
                    work, here, dcarries.of(rows), dy[rows], dlast[rows]
                )
        shared = torch.autograd.grad(carries, [step, *generator], dcarries)
        return dx, dwrite, dread, dstate, *shared


class _Carries(NamedTuple):
    """Lower-triangular 2x2 blocks per state that carry a state over each span of a chunk.

    The first axis is the span: to or since the border in blocks of two halves, for each size in
    HALVES; then since the start of the chunk, until its end, and the hold over one step.
    Then [B, chunk, H, 1, time in chunk, 2N or N].
    """

    diagonal: Tensor
    vh: Tensor

    def of(self, rows: "Rows") -> "_Carries":
        return _Carries(self.diagonal[:, rows[0]], self.vh[:, rows[0]])

    def over(self, span: int) -> "_Carries":
        return _Carries(self.diagonal[span], self.vh[span])

    def half(self, span: int, which: int) -> "_Carries":
        """The carry of one half of every block; half the times each."""
        size = HALVES[span]
        return _Carries(*(_halves(part[span], size)[which] for part in self))


SINCE_START, UNTIL_END, OVER_STEP = -3, -2, -1  # spans of `_Carries` behind the halves
FIRST, SECOND = 0, 1  # halves of a block: the one that writes, the one that reads

Rows = tuple[slice, slice]  # some batch entries, some variables


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
    """The time since the start of the block, its own step included. Sums stay within blocks:
    one running sum over a long series would lose the digits of small steps.
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


class _Work(NamedTuple):
    """What forward and backward both need of some rows."""

    x: Tensor
    write: Tensor
    read: Tensor
    held: Tensor  # the write held over its step
    reads: list[Tensor]  # read, carried since the border, per size of halves
    writes: list[Tensor]  # held, carried to the border
    matrix: Tensor  # M
    read_start: Tensor  # read, carried since the start of the chunk
    write_end: Tensor  # held, carried to the end of the chunk
    starts: Tensor  # the state before each chunk, [..., 2N, P]
    last: Tensor


def _build(x: Tensor, write: Tensor, read: Tensor, state: Tensor, carries: _Carries) -> _Work:
    heads = carries.vh.shape[3]
    x = _to_chunks(x.unflatten(-1, (heads, -1)))
    write, read = (
        _to_chunks(v.flatten(-2).unsqueeze(3).expand(-1, -1, -1, heads, -1)) for v in (write, read)
    )
    held = _carry_write(carries.over(OVER_STEP), write)
    matrix = x.new_zeros(*x.shape[:-1], CHUNK)
    matrix.diagonal(dim1=-2, dim2=-1).copy_((read * held).sum(-1))
    reads, writes = [], []
    for k, size in enumerate(HALVES):
        reads.append(_carry_read(carries.half(k, SECOND), _halves(read, size)[SECOND]))
        writes.append(_carry_write(carries.half(k, FIRST), _halves(held, size)[FIRST]))
        _across_borders(matrix, size).copy_(reads[-1] @ writes[-1].mT)
    read_start = _carry_read(carries.over(SINCE_START), read)
    write_end = _carry_write(carries.over(UNTIL_END), held)
    state = state.flatten(2, 3).unflatten(-1, (heads, -1)).permute(0, 3, 1, 2, 4)
    starts, last = _chunk_states(state, write_end.mT @ x, _whole_chunk(carries))
    return _Work(x, write, read, held, reads, writes, matrix, read_start, write_end, starts, last)


def _outputs(work: _Work, time: int) -> tuple[Tensor, Tensor]:
    y = work.matrix @ work.x
    y += work.read_start @ work.starts
    last = work.last.permute(0, 2, 3, 1, 4).flatten(-2).unflatten(2, (2, -1))
    return _from_chunks(y, time).flatten(-2), last


def _gradients(
    work: _Work, carries: _Carries, dcarries: _Carries, dy: Tensor, dlast: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, write, read and state; those of the carries are added to `dcarries`."""
    time, heads = dy.shape[2], carries.vh.shape[3]
    dy = _to_chunks(dy.unflatten(-1, (heads, -1)))
    dstate = dlast.flatten(2, 3).unflatten(-1, (heads, -1)).permute(0, 3, 1, 2, 4)

    # From state to state, backwards: `dinflow` is the gradient of what each chunk adds.
    dstarts = work.read_start.mT @ dy
    dinflow, dstate = _chunk_states_backward(dstate, dstarts, _whole_chunk(carries))
    through = dinflow * work.starts
    states = carries.vh.shape[-1]
    crossed = dinflow[..., states:, :] * work.starts[..., :states, :]
    dwhole = _whole_chunk(dcarries)
    dwhole.diagonal.add_(through.sum((3, 5)).unsqueeze(3))
    dwhole.vh.add_(crossed.sum((3, 5)).unsqueeze(3))

    dx = work.matrix.mT @ dy
    dx += work.write_end @ dinflow
    dread = _carry_read_backward(
        dy @ work.starts.mT, work.read, carries.over(SINCE_START), dcarries.over(SINCE_START)
    )
    dheld = _carry_write_backward(
        work.x @ dinflow.mT, work.held, carries.over(UNTIL_END), dcarries.over(UNTIL_END)
    )
    dmatrix = dy @ work.x.mT
    ddiagonal = dmatrix.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    dread.addcmul_(ddiagonal, work.held)
    dheld.addcmul_(ddiagonal, work.read)
    for k, size in enumerate(HALVES):
        dblocks = _across_borders(dmatrix, size)
        _halves(dread, size)[SECOND].add_(
            _carry_read_backward(
                dblocks @ work.writes[k],
                _halves(work.read, size)[SECOND],
                carries.half(k, SECOND),
                dcarries.half(k, SECOND),
            )
        )
        _halves(dheld, size)[FIRST].add_(
            _carry_write_backward(
                dblocks.mT @ work.reads[k],
                _halves(work.held, size)[FIRST],
                carries.half(k, FIRST),
                dcarries.half(k, FIRST),
            )
        )
    dwrite = _carry_write_backward(
        dheld, work.write, carries.over(OVER_STEP), dcarries.over(OVER_STEP)
    )
    return (
        _from_chunks(dx, time).flatten(-2),
        _from_chunks(dwrite, time).sum(3).unflatten(-1, (2, -1)),
        _from_chunks(dread, time).sum(3).unflatten(-1, (2, -1)),
        dstate.permute(0, 2, 3, 1, 4).flatten(-2).unflatten(2, (2, -1)),
    )


def _carry_write(carry: _Carries, z: Tensor) -> Tensor:
    """carry z: what was written flows from h to v."""
    states = carry.vh.shape[-1]
    out = z * carry.diagonal
    out[..., states:].addcmul_(carry.vh, z[..., :states])
    return out


def _carry_read(carry: _Carries, z: Tensor) -> Tensor:
    """z carry: a read of v also reads what will have flowed there from h."""
    states = carry.vh.shape[-1]
    out = z * carry.diagonal
    out[..., :states].addcmul_(carry.vh, z[..., states:])
    return out


def _carry_write_backward(dout: Tensor, z: Tensor, carry: _Carries, dcarry: _Carries) -> Tensor:
    states = carry.vh.shape[-1]
    dcarry.diagonal.add_((dout * z).sum(3, keepdim=True))
    dcarry.vh.add_((dout[..., states:] * z[..., :states]).sum(3, keepdim=True))
    return _carry_read(carry, dout)


def _carry_read_backward(dout: Tensor, z: Tensor, carry: _Carries, dcarry: _Carries) -> Tensor:
    states = carry.vh.shape[-1]
    dcarry.diagonal.add_((dout * z).sum(3, keepdim=True))
    dcarry.vh.add_((dout[..., :states] * z[..., states:]).sum(3, keepdim=True))
    return _carry_write(carry, dout)


def _whole_chunk(carries: _Carries) -> _Carries:
    """Over a whole chunk: since its start, at its last time. [B, chunk, H, 1, 2N or N]."""
    return _Carries(*(part[SINCE_START][..., -1, :] for part in carries))


def _chunk_states(state: Tensor, inflow: Tensor, whole: _Carries) -> tuple[Tensor, Tensor]:
    """The state [B,H,V,2N,P] before every chunk, and after the last."""
    states = whole.vh.shape[-1]
    starts = torch.empty_like(inflow)
    for k in range(inflow.shape[1]):
        starts[:, k] = state
        carried = torch.addcmul(inflow[:, k], whole.diagonal[:, k].unsqueeze(-1), state)
        carried[..., states:, :].addcmul_(whole.vh[:, k].unsqueeze(-1), state[..., :states, :])
        state = carried
    return starts, state


def _chunk_states_backward(
    dstate: Tensor, dstarts: Tensor, whole: _Carries
) -> tuple[Tensor, Tensor]:
    """The gradient of what flows into every state, and of the state before the first chunk."""
    states = whole.vh.shape[-1]
    dinflow = torch.empty_like(dstarts)
    for k in reversed(range(dstarts.shape[1])):
        dinflow[:, k] = dstate
        carried = torch.addcmul(dstarts[:, k], whole.diagonal[:, k].unsqueeze(-1), dstate)
        carried[..., :states, :].addcmul_(whole.vh[:, k].unsqueeze(-1), dstate[..., states:, :])
        dstate = carried
    return dinflow, dstate


def _halves(z: Tensor, size: int) -> tuple[Tensor, ...]:
    """Both halves of every block of 2 size times: [..., block, size, k] each."""
    return z.unflatten(-2, (-1, 2, size)).unbind(-3)


def _across_borders(matrix: Tensor, size: int) -> Tensor:
    """The entries of M that read in the second half what the first has written, block by block."""
    blocks = matrix.unflatten(-1, (-1, 2, size)).unflatten(-4, (-1, 2, size))
    return blocks.diagonal(dim1=-6, dim2=-3)[..., SECOND, :, FIRST, :, :].movedim(-1, -3)


def _blocks(x: Tensor) -> Iterator[Rows]:
    batch, variables, time, _ = x.shape
    rows = max(1, ENTRIES // time)
    many, few = min(variables, rows), max(1, rows // variables)
    for b in range(0, batch, few):
        for v in range(0, variables, many):
            yield slice(b, b + few), slice(v, v + many)


def _to_chunks(z: Tensor) -> Tensor:
    """[B,V,T,H,K] to [B, chunk, H, V, time in chunk, K], padded with zeros."""
    z = pad(z, (0, 0, 0, 0, 0, -z.shape[2] % CHUNK))
    return z.unflatten(2, (-1, CHUNK)).permute(0, 2, 4, 1, 3, 5).contiguous()


def _from_chunks(z: Tensor, time: int) -> Tensor:
    return z.permute(0, 3, 1, 4, 2, 5).flatten(2, 3)[:, :, :time]
