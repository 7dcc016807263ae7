import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.errors import ShapeError
from orderless.ops import attention_pool, mean_pool, sum_pool

POOLS = ("mean", "sum", "attention")
sizes = st.tuples(
    st.integers(1, 3), st.sampled_from((1, 2, 3, 7, 13, 101)), st.integers(1, 9), st.integers(1, 5)
)
modest = settings(max_examples=40)


def pooled(name, x, query_weight=None, **masks):
    if name == "mean":
        return mean_pool(x, **masks)
    if name == "sum":
        return sum_pool(x, **masks)
    if query_weight is None:
        query_weight = torch.eye(x.shape[-1], dtype=x.dtype)
    return attention_pool(x, x.flip(-1), query_weight, **masks)


def drawn(shape, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    members = torch.rand(shape[:2], generator=generator) < 0.7
    observed = torch.rand(shape[:3], generator=generator) < 0.7
    return x, members, observed


@pytest.mark.parametrize("name", POOLS)
@given(shape=sizes, seed=st.integers(0, 2**20))
@modest
def test_reordering_variables_changes_no_pool(name, shape, seed):
    x, members, observed = drawn(shape, seed)
    order = torch.randperm(shape[1], generator=torch.Generator().manual_seed(seed))
    y = pooled(name, x, members=members, observed=observed)
    z = pooled(name, x[:, order], members=members[:, order], observed=observed[:, order])
    assert (y - z).norm() <= 1e-12 * (1 + y.norm())


@pytest.mark.parametrize("name", POOLS)
@given(shape=sizes, seed=st.integers(0, 2**20))
@modest
def test_masked_variables_might_as_well_not_be_in_the_tensor(name, shape, seed):
    x, members, _ = drawn(shape, seed)
    y = pooled(name, x, members=members)
    for row, inside in enumerate(members):
        if inside.any():
            alone = pooled(name, x[row : row + 1, inside])
            torch.testing.assert_close(y[row : row + 1], alone, rtol=1e-10, atol=1e-12)
        else:
            assert (y[row] == 0).all()


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("rubbish", [float("nan"), 1e30, float("inf")])
def test_masked_entries_may_hold_anything_and_pass_no_gradient(name, rubbish):
    x, members, observed = drawn((2, 5, 6, 3), 1)
    members[0] = False  # a row with nobody in it
    observed[1, :, 2] = False  # a time with nobody there
    there = (members.unsqueeze(-1) & observed).unsqueeze(-1)
    weight = torch.eye(3, dtype=x.dtype, requires_grad=True)
    clean = torch.where(there, x, 0.0)
    dirty = torch.where(there, x, rubbish).requires_grad_()
    y = pooled(name, dirty, weight, members=members, observed=observed)
    assert torch.equal(y, pooled(name, clean, weight, members=members, observed=observed))
    assert (y[0] == 0).all()
    assert (y[1, 2] == 0).all()
    (y**2).sum().backward()
    assert torch.where(there, 0.0, dirty.grad).nan_to_num(7.0).abs().sum() == 0
    if name == "attention":
        assert weight.grad.isfinite().all()


def test_the_mean_is_the_mean_and_the_sum_keeps_the_variance_of_independent_variables():
    x = torch.randn(1, 10_000, 4, 50, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(mean_pool(x), x.mean(1))
    assert sum_pool(x).var().item() == pytest.approx(1.0, abs=0.3)
    assert sum_pool(x[:, :100]).var().item() == pytest.approx(1.0, abs=0.3)


def test_attention_prefers_the_variables_whose_key_meets_the_query():
    keys = torch.tensor([1.0, 1.0, -1.0]).reshape(1, 3, 1, 1)
    values = torch.tensor([5.0, 5.0, -3.0]).reshape(1, 3, 1, 1)
    flat = attention_pool(values, keys, torch.zeros(1, 1)).item()
    sharp = attention_pool(values, keys, torch.full((1, 1), 100.0)).item()
    assert flat == pytest.approx(7 / 3)
    assert sharp == pytest.approx(5.0)


@pytest.mark.parametrize("name", POOLS)
def test_the_depth_of_the_computation_does_not_grow_with_the_number_of_variables(name):
    def operations(variables):
        x = torch.randn(1, variables, 3, 2, requires_grad=True)
        seen, todo = set(), [pooled(name, x).grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                todo += [parent for parent, _ in node.next_functions]
        return len(seen)

    assert operations(2) == operations(500)


@pytest.mark.parametrize("name", POOLS)
def test_low_precision_features_are_summed_in_float32(name):
    x = torch.ones(1, 4096, 1, 2, dtype=torch.bfloat16)
    y = pooled(name, x)
    assert y.dtype == torch.bfloat16
    expected = 64.0 if name == "sum" else 1.0
    assert y.float().sub(expected).abs().max() <= 0.01 * expected


@pytest.mark.parametrize("name", POOLS)
def test_zero_variables_and_masks_of_another_system_are_errors_in_words(name):
    with pytest.raises(ShapeError, match="0 variables"):
        pooled(name, torch.zeros(1, 0, 3, 2))
    with pytest.raises(ShapeError, match=r"mask has shape \(1, 4, 1\)"):
        pooled(name, torch.zeros(1, 3, 3, 2), members=torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="3 axes"):
        pooled(name, torch.zeros(1, 3, 2))


def test_keys_that_do_not_fit_their_values_are_an_error_in_words():
    with pytest.raises(ShapeError, match="query_weight"):
        attention_pool(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 5), torch.zeros(4, 4))
