"""A child that hangs is killed, and is a failure."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

PREDICT = """
import os, signal, numpy as np, torch
from orderless import Detector
torch.set_num_threads(2)
values = np.random.default_rng(0).standard_normal((150, 100))
model = Detector(16, network={"channels": 8, "states": 2}, epochs=1, verbose=False)
model.set_params(training={"steps_per_epoch": 1}).fit(values[:, :3])
expected = model.score(values)
child = os.fork()
if child == 0:
    signal.alarm(60)
    assert torch.get_num_threads() == 1
    np.testing.assert_allclose(model.score(values), expected, rtol=1e-4)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

POLARS = """
import os, polars
from orderless import forks
from orderless.errors import DataError
def at_work(): polars.DataFrame({"a": range(99), "b": [1] * 99}).sort("a").group_by("b").len()
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            forks.check_polars()
            work()
            os._exit(7)
        except DataError:
            os._exit(8)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(in_child(at_work))
at_work()
print(in_child(at_work), in_child(lambda: os._exit(in_child(at_work))))
forks.check_polars()
"""


def run(code):
    """What a process of its own prints."""
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | {"POLARS_MAX_THREADS": "2"},
        check=True,
    )
    return done.stdout.split()


def test_a_child_predicts_although_its_parent_used_several_threads():
    assert run(PREDICT) == ["7"]


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells the threads of a process")
def test_polars_is_refused_in_children_of_a_process_that_used_it_and_in_no_other():
    assert run(POLARS) == ["7", "8", "8"]
