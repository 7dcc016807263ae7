import pytest
import torch

from orderless.estimators.threads import ROWS_PER_THREAD, threads_for


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
