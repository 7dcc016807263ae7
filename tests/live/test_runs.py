import io
import json
import os
import random
import signal
import time

import numpy as np
import pytest

from orderless.errors import DataError, ModelFileError
from orderless.live import runs
from orderless.live.runs import Answers, Lines, Stop, follow

NAMES = [f"sensor_{number}" for number in range(5)]


@pytest.fixture
def ticks(tmp_path):
    values = np.random.default_rng(0).normal(size=(60, 5)).round(3)
    path = tmp_path / "ticks.jsonl"
    rows = ({"time": time} | dict(zip(NAMES, row, strict=True)) for time, row in enumerate(values))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(model, source, output, state=None, *, delimiter=None):
    """As `orderless stream --input --output --state` does."""
    there = state is not None and output.exists()
    with source.open("rb") as lines, output.open("r+b" if there else "w+b") as sink:
        stream = model.stream()
        follow(stream, Lines(lines, True, delimiter), Answers(sink, True), state, Stop())
    return stream


def numbers(path):
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_csv_gives_the_answers_of_json_lines(closed_detector, ticks, tmp_path):
    rows = [json.loads(line) for line in ticks.read_text().splitlines()]
    rows[7]["sensor_2"] = None
    ticks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = tmp_path / "ticks.csv"
    cells = [",".join("" if one is None else str(one) for one in row.values()) for row in rows]
    table.write_text("\n".join(["\ufeff" + ",".join(rows[0]), *cells]))
    run(closed_detector, ticks, tmp_path / "one")
    run(closed_detector, table, tmp_path / "two", delimiter=",")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert numbers(tmp_path / "one") == list(range(1, 61))


def test_a_file_that_grows_is_read_on_by_whole_lines(closed_detector, ticks, tmp_path):
    content, state = ticks.read_bytes(), tmp_path / "state"
    run(closed_detector, ticks, tmp_path / "whole")
    for end in (0, 100, 101, len(content) // 2, len(content) - 1, len(content), len(content)):
        ticks.write_bytes(content[:end])
        run(closed_detector, ticks, tmp_path / "answers", state)
    assert (tmp_path / "answers").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_pipe_that_begins_anew_drops_what_was_had(closed_detector, ticks, tmp_path):
    content, out = ticks.read_bytes(), io.BytesIO()
    lines = content.splitlines(keepends=True)
    for part in (lines[:30], lines):
        stream, source = closed_detector.stream(), io.BytesIO(b"".join(part))
        follow(stream, Lines(source, False), Answers(out, False), tmp_path, Stop())
    found = [json.loads(line)["number"] for line in out.getvalue().splitlines()]
    assert found == list(range(1, 61))
    assert stream.dropped == 30


@pytest.mark.parametrize(
    "line", [b"{", b"[1]", b'{"time": 5, "sensor_0": "x"}', b'{"time": "noon"}', b"\xff"]
)
def test_a_line_that_cannot_be_read_is_named_and_can_be_corrected(
    closed_detector, ticks, tmp_path, line
):
    lines = ticks.read_bytes().splitlines(keepends=True)
    ticks.write_bytes(b"".join([*lines[:5], line + b"\n", *lines[5:]]))
    with pytest.raises(DataError, match="Line 6"):
        run(closed_detector, ticks, tmp_path / "answers", tmp_path / "state")
    ticks.write_bytes(b"".join(lines))
    run(closed_detector, ticks, tmp_path / "answers", tmp_path / "state")
    assert numbers(tmp_path / "answers") == list(range(1, 61))


def test_files_that_the_state_was_not_saved_with_are_refused(closed_detector, ticks, tmp_path):
    answers, state = tmp_path / "answers", tmp_path / "state"
    answers.write_text("precious\n")
    with pytest.raises(DataError, match="output"):
        run(closed_detector, ticks, answers, state)
    assert answers.read_text() == "precious\n"
    answers.unlink()
    run(closed_detector, ticks, answers, state)
    content = ticks.read_bytes()
    ticks.write_bytes(content.replace(b"5", b"6"))
    with pytest.raises(DataError, match="input"):
        run(closed_detector, ticks, answers, state)
    ticks.write_bytes(content)
    answers.write_text("other\n")
    with pytest.raises(DataError, match="output"):
        run(closed_detector, ticks, answers, state)
    for damaged in (b"", b"{}", b"\xff", (state / runs.STATE).read_bytes()[:-9]):
        (state / runs.STATE).write_bytes(damaged)
        with pytest.raises(ModelFileError):
            run(closed_detector, ticks, answers, state)


def test_a_signal_ends_between_two_ticks_and_leaves_a_state(closed_detector, ticks, tmp_path):
    answers, stop = tmp_path / "answers", Stop()
    stream = closed_detector.stream()
    push = stream.push

    def push_and_stop(readings, moment):
        if stream.number == 20:
            os.kill(os.getpid(), signal.SIGTERM)
        return push(readings, moment)

    stream.push = push_and_stop
    with (
        ticks.open("rb") as source,
        answers.open("w+b") as sink,
        stop.listening(),
        pytest.raises(KeyboardInterrupt),
    ):
        follow(stream, Lines(source, True), Answers(sink, True), tmp_path, stop)
    assert numbers(answers) == list(range(1, 22))
    run(closed_detector, ticks, answers, tmp_path)
    assert numbers(answers) == list(range(1, 61))


def test_a_signal_ends_a_wait(closed_detector, tmp_path):
    reading, writing = os.pipe()
    stop = Stop()
    if (child := os.fork()) == 0:
        time.sleep(0.3)
        os.kill(os.getppid(), signal.SIGINT)
        os._exit(0)
    source, answers = os.fdopen(reading, "rb"), Answers(io.BytesIO(), False)
    with source, stop.listening(), pytest.raises(KeyboardInterrupt):
        follow(closed_detector.stream(), Lines(source, False), answers, tmp_path, stop)
    os.close(writing)
    os.waitpid(child, 0)
    assert (tmp_path / runs.STATE).exists()


def killed(model, ticks, folder, kills, monkeypatch):
    """Answers of a run that is killed so many times, each after a random while, and goes on."""
    monkeypatch.setattr(runs, "SECONDS", 0.02)
    draw, answers, state = random.Random(0), folder / "answers", folder / "state"
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            run(model, ticks, answers, state)
            os._exit(0)
        time.sleep(draw.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    run(model, ticks, answers, state)
    return answers.read_bytes()


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.long)])
def test_every_answer_is_there_once_whenever_it_is_killed(
    closed_detector, ticks, tmp_path, monkeypatch, kills
):
    rows = [json.loads(line) for line in ticks.read_text().splitlines()]
    many = [row | {"time": time} for time, row in enumerate(rows * (kills // 2))]
    ticks.write_text("".join(json.dumps(row) + "\n" for row in many))
    run(closed_detector, ticks, tmp_path / "whole")
    found = killed(closed_detector, ticks, tmp_path, kills, monkeypatch)
    assert found == (tmp_path / "whole").read_bytes()
