import pytest
import torch
from test_loop import same, weights
from toy import Toy, settings

from orderless.training import loop, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_recorded_run_ends_where_a_plain_one_does(monkeypatch, precision):
    config = settings(device="cuda", precision=precision)
    recorded, plain = Toy(), Toy()
    train(recorded, config)
    monkeypatch.setattr(loop, "Recorder", lambda: None)
    train(plain, config)
    for one, other in zip(weights(recorded), weights(plain), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_recorded_run_repeats_to_the_bit():
    one, other = Toy(), Toy()
    for task in (one, other):
        train(task, settings(device="cuda"))
    assert same(one, other)


def test_a_recorded_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path):
    class Interrupted(Toy):
        """Stops in the middle of an epoch, as Ctrl-C would."""

        draws = 0

        def draw(self, index):
            self.draws += 1
            if self.draws == 21:
                raise KeyboardInterrupt
            return super().draw(index)

    config = settings(device="cuda", checkpoint=tmp_path, checkpoint_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        train(Interrupted(), config)
    resumed, whole = Toy(), Toy()
    train(resumed, config)
    train(whole, settings(device="cuda"))
    assert same(resumed, whole)


def test_one_run_after_another_takes_no_more_memory():
    """cuBLAS keeps memory for every stream and thread that ever called it."""
    taken = []
    for _ in range(3):
        train(Toy(), settings(device="cuda"))
        taken.append(torch.cuda.memory_allocated())
    assert taken[0] == taken[1] == taken[2]
