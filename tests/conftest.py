"""What all tests start from; settings must stand before anything else is imported."""

import os

import pytest
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


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run what is marked as long too")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long"):
        for item in items:
            if "long" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs --long"))


@pytest.fixture(autouse=True)
def _the_same_weights():
    """In every run, as above: layers draw their first weights from the generator of the process."""
    torch.manual_seed(0)
