"""`SelectiveSSM1D`: every variable on its own, the channel-independent comparison."""

from orderless.nn.ssm import VI2DSSM


class SelectiveSSM1D(VI2DSSM):
    """A selective state space layer along time alone; no variable influences another.

    The scan of `VI2DSSM` without a field, with steps from the variable's own features. Called like
    `VI2DSSM`, and returns the same.
    """

    def __init__(
        self,
        channels: int,
        *,
        states: int = 16,
        heads: int | None = None,
        step_range: tuple[float, float] = (0.01, 0.1),
    ) -> None:
        super().__init__(
            channels, states=states, heads=heads, step_range=step_range, coupling="none"
        )
