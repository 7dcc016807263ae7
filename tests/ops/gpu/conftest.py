"""Kernels run on the GPU where there is one, and in Triton's interpreter elsewhere."""

import pytest
import torch


@pytest.fixture(scope="session")
def device(tmp_path_factory) -> str:
    pytest.importorskip("triton", reason="the kernels are written in Triton")
    if torch.cuda.is_available():
        return "cuda"
    from bounds import watch
    from emulation import emulate, round_like_a_gpu

    _allow_loops_in_the_interpreter()
    emulate(tmp_path_factory.mktemp("gluon"))
    watch()
    round_like_a_gpu()
    return "cpu"


def _allow_loops_in_the_interpreter() -> None:
    """Triton 3.6 holds a scalar as an array of one entry; NumPy 2.4 takes none for an integer."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_with_index(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_with_index
