"""Settings that must stand before anything is imported."""

import os

import torch
from hypothesis import settings

# Triton reads it when it is first imported, which other libraries do too: later is too late.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# The same draws in every run, so that a commit passes or fails for good. To look for new
# counterexamples: `pytest --hypothesis-profile=search`.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("repeatable")
