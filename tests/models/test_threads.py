import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from forecasting_cases import BRIEF, SMALL

from orderless import Forecaster, load
from orderless.models.run import GENERATOR
from orderless.models.threads import ROWS_PER_THREAD, threads_for

VALUES = np.random.default_rng(0).standard_normal((80, 3))


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


def network(seed=0) -> Forecaster:
    settings = {"network": SMALL | {"dropout": 0.3}, "training": BRIEF, "verbose": False}
    return Forecaster(4, 8, members="network", epochs=1, random_state=seed, **settings)


def test_fits_in_threads_are_those_of_their_seeds_and_leave_torchs_generator_alone(tmp_path):
    def fit(seed):
        model = network(seed).fit(VALUES)
        model.save(tmp_path / str(seed))
        load(tmp_path / str(seed))
        return model.predict(VALUES)

    before = torch.get_rng_state()
    alone = [fit(seed) for seed in range(4)]
    assert not np.array_equal(alone[0], alone[1])
    assert torch.equal(before, torch.get_rng_state())
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(4)))
    np.testing.assert_array_equal(together, alone)
    assert torch.equal(before, torch.get_rng_state())


def test_load_does_not_wait_for_a_fit_and_a_child_process_not_for_its_parent(tmp_path):
    network().fit(VALUES).save(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(GENERATOR.acquire).result()
        assert load(tmp_path).predict(VALUES).shape == (4, 3)
        assert not GENERATOR.acquire(blocking=False)
        child = os.fork()
        if child == 0:
            os._exit(0 if GENERATOR.acquire(blocking=False) else 1)
        assert os.waitpid(child, 0)[1] == 0
        pool.submit(GENERATOR.release).result()
