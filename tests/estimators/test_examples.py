import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
LAST_WORDS = {
    "classify_motion": "drift",
    "find_anomalies": "the sensor to blame",
    "first_forecast": "seasonal naive",
    "keep_a_model": "the same: True",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    done = subprocess.run(
        # Much of the data of one is faulty, and it is said.
        [sys.executable, "-W", "error", "-W", "ignore:These data", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert LAST_WORDS[example.stem] in done.stdout
    assert list(tmp_path.iterdir()) == [], "nothing is written unless asked"
