import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.nn.patches import count_patches, cut_patches, join_patches


@given(length=st.integers(1, 60), patch=st.integers(1, 12), data=st.data())
@settings(max_examples=60)
def test_cutting_and_joining_gives_the_series_back(length, patch, data):
    stride = data.draw(st.integers(1, patch))
    x = torch.randn(2, 3, length, dtype=torch.float64)
    patches = cut_patches(x, patch, stride)
    assert patches.shape == (2, 3, count_patches(length, patch, stride), patch)
    torch.testing.assert_close(join_patches(patches, length, stride), x)


def test_the_last_patch_ends_now_and_the_first_lacks_what_came_before():
    patches = cut_patches(torch.arange(1.0, 8.0), 4, 2)
    assert patches.tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]


def test_overlapping_patches_are_averaged():
    patches = torch.tensor([[1.0, 1.0], [3.0, 3.0]])
    assert join_patches(patches, 3, 1).tolist() == [1.0, 2.0, 3.0]
