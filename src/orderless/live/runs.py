"""Ticks from a file or a pipe, answers to another, and a state on disk that outlives the process.

The state holds the stream, and how far input and output have come. It is written in one switch,
after the output has reached the disk. From file to file every answer is therefore there once: what
lies behind the saved end of the output is cut off on a restart, and the input is read on from where
the state has it. A pipe cannot be read again: whoever feeds it sends what follows the tick that the
state ends with, or everything; what the stream has had is dropped as late. Answers that came after
the saved state then come again, with the same number.
"""

import csv
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from orderless.data.timestamps import is_time_name
from orderless.errors import DataError, ModelFileError, OrderlessError
from orderless.io import sha256, write_file
from orderless.live.streams import Stream

STATE = "stream.state"
SECONDS = 10.0
"""Between two states on disk: so much is computed again after a crash."""
TAIL = 4096
"""Bytes before a position by which a file is known again."""


class Stop:
    """Ctrl-C and SIGTERM end a run between two ticks, or while it waits for one."""

    def __init__(self) -> None:
        self.asked = self._waiting = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take both signals; outside the main thread nobody can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self._take) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def read_line(self, source: BinaryIO) -> bytes:
        """The next line; KeyboardInterrupt where the run is to end."""
        self._waiting = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            return source.readline()
        finally:
            self._waiting = False

    def _take(self, *_: object) -> None:
        self.asked = True
        if self._waiting:
            raise KeyboardInterrupt


@dataclass
class Lines:
    """Ticks as lines: JSON objects, or rows of CSV below a line with names.

    is_file         whether the source can be read again; what the shell made of it is a pipe
    time, group     the columns of these; time is found by its name if None
    offset, number  bytes and lines that were read and answered
    """

    source: BinaryIO
    is_file: bool
    delimiter: str | None = None
    time: str | None = None
    group: tuple[str, Any] | None = None
    offset: int = 0
    number: int = 0
    names: tuple[str, ...] = ()

    def read_names(self, stop: Stop) -> None:
        """The names of the columns, where there are such."""
        if self.delimiter is not None:
            line = stop.read_line(self.source)
            self.offset, self.number = len(line), 1
            self.names = tuple(self._cells(line.removeprefix(b"\xef\xbb\xbf")))
            if len(set(self.names)) < len(self.names):
                raise DataError("A name stands twice in the first line. Give every column its own.")

    def parse(self, line: bytes) -> tuple[dict[str, Any], Any] | None:
        """The readings and the time of a line; None where it is empty."""
        if not line.strip():
            return None
        tick = self._json(line) if self.delimiter is None else self._row(line)
        label = self.time or next((name for name in tick if is_time_name(name)), None)
        moment = None if label is None else tick.pop(label, None)
        if self.group is not None and self.group[0] in tick:
            found = tick.pop(self.group[0])
            if str(found) != str(self.group[1]):
                raise DataError(
                    f"The tick is of group {found!r}, and the stream of {self.group[1]!r}. A "
                    "stream is of one group: give its ticks alone, and name it with --group."
                )
        return tick, moment

    def _json(self, line: bytes) -> dict[str, Any]:
        try:
            tick = json.loads(line)
        except ValueError as error:
            raise DataError(f"It is not JSON: {error}. Correct it or take it out.") from None
        if not isinstance(tick, dict):
            raise DataError('It is no JSON object. Write {"time": ..., "name": reading, ...}.')
        return tick

    def _row(self, line: bytes) -> dict[str, Any]:
        cells = self._cells(line)
        if len(cells) != len(self.names):
            raise DataError(
                f"It has {len(cells)} cells, and the first line {len(self.names)} names. Write as "
                "many, empty ones where nothing was read."
            )
        tick: dict[str, Any] = {
            name: cell.strip() or None for name, cell in zip(self.names, cells, strict=True)
        }
        return {name: _number(cell) for name, cell in tick.items()}

    def _cells(self, line: bytes) -> list[str]:
        try:
            return next(
                csv.reader([line.decode().strip("\r\n")], delimiter=self.delimiter or ","), []
            )
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"It cannot be read: {error}. Write CSV in UTF-8.") from None


@dataclass
class Answers:
    """Answers as lines of JSON; in a file, what is behind a saved position can be cut off."""

    sink: BinaryIO
    is_file: bool

    def write(self, record: Mapping[str, Any]) -> None:
        """One line, for whoever waits for it."""
        self.sink.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self.sink.flush()


def follow(
    stream: Stream[Any], lines: Lines, answers: Answers, place: Path | None, stop: Stop
) -> None:
    """Answer every tick until the input ends or somebody stops it; save the state at the end.

    place: the folder of the state. KeyboardInterrupt once it was stopped and saved.
    """
    resumed = place is not None and _resume(stream, lines, answers, place, stop)
    if not resumed:
        lines.read_names(stop)
    if place is not None:
        save(stream, lines, answers, place)
    saved = time.monotonic()
    try:
        while line := stop.read_line(lines.source):
            if place is not None and lines.is_file and not line.endswith(b"\n"):
                break  # somebody may still be writing it
            _answer(stream, lines, answers, line)
            if place is not None and time.monotonic() - saved > SECONDS:
                save(stream, lines, answers, place)
                saved = time.monotonic()
    except (KeyboardInterrupt, OrderlessError):
        if place is not None:
            save(stream, lines, answers, place)
        raise
    if place is not None:
        save(stream, lines, answers, place)


def save(stream: Stream[Any], lines: Lines, answers: Answers, place: Path) -> None:
    """Write the state, once the answers before it are on disk."""
    facts: dict[str, Any] = {"line": lines.number, "input": None, "output": None}
    if lines.is_file:
        facts["input"] = _mark(lines.source, lines.offset)
    if answers.is_file:
        os.fsync(answers.sink.fileno())
        facts["output"] = _mark(answers.sink, answers.sink.tell())
    write_file(place / STATE, json.dumps(facts).encode() + b"\n" + stream.state())


def _answer(stream: Stream[Any], lines: Lines, answers: Answers, line: bytes) -> None:
    try:
        tick = lines.parse(line)
        answer = None if tick is None else stream.push(*tick)
    except DataError as error:
        raise type(error)(f"Line {lines.number + 1}: {error}") from error
    if answer is not None:
        answers.write(answer.record())
    lines.offset += len(line)
    lines.number += 1


def _resume(stream: Stream[Any], lines: Lines, answers: Answers, place: Path, stop: Stop) -> bool:
    """Put stream, input and output where the state has them; whether there is a state."""
    try:
        head, _, rest = (place / STATE).read_bytes().partition(b"\n")
    except FileNotFoundError:
        if answers.is_file and answers.sink.seek(0, os.SEEK_END):
            raise DataError(
                f"The output holds something, and {place} no state that it goes with. Name another "
                "file, or take it away."
            ) from None
        return False
    try:
        facts = json.loads(head)
        number, marks = int(facts["line"]), (facts["input"], facts["output"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{place / STATE} is damaged. Remove it to begin anew.") from error
    stream.restore(rest)
    if answers.is_file:
        _check_mark(answers.sink, marks[1], "output")
    if lines.is_file:
        _check_mark(lines.source, marks[0], "input")
        lines.source.seek(0)
    lines.read_names(stop)
    if lines.is_file:
        lines.offset, lines.number = marks[0]["offset"], number
        lines.source.seek(lines.offset)
    if answers.is_file:
        answers.sink.truncate(marks[1]["offset"])
        answers.sink.seek(marks[1]["offset"])
    return True


def _mark(file: BinaryIO, offset: int) -> dict[str, Any]:
    """A position in a file, and what lies before it."""
    before = file.tell()
    begin = max(0, offset - TAIL)
    file.seek(begin)
    tail = sha256(file.read(offset - begin))
    file.seek(before)
    return {"offset": offset, "tail": tail}


def _check_mark(file: BinaryIO, mark: Mapping[str, Any] | None, what: str) -> None:
    """Refuse a file that is not the one in which a position was saved."""
    try:
        known = mark is not None and _mark(file, mark["offset"]) == mark
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError("The saved state is damaged. Remove it to begin anew.") from error
    if not known:
        raise DataError(
            f"The {what} is not the file that the state was saved with, or it was changed. Name "
            "that file, or begin anew in another folder."
        )


def _number(cell: str | None) -> Any:
    """A cell as a number where it is one."""
    if cell is None:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
