"""Saves a model over another while it is killed, or while somebody reads; prints what went wrong.

Run as `interrupted_saves.py kill|read FOLDER COUNT`. One process imports everything, the others are
forked from it.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orderless import Detector, Forecaster, load
from orderless.data.simulate import plant
from orderless.errors import OrderlessError

VALUES, _ = plant(0, sensors=3, steps=120)
SMALL = {"network": {"channels": 8, "states": 2}, "epochs": 1, "verbose": False}
SMALL |= {"training": {"steps_per_epoch": 1}}
NETWORK = {**SMALL, "members": "network on ridge"}


@contextmanager
def another_process(work) -> Iterator[int]:
    """Another process at work, which is killed in the end, without a chance to say goodbye."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def save_again_and_again(models, folder: Path) -> None:
    while True:
        for model in models:
            model.save(folder)


def outcome_of_load(folder: Path) -> str:
    try:
        return type(load(folder)).__name__
    except OrderlessError as error:
        return f"{type(error).__name__}: {error}"


def main(how: str, folder: Path, count: int) -> None:
    models = (Forecaster(4, 12, **NETWORK).fit(VALUES), Detector(12, **SMALL).fit(VALUES))
    random.seed(0)
    begun = time.perf_counter()
    for model in models:
        model.save(folder)
    longest = 2 * (time.perf_counter() - begun)
    found = []
    if how == "kill":
        most = 0
        for _ in range(count):
            with another_process(lambda: save_again_and_again(models, folder)):
                time.sleep(random.uniform(0, longest))
            most = max(most, len(list(folder.iterdir())))
            found.append(outcome_of_load(folder))
        models[0].save(folder)
        print("files", len(list(folder.iterdir())), "at most", most)
    else:
        writers = [lambda: save_again_and_again(models, folder)] * 2
        with another_process(writers[0]), another_process(writers[1]):
            found = [outcome_of_load(folder) for _ in range(count)]
    for kind in sorted(set(found)):
        print(kind, found.count(kind))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
