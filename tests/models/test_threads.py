import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from orderless.estimators.threads import ROWS_PER_THREAD, threads_for

from orderless import Detector, load
from orderless.estimators.base import GENERATOR


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (3 * ROWS_PER_THREAD, 3), (10**9, 4)])
def test_threads_follow_the_work_and_never_exceed_what_was_allowed(four_threads, rows, threads):
    with threads_for(rows):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 4


def test_the_number_comes_back_after_an_error(four_threads):
    with pytest.raises(ZeroDivisionError), threads_for(1):
        _ = 1 / 0
    assert torch.get_num_threads() == 4


def test_fits_in_threads_are_those_of_their_seeds_and_leave_torchs_generator_alone(tmp_path):
    values = np.random.default_rng(0).standard_normal((80, 3))

    def fit(seed):
        model = Detector(
            8,
            epochs=1,
            random_state=seed,
            network={"channels": 4, "states": 2, "dropout": 0.3},
            training={"steps_per_epoch": 8},
            verbose=False,
        ).fit(values)
        model.save(tmp_path / str(seed))
        load(tmp_path / str(seed))
        return model.score(values)

    before = torch.get_rng_state()
    alone = [fit(seed) for seed in range(4)]
    assert torch.equal(before, torch.get_rng_state())
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(4)))
    np.testing.assert_array_equal(together, alone)
    assert torch.equal(before, torch.get_rng_state())


def test_load_does_not_wait_for_a_fit_and_a_child_process_not_for_its_parent(tmp_path):
    values = np.random.default_rng(0).standard_normal((80, 3))
    Detector(8, members="ridge", verbose=False).fit(values).save(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(GENERATOR.acquire).result()
        assert load(tmp_path).score(values).shape == (80,)
        assert not GENERATOR.acquire(blocking=False)
        child = os.fork()
        if child == 0:
            os._exit(0 if GENERATOR.acquire(blocking=False) else 1)
        assert os.waitpid(child, 0)[1] == 0
        pool.submit(GENERATOR.release).result()
