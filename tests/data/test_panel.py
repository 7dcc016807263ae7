import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.data import canonical_order, read_panel


@settings(max_examples=100)
@given(names=st.lists(st.text(), unique=True, min_size=1), random=st.randoms(use_true_random=False))
def test_canonical_order_forgets_the_order_and_restore_brings_it_back(names, random):
    shuffled = random.sample(names, len(names))
    order, restore = canonical_order(shuffled)
    assert [shuffled[place] for place in order] == sorted(names)
    assert np.array_equal(np.arange(len(names))[order][restore], np.arange(len(names)))


def test_a_panel_tells_what_it_holds():
    panel = read_panel([np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([[1.0, 2.0, 3.0]])])
    assert panel.variables == ("v0", "v1", "v2")
    assert panel.missing_share == pytest.approx(1 / 7)
    assert str(panel.frequency) == "1"
