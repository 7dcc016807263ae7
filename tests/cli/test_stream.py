import json
import os
import signal
import subprocess
import sys

import pytest

from orderless import load
from orderless.cli import main
from orderless.data import read_table


@pytest.fixture
def ticks(files, tmp_path):
    table = read_table(files / "plant.csv").to_dicts()[:30]
    path = tmp_path / "ticks.jsonl"
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table))
    return path


def test_the_last_answer_is_the_forecast_of_the_file(files, forecaster, ticks, tmp_path):
    answers = tmp_path / "answers.jsonl"
    command = ["stream", str(forecaster), "--input", str(ticks), "--output", str(answers)]
    assert main([*command, "--level", "80", "--state", str(tmp_path / "state")]) == 0
    assert main([*command, "--level", "80", "--state", str(tmp_path / "state")]) == 0
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [one["number"] for one in found] == list(range(1, 31))
    expected = load(forecaster).predict(read_table(files / "plant.csv")[:30], level=80)
    for name, values in found[-1]["values"].items():
        assert values == pytest.approx(list(expected[name]), rel=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--input", "none.jsonl"], "no file"),
        (["--level", "101"], "level"),
        (["--output", "missing/answers.jsonl"], "folder"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(forecaster, words, said, capsys):
    assert main(["stream", str(forecaster), *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


def test_a_model_of_cases_does_not_stream(classifier, capsys):
    assert main(["stream", str(classifier)]) == 2
    assert "classify" in capsys.readouterr().err


def test_through_pipes_until_a_signal(detector, tmp_path):
    command = [sys.executable, "-m", "orderless", "stream", str(detector)]
    with subprocess.Popen(
        [*command, "--state", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        for number in range(3):
            process.stdin.write(b'{"sensor_0": 1.5}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["number"] == number + 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    done = subprocess.run(
        [*command, "--state", str(tmp_path)],
        input=b'{"sensor_0": 1.5}\n',
        capture_output=True,
        check=True,
        env=os.environ,
    )
    assert json.loads(done.stdout)["number"] == 4
