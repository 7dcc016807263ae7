import numpy as np
import pytest

from orderless.data import simulate
from orderless.errors import ValueRangeError


@pytest.mark.parametrize(
    "function",
    [simulate.plant, simulate.small_world_var, simulate.faulty_plant, simulate.motions],
)
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(function):
    one, again, other = function(3), function(3), function(4)
    assert np.array_equal(np.concatenate(one[0], None), np.concatenate(again[0], None))
    first, second = np.concatenate(one[0], None), np.concatenate(other[0], None)
    assert first.shape != second.shape or not np.array_equal(first, second)


def test_the_plant_has_the_variance_it_promises():
    values, names = simulate.plant(0, sensors=40, steps=30_000)
    assert values.shape == (30_000, 40)
    assert len(set(names)) == 40
    assert names == sorted(names)
    # Profile, drive, own noise and white noise: E g^2 (1 + 1/4) + 1/4 + .36, and E g^2 = 1.03.
    assert np.isclose(values.var(0).mean(), 1.03 * 1.25 + 0.25 + 0.36, rtol=0.05)


def test_sensors_of_the_plant_share_its_drive_unless_signs_are_mixed():
    def common(mixed):
        values, _ = simulate.plant(0, mixed_signs=mixed)
        return np.var((values - values.mean(0)).mean(1))

    assert common(False) > 1.0
    assert common(True) < 0.2


def test_the_graph_is_small_world_and_the_process_follows_it():
    values, names, adjacency = simulate.small_world_var(0, steps=20_000)
    assert values.shape == (20_000, 64)
    assert len(names) == 64
    assert np.array_equal(adjacency, adjacency.T)
    assert not adjacency.diagonal().any()
    assert adjacency.sum() == 64 * 4
    ring = np.zeros_like(adjacency)
    for distance in (1, 2):
        ring |= np.roll(np.eye(64, dtype=bool), distance, 1) | np.roll(
            np.eye(64, dtype=bool), -distance, 1
        )
    moved = (ring & ~adjacency).sum() / 2
    assert 4 <= moved <= 25
    # Least squares finds the transition it was made with.
    transition = np.linalg.lstsq(values[:-1], values[1:], rcond=None)[0].T
    truth = 0.5 * np.eye(64) + 0.4 * adjacency / adjacency.sum(1, keepdims=True)
    assert np.abs(transition - truth).max() < 0.05


def test_faults_are_where_the_labels_say():
    train, test, labels, names = simulate.faulty_plant(0, faults=5)
    clean, _ = simulate.plant(0, sensors=8, steps=3000)
    assert np.array_equal(train, clean[:2000])
    assert np.array_equal(test[~labels], clean[2000:][~labels])
    assert (test[labels] != clean[2000:][labels]).mean() > 0.9
    assert labels.shape == test.shape == (1000, len(names))
    starts = np.diff(labels.any(1).astype(int)) == 1
    assert starts.sum() == 5


def test_too_many_faults_are_refused():
    with pytest.raises(ValueRangeError, match="at least 8 steps"):
        simulate.faulty_plant(0, test_steps=20, faults=6)


def test_classes_of_motions_can_be_told_apart():
    cases, labels, names = simulate.motions(0, cases=90)
    assert {case.shape[0] for case in cases} == {len(names)}
    assert len({case.shape[1] for case in cases}) > 5
    assert sorted(set(labels)) == ["drift", "fast", "slow"]
    # A naive rule on the main frequency is right far more often than by chance.
    guess = []
    for case in cases:
        power = np.abs(np.fft.rfft(case.mean(0) - case.mean())) ** 2
        period = case.shape[1] / max(int(power[1:].argmax()) + 1, 1)
        guess.append("fast" if period < 12 else "slow" if period < 26 else "drift")
    assert np.mean(np.array(guess) == labels) > 0.75


def test_too_few_steps_to_train_for_a_loose_sensor_are_refused():
    with pytest.raises(ValueRangeError, match=r"`train_steps` is 10; .* 41 values"):
        simulate.faulty_plant(0, train_steps=10)
    train, _, labels, _ = simulate.faulty_plant(0, train_steps=10, faults=4)
    assert len(train) == 10
    assert labels.any()
