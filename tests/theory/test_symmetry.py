import pytest
import torch

from orderless.errors import ShapeError
from orderless.theory import causality_error, equivariance_error


@pytest.fixture
def x():
    return torch.randn(2, 5, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_a_function_of_each_variable_and_their_mean_is_equivariant(x):
    assert equivariance_error(lambda x: x.sin() + x.mean(1, keepdim=True), x) < 1e-15


def test_a_running_sum_over_variables_is_not(x):
    assert equivariance_error(lambda x: x.cumsum(1), x) > 0.1


def test_singling_out_one_variable_is_found_with_two_variables_and_one_permutation():
    x = torch.arange(2.0).reshape(1, 2, 1, 1)
    weights = torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1)
    assert equivariance_error(lambda x: x * weights, x, permutations=1) > 0.1


def test_every_input_is_reordered_and_only_the_first_output_counts(x):
    mask = torch.rand(2, 5, generator=torch.Generator().manual_seed(2)) < 0.5

    def masked(x, mask):
        return torch.where(mask[:, :, None, None], x, 0.0), x.cumsum(1)

    assert equivariance_error(masked, x, mask) == 0.0
    assert equivariance_error(lambda x: masked(x, mask), x) > 0.1


def test_a_running_sum_over_time_is_causal_and_a_mean_over_time_is_not(x):
    assert causality_error(lambda x: x.cumsum(2), x) == 0.0
    assert causality_error(lambda x: x - x.mean(2, keepdim=True), x) > 0.01


def test_looking_one_step_ahead_is_found(x):
    assert causality_error(lambda x: x.roll(-1, 2), x, cuts=1) > 0.01


def test_causality_needs_a_past_and_outputs_that_belong_to_inputs(x):
    with pytest.raises(ShapeError, match="1 time step"):
        causality_error(lambda x: x, x[:, :, :1])
    with pytest.raises(ShapeError, match="returns 3 time steps for 7"):
        causality_error(lambda x: x[:, :, :3], x)


def test_an_output_of_zeros_has_no_error_unless_it_changes(x):
    assert equivariance_error(torch.zeros_like, x) == 0.0


def test_an_answer_that_is_not_a_number_keeps_no_promise(x):
    def never(values):
        return torch.full_like(values, torch.nan)

    def unchanged(values):
        return values if torch.equal(values, x) else never(values)

    for broken in (never, unchanged):
        assert equivariance_error(broken, x) == float("inf")
        assert causality_error(broken, x) == float("inf")
