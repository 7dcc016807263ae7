"""Layers to compare `VI2DSSM` with, under the same call. No network is built from them."""

from orderless.nn.comparison.ordered import OrderedSSM2D
from orderless.nn.comparison.selective import SelectiveSSM1D

__all__ = ["OrderedSSM2D", "SelectiveSSM1D"]
