from dataclasses import replace

import numpy as np

from orderless.data import read_panel
from orderless.data.groups import match_groups

(SYSTEM,) = read_panel(np.ones((5, 1))).systems


def test_groups_are_known_by_their_number_where_nothing_has_to_be_guessed():
    def match(names, known):
        return match_groups([replace(SYSTEM, name=name) for name in names], known)

    assert match(["001", 2.0, "-03", "x"], ["1", "2", "-3"]) == ["1", "2", "-3", None]
    assert match(["1", "001"], ["1"]) == ["1", None]
    assert match(["01"], ["1", "001"]) == [None]
