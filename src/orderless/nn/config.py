"""`NetworkConfig`: every size and switch of the network, and the presets."""

from dataclasses import dataclass, replace
from typing import Any

from orderless.errors import SettingError
from orderless.nn.ssm import COUPLINGS, POOLS

BRANCHES = ("long", "short", "spectral")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What a network is made of. Nothing here depends on the number of variables.

    A branch remembers about 1 / step tokens, less for its faster states, so *small* steps make a
    long memory. (The paper says the reverse of its ranges; `paper` keeps them as printed.)
    """

    patch: int = 16
    """Time steps in a token."""
    stride: int = 8
    """Time steps from one token to the next."""
    channels: int = 32
    layers: int = 1
    expansion: int = 1
    """Channels inside a block, as a multiple of `channels`."""
    states: int = 8
    kernel: int = 4
    """Tokens that the short convolution sees."""
    branches: tuple[str, ...] = BRANCHES
    """Which pathways there are; leave one out to see what it does."""
    long_steps: tuple[float, float] = (0.02, 0.1)
    short_steps: tuple[float, float] = (0.2, 1.0)
    spectral_steps: tuple[float, float] = (0.05, 0.5)
    spectral_layout: str = "stacked"
    """`stacked`: real and imaginary parts are channels of one frequency, scanned both ways;
    `concatenated`: all real parts, then all imaginary parts, as one sequence (the paper)."""
    gate: str = "variable"
    """Branches are weighed for each `variable`, or for all at once (`global`, the paper), if they
    are coupled."""
    pool: str = "mean"
    coupling: str = "field"
    """`field`, `feedback`, or `none`: then nothing at all crosses the variables."""
    center: str = "mean"
    """What a context is centered by: its `mean`, its `last` value, or `none`."""
    scale: bool = True
    """Whether it is divided by its standard deviation as well."""
    skip: bool = True
    """Forecasting starts from a linear forecast, pooled too unless coupling is `none`."""
    head_rank: int = 32
    """Rank of the map from all tokens of a variable to its forecast; where the horizon is shorter,
    it limits nothing."""
    dropout: float = 0.2

    def __post_init__(self) -> None:
        sizes = ("patch", "stride", "channels", "layers", "expansion", "states", "kernel")
        for name in (*sizes, "head_rank"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.stride > self.patch:
            raise SettingError(
                f"stride={self.stride} is larger than patch={self.patch}; "
                "the time steps between two patches would never be seen."
            )
        # JSON has no tuples: a config that was saved comes back with lists.
        object.__setattr__(self, "branches", tuple(self.branches))
        for name in ("long_steps", "short_steps", "spectral_steps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.branches or set(self.branches) - set(BRANCHES):
            raise SettingError(
                f"branches={self.branches} must name one or more of {', '.join(BRANCHES)}."
            )
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout={self.dropout} must lie in [0, 1).")
        choices = {
            "spectral_layout": ("stacked", "concatenated"),
            "gate": ("variable", "global"),
            "pool": POOLS,
            "coupling": COUPLINGS,
            "center": ("mean", "last", "none"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise SettingError(
                    f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}."
                )

    @property
    def coupled(self) -> bool:
        """Whether variables influence each other."""
        return self.coupling != "none"


def default(context: int, **changes: Any) -> NetworkConfig:
    """Our settings: light enough for a few minutes on a laptop, wide enough to add to a ridge."""
    stride = _stride(context)
    config = NetworkConfig(patch=2 * stride, stride=stride, channels=32, states=8, dropout=0.3)
    return replace(config, **changes)


def tiny(context: int, **changes: Any) -> NetworkConfig:
    """Small enough to fit within half a minute on a laptop."""
    stride = _stride(context)
    config = NetworkConfig(patch=2 * stride, stride=stride, channels=32, states=4, dropout=0.1)
    return replace(config, **changes)


def paper(context: int, **changes: Any) -> NetworkConfig:
    """The paper's ranges of steps and layouts to the letter; sizes, which it omits, are ours."""
    config = default(
        context,
        long_steps=(0.1, 0.5),
        short_steps=(0.01, 0.05),
        spectral_steps=(0.001, 0.01),
        spectral_layout="concatenated",
        gate="global",
        skip=False,
        states=16,
        dropout=0.1,
    )
    return replace(config, **changes)


def _stride(context: int) -> int:
    """Cuts a context into about seven overlapping patches; a long one into more, 48 steps apart."""
    return min(max(1, context // 8), 48)


PRESETS = {"default": default, "tiny": tiny, "paper": paper}
