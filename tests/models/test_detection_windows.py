import numpy as np
import pytest

from orderless.data import read_panel
from orderless.errors import DataError
from orderless.models.detection.windows import MOST_HELD_OUT, cut_detection_windows


def test_windows_to_validate_begin_where_the_training_part_ends():
    windows = cut_detection_windows(read_panel(np.ones((200, 2))), 16, 0.2)
    assert windows.ends == [160]
    assert windows.held_out == [(160, 200)]
    assert windows.train[:, 1].max() == 160 - 16
    assert windows.validation[:, 1].tolist() == [160, 168, 176, 184]


def test_a_system_too_short_to_be_split_is_held_out_as_a_whole():
    windows = cut_detection_windows(read_panel([np.ones((200, 2)), np.ones((20, 2))]), 16, 0.2)
    assert windows.ends == [160, 20]
    assert windows.held_out == [(160, 200), (0, 20)]
    short = cut_detection_windows(read_panel(np.ones((3, 2))), 16, 0.2)
    assert short.held_out == [(0, 3)]
    assert short.validation.tolist() == short.train.tolist() == [[0, -13]]


def test_the_context_is_a_quarter_of_the_longest_system_up_to_96_steps():
    contexts = [
        cut_detection_windows(read_panel(np.ones((steps, 1))), None, 0.2).context
        for steps in (3, 40, 9000)
    ]
    assert contexts == [1, 10, 96]


def test_of_much_data_some_windows_validate():
    windows = cut_detection_windows(read_panel(np.ones((9000, 1))), 4, 0.5)
    assert MOST_HELD_OUT / 2 < len(windows.validation) <= MOST_HELD_OUT


def test_nothing_to_train_on_is_said():
    late = np.where(np.arange(200)[:, None] < 160, np.nan, np.ones((200, 2)))
    with pytest.raises(DataError, match=r"Not a single value is observed .* there to train"):
        cut_detection_windows(read_panel(late), 16, 0.2)
