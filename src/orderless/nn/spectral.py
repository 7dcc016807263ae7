"""The spectral pathway: a scan along frequency instead of time.

Tokens go to their real Fourier coefficients, the layer runs along the frequencies, and the result
comes back to the time domain before it meets the other pathways. All of it is differentiable.
"""

import torch
from torch import Tensor, nn

from orderless.nn.ssm import VI2DSSM
from orderless.ops import keep, presence


class SpectralBranch(nn.Module):
    """[batch, variable, token, channel] in and out, filtered along the frequencies of the tokens.

    - `stacked`: real and imaginary parts are channels of their frequency. Frequencies have no
      direction, so they are scanned both ways.
    - `concatenated`: real parts and then imaginary parts as one sequence as long as the input,
      scanned once: the paper's layout.

    Every output depends on every token: this pathway is not causal. Called like `VI2DSSM`; there
    is no state to carry on, so the second result is None.
    """

    def __init__(self, channels: int, *, layout: str, **settings) -> None:
        super().__init__()
        self.layout = layout
        self.upward = VI2DSSM(channels, **settings)
        if layout == "stacked":
            self.downward = VI2DSSM(channels, **settings)
            self.enter = nn.Linear(2 * channels, channels, bias=False)
            self.leave = nn.Linear(channels, 2 * channels, bias=False)

    def forward(
        self, x: Tensor, *, members: Tensor | None = None, observed: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Filtered tokens, 0 where nothing is observed; and no state."""
        mask = presence(members, observed)
        # A variable is in the spectrum when any of its tokens is there.
        inside = None if mask is None else mask.any(-1)
        spectrum = torch.fft.rfft(_at_least_float32(keep(x, mask)), dim=2, norm="ortho")
        if self.layout == "stacked":
            y = self._stacked(spectrum, inside)
        else:
            y = self._concatenated(spectrum, x.shape[2], inside)
        y = torch.fft.irfft(y, n=x.shape[2], dim=2, norm="ortho").to(x.dtype)
        return keep(y, mask), None

    def _stacked(self, spectrum: Tensor, members: Tensor | None) -> Tensor:
        u = self.enter(torch.cat((spectrum.real, spectrum.imag), dim=-1))
        up, _ = self.upward(u, members=members)
        down, _ = self.downward(u, members=members, reverse=True)
        real, imag = _at_least_float32(self.leave(up + down)).chunk(2, dim=-1)
        return torch.complex(real.contiguous(), imag.contiguous())

    def _concatenated(self, spectrum: Tensor, tokens: int, members: Tensor | None) -> Tensor:
        # The imaginary part at frequency 0 is always 0; at the last one too if the length is even.
        imaginary = slice(1, (tokens + 1) // 2)
        reals = spectrum.shape[2]
        u = torch.cat((spectrum.real, spectrum.imag[:, :, imaginary]), dim=2)
        y = _at_least_float32(self.upward(u, members=members)[0])
        real = y[:, :, :reals]
        imag = torch.zeros_like(real)
        imag[:, :, imaginary] = y[:, :, reals:]
        return torch.complex(real.contiguous(), imag)


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
