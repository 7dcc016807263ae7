"""Networks of neuralforecast, an optional peer: `pip install '.[peers]'`.

Only the networks are theirs. They see the same windows as everything else here, are trained by the
same loop on squared errors, and are scored on the same windows.
"""

import importlib
import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from orderless.errors import SettingError

PEERS: dict[str, dict[str, Any]] = {
    "PatchTST": {
        "hidden_size": 128,
        "linear_hidden_size": 256,
        "encoder_layers": 3,
        "patch_len": 16,
        "stride": 8,
    },
    "iTransformer": {"hidden_size": 256, "d_ff": 256, "n_heads": 8, "e_layers": 2},
    "TimesNet": {"hidden_size": 32, "conv_hidden_size": 32, "top_k": 3},
    "NHITS": {},
    "NBEATS": {},
    "TiDE": {},
}
"""Names in our tables and in `neuralforecast.models`, and settings that differ from its defaults:
those of the published scripts for sets of few variables."""
JOINT = ("iTransformer",)
"""Those that see all variables at once, and are built for their number."""


class PeerForecaster(nn.Module):
    """A network of neuralforecast between our shapes.

    Contexts [window, variable, context] to forecasts [window, variable, horizon].
    """

    def __init__(self, network: nn.Module, *, joint: bool) -> None:
        super().__init__()
        self.network, self.joint = network, joint

    def forward(self, x: Tensor) -> Tensor:
        """The forecast."""
        history = x.mT if self.joint else x.flatten(0, 1).unsqueeze(-1)
        forecast = self.network(
            {
                "insample_y": history,
                "insample_mask": torch.ones_like(history),
                "hist_exog": None,
                "futr_exog": None,
                "stat_exog": None,
            }
        )
        return forecast.mT if self.joint else forecast.squeeze(-1).unflatten(0, x.shape[:2])


def peer_builder(
    name: str, context: int, horizon: int, variables: int
) -> Callable[[], PeerForecaster]:
    """What makes the network of that name; its weights depend on torch's generator."""
    if find_spec("neuralforecast") is None:
        raise SettingError(
            f"{name} needs neuralforecast, which is not installed: `pip install neuralforecast`."
        )

    def build() -> PeerForecaster:
        with warnings.catch_warnings():
            # What it and its libraries say about their own future is no matter of ours.
            warnings.simplefilter("ignore")
            logging.getLogger("lightning_fabric.utilities.seed").setLevel(logging.ERROR)
            models = importlib.import_module("neuralforecast.models")
            settings = PEERS[name] | ({"n_series": variables} if name in JOINT else {})
            # It seeds every generator itself, with 1 unless given another.
            seed = int(torch.randint(2**31, ()))
            network = getattr(models, name)(
                h=horizon, input_size=context, random_seed=seed, **settings
            )
        return PeerForecaster(network, joint=name in JOINT)

    return build
