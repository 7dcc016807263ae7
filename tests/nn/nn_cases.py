"""Inputs and measures that the tests of this folder share."""

import torch


def drawn(shape, seed):
    """Values [B,V,T,...] with members [B,V] and observed [B,V,T]; in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    members = torch.rand(shape[:2], generator=generator) < 0.8
    observed = torch.rand(shape[:3], generator=generator) < 0.8
    return x, members, observed


def shaken(module, seed):
    """The module in float64, every parameter moved: zeros at the start would hide what they do."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.2 * noise)
    return module


def error(found, expected):
    """The distance relative to the norm."""
    return ((found - expected).norm() / expected.norm().clamp(min=1e-6)).item()
