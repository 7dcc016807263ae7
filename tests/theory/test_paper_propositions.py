"""The propositions and theorems of the paper (Section IV, Appendix B), each as a test."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderless.ops import Generator, vi_scan
from orderless.ops.pools import attention_pool, mean_pool, sum_pool
from orderless.theory import (
    distance_to_canonical_form,
    equivariance_error,
    mode,
    nearest_canonical_form,
)

CHANNELS, HEADS, STATES = 4, 2, 3


def randn(*shape, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def rates(seed=0, heads=HEADS, states=STATES):
    h, v, vh = randn(3, heads, states, seed=seed)
    return Generator(-h.exp(), -v.exp(), vh)


def system(n_variables, time, seed=0):
    """The arguments of a scan that carry a variable axis, and those that do not."""
    varying = {
        "x": randn(2, n_variables, time, CHANNELS, seed=seed),
        "write": randn(2, n_variables, time, 2, STATES, seed=seed + 1),
        "read": randn(2, n_variables, time, 2, STATES, seed=seed + 2),
        "state": randn(2, n_variables, 2, STATES, CHANNELS, seed=seed + 3),
    }
    shared = {
        "step": randn(2, time, HEADS, seed=seed + 4).exp(),
        "generator": rates(seed),
        "field_write": randn(2, time, 2, STATES, seed=seed + 5),
    }
    return varying, shared


POOLS = {
    "mean": mean_pool,
    "sum": sum_pool,
    "attention": lambda z: attention_pool(z, z.sin(), randn(CHANNELS, CHANNELS, seed=9)),
}


class TestProposition1PooledSummaryIsInvariant:
    @pytest.mark.parametrize("pool", POOLS)
    @settings(max_examples=20)
    @given(n_variables=st.integers(1, 40), seed=st.integers(0, 1000))
    def test_any_pool_of_a_shared_projection_ignores_the_order(self, pool, n_variables, seed):
        z, projection = randn(2, n_variables, 5, CHANNELS, seed=seed), randn(CHANNELS, CHANNELS)
        order = torch.randperm(n_variables, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(
            POOLS[pool](z[:, order] @ projection), POOLS[pool](z @ projection), rtol=0, atol=1e-12
        )

    def test_a_projection_of_its_own_for_each_variable_breaks_it(self):
        z, projections = randn(2, 6, 5, CHANNELS), randn(6, CHANNELS, CHANNELS, seed=1)
        pooled = mean_pool(torch.einsum("bvtd,vde->bvte", z, projections))
        turned = mean_pool(torch.einsum("bvtd,vde->bvte", z.flip(1), projections))
        assert (pooled - turned).norm() > 0.1 * pooled.norm()


class TestProposition2DynamicsAreEquivariant:
    @pytest.mark.parametrize("pool", [*POOLS, "feedback"])
    @settings(max_examples=10)
    @given(n_variables=st.integers(1, 20), seed=st.integers(0, 1000))
    def test_reordered_inputs_and_initial_states_give_reordered_solutions(
        self, pool, n_variables, seed
    ):
        varying, shared = system(n_variables, 7, seed)
        coupling = {"mean_generator": rates(seed + 7)} if pool == "feedback" else {}

        def solve(varying):
            field = POOLS.get(pool, mean_pool)(varying["x"])
            return vi_scan(**varying, **shared, **coupling, field=field)

        order = torch.randperm(n_variables, generator=torch.Generator().manual_seed(seed))
        y, state = solve(varying)
        y_moved, state_moved = solve({name: value[:, order] for name, value in varying.items()})
        assert (y_moved - y[:, order]).norm() <= 1e-12 * y.norm()
        assert (state_moved - state[:, order]).norm() <= 1e-12 * state.norm()

    def test_initial_states_that_stay_behind_break_it(self):
        varying, shared = system(6, 7)
        shared = {**shared, "field": randn(2, 7, CHANNELS)}
        y, _ = vi_scan(**varying, **shared)
        moved = {name: value.flip(1) for name, value in varying.items() if name != "state"}
        y_moved, _ = vi_scan(**moved, **shared, state=varying["state"])
        assert (y_moved - y.flip(1)).norm() > 0.01 * y.norm()

    def test_the_ordered_recurrence_along_variables_breaks_it(self):
        assert equivariance_error(ordered_recurrence, randn(1, 6, 4, 2)) > 0.1


class TestTheorem1PermutationCommutingMatrices:
    @pytest.mark.parametrize("n_variables", [2, 3, 4, 5])
    @pytest.mark.parametrize("size", [1, 2])
    def test_the_form_commutes_with_every_permutation(self, n_variables, size):
        form = nearest_canonical_form(randn(n_variables * size, n_variables * size), n_variables)
        for order in itertools.permutations(range(n_variables)):
            p = permutation_matrix(order, size)
            torch.testing.assert_close(form.matrix() @ p, p @ form.matrix())

    @pytest.mark.parametrize("n_variables", [2, 3, 4, 5])
    @pytest.mark.parametrize("size", [1, 2])
    def test_nothing_else_commutes(self, n_variables, size):
        """Solve M P = P M for all transpositions: two numbers per block entry are left free."""
        n = n_variables * size
        identity = torch.eye(n, dtype=torch.float64)
        equations = []
        for i, j in itertools.combinations(range(n_variables), 2):
            order = list(range(n_variables))
            order[i], order[j] = order[j], order[i]
            p = permutation_matrix(order, size)
            equations.append(torch.kron(identity, p.T.contiguous()) - torch.kron(p, identity))
        _, singular, rows = torch.linalg.svd(torch.cat(equations), full_matrices=False)
        solutions = rows[singular < 1e-10]
        assert len(solutions) == 2 * size * size
        for solution in solutions:
            assert distance_to_canonical_form(solution.reshape(n, n), n_variables) < 1e-10

    def test_a_matrix_outside_the_form_fails_to_commute_by_as_much_as_its_distance(self):
        matrix = randn(5, 5)
        distance = distance_to_canonical_form(matrix, 5)
        assert distance > 0.1
        worst = max(
            torch.linalg.norm(matrix @ p - p @ matrix) / torch.linalg.norm(matrix)
            for p in (permutation_matrix(o, 1) for o in itertools.permutations(range(5)))
        )
        # The nearest form is a mean over permutations, so some permutation is at least as far.
        assert worst >= distance

    @pytest.mark.parametrize("feedback", [False, True])
    def test_the_scan_couples_states_in_the_vector_form(self, feedback):
        jacobian = state_jacobian(feedback, n_variables=4)
        assert distance_to_canonical_form(jacobian, 4) < 1e-14
        shared = nearest_canonical_form(jacobian, 4).shared
        assert (shared.norm() > 1e-3) == feedback

    def test_an_ordered_recurrence_does_not(self):
        def over_variables(x):
            return ordered_recurrence(x.reshape(1, 4, 1, 1)).flatten()

        jacobian = torch.autograd.functional.jacobian(over_variables, randn(4))
        assert distance_to_canonical_form(jacobian, 4) > 0.1


class TestTheorem2DependencyDepth:
    @pytest.mark.parametrize("pool", POOLS)
    @pytest.mark.parametrize("form", ["reference", "chunked"])
    def test_the_depth_of_our_scan_does_not_depend_on_the_number_of_variables(self, pool, form):
        def depth(n_variables):
            varying, shared = system(n_variables, 5)
            varying["x"].requires_grad_()
            y, _ = vi_scan(**varying, **shared, field=POOLS[pool](varying["x"]), form=form)
            return dependency_depth(y)

        assert depth(2) == depth(16) == depth(128)

    def test_the_depth_of_an_ordered_recurrence_grows_with_the_number_of_variables(self):
        def depth(n_variables):
            return dependency_depth(ordered_recurrence(randn(1, n_variables, 5, 1)))

        assert depth(16) >= depth(2) + 14
        assert depth(128) >= depth(16) + 112

    def test_given_the_field_variables_do_not_depend_on_each_other(self):
        varying, shared = system(4, 3)
        x = varying.pop("x")

        def from_own_and_field(x, field):
            return vi_scan(x=x, **varying, **shared, field=field)[0].sum((0, 2, 3))

        field = mean_pool(x)
        given_field = torch.autograd.functional.jacobian(from_own_and_field, (x, field))
        for output, variable in itertools.product(range(4), range(4)):
            influence = given_field[0][output][:, variable].norm()
            assert (influence > 1e-3) if output == variable else (influence == 0.0)
        whole = torch.autograd.functional.jacobian(lambda x: from_own_and_field(x, mean_pool(x)), x)
        assert whole[0][:, 1].norm() > 1e-3


class TestTheorem3DiscreteStability:
    @settings(max_examples=30)
    @given(seed=st.integers(0, 10_000), exponent=st.floats(-4.0, 2.0))
    def test_the_hold_of_a_hurwitz_matrix_is_stable_for_every_step(self, seed, exponent):
        matrix = randn(4, 4, seed=seed)
        abscissa = torch.linalg.eigvals(matrix).real.max()
        matrix = matrix - (abscissa + 0.1) * torch.eye(4, dtype=torch.float64)
        step = 10**exponent
        radius = torch.linalg.eigvals(torch.linalg.matrix_exp(step * matrix)).abs().max().item()
        assert radius < 1.0
        assert radius == pytest.approx(math.exp(-0.1 * step), rel=1e-6, abs=1e-12)

    @pytest.mark.parametrize("n_variables", [1, 2, 7, 40])
    def test_the_eigenvalues_are_alpha_and_alpha_plus_c_beta(self, n_variables):
        alpha, beta = 0.7, -0.05
        identity = torch.eye(n_variables, dtype=torch.float64)
        found = torch.linalg.eigvalsh(alpha * identity + beta * torch.ones_like(identity))
        expected = torch.full((n_variables,), alpha, dtype=torch.float64)
        expected[0] = alpha + n_variables * beta
        torch.testing.assert_close(found, expected)

    def test_symmetry_alone_is_not_stability(self):
        """With alpha = 0.5 and beta = 0.1 the mean grows as soon as there are more than five."""
        for n_variables, dies_out in ((4, True), (6, False)):
            identity = torch.eye(n_variables, dtype=torch.float64)
            update = 0.5 * identity + 0.1 * torch.ones_like(identity)
            after = torch.linalg.matrix_power(update, 200) @ torch.ones(
                n_variables, dtype=torch.float64
            )
            assert (after.norm() < 1e-3) == dies_out
            assert (after.norm() > 1e3) != dies_out

    @pytest.mark.parametrize("n_variables", [2, 3, 10])
    def test_over_any_span_both_modes_of_the_scan_have_radius_exp_rate_times_summed_step(
        self, n_variables
    ):
        own, mean, summed_step, jacobian = feedback_over_a_span(n_variables)
        form = nearest_canonical_form(jacobian, n_variables)
        for block, generator in ((form.difference_mode, own), (form.mean_mode, mean)):
            radius = torch.linalg.eigvals(block).abs().max().item()
            assert radius == pytest.approx(mode(generator).radius(summed_step), rel=1e-10)
        brute = torch.linalg.eigvals(jacobian).abs().max().item()
        worst = max(mode(own).rate, mode(mean).rate)
        assert brute == pytest.approx(math.exp(worst * summed_step), rel=1e-10)


def ordered_recurrence(x):
    """Equations 4 to 6: along time for h_h, along variables for h_v."""
    x = x.requires_grad_()
    h_h = torch.zeros_like(x[:, :, 0])
    columns = []
    for t in range(x.shape[2]):
        h_h = 0.9 * h_h + x[:, :, t]
        h_v, rows = torch.zeros_like(h_h[:, 0]), []
        for c in range(x.shape[1]):
            h_v = 0.8 * h_v + x[:, c, t]
            rows.append(h_v)
        columns.append(h_h + torch.stack(rows, dim=1))
    return torch.stack(columns, dim=2)


def dependency_depth(output):
    """The longest path through the graph that autograd recorded."""
    depth = {None: 0}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        inputs = [parent for parent, _ in node.next_functions]
        waiting = [parent for parent in inputs if parent not in depth]
        if waiting:
            stack += waiting
        else:
            depth[node] = 1 + max((depth[parent] for parent in inputs), default=0)
            stack.pop()
    return depth[output.grad_fn]


def permutation_matrix(order, size):
    rows = torch.eye(len(order), dtype=torch.float64)[list(order)]
    return torch.kron(rows, torch.eye(size, dtype=torch.float64))


def feedback_over_a_span(n_variables):
    """Rates of both modes, the summed step, and d(last state)/d(first state), for one channel."""
    time, one = 6, {"heads": 1, "states": 1}
    own, mean = rates(1, **one), rates(2, **one)
    step = 0.2 * randn(1, time, 1).exp()

    def run(state):
        state = state.reshape(1, n_variables, 2, 1, 1)
        silent = torch.zeros(1, n_variables, time, 1, dtype=torch.float64)
        weights = torch.zeros(1, n_variables, 1, 2, 1, dtype=torch.float64)
        _, last = vi_scan(silent, step, own, weights, weights, mean_generator=mean, state=state)
        return last.flatten()

    jacobian = torch.autograd.functional.jacobian(run, randn(2 * n_variables))
    return own, mean, step.sum().item(), jacobian


def state_jacobian(feedback, n_variables):
    """How the states before a tick become those after it, for one head, state and channel."""

    def run(state):
        weights = torch.ones(1, n_variables, 1, 2, 1, dtype=torch.float64)
        x = torch.ones(1, n_variables, 1, 1, dtype=torch.float64)
        _, last = vi_scan(
            x,
            torch.ones(1, 1, 1, dtype=torch.float64),
            rates(3, heads=1, states=1),
            weights,
            weights,
            mean_generator=rates(4, heads=1, states=1) if feedback else None,
            state=state.reshape(1, n_variables, 2, 1, 1),
        )
        return last.flatten()

    return torch.autograd.functional.jacobian(run, randn(2 * n_variables))
