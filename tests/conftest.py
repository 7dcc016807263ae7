"""Settings that must stand before anything is imported."""

import os

import torch

# Triton reads it when it is first imported, which other libraries do too: later is too late.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
