"""Layers and the network: parameters around `ops`, every weight shared by the variables."""

from orderless.nn.ssm import VI2DSSM

__all__ = ["VI2DSSM"]
