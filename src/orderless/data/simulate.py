"""Simulated series with known truth. Same seed, same numbers."""

import numpy as np


def plant(
    seed: int = 0,
    *,
    sensors: int = 64,
    steps: int = 3000,
    period: int = 48,
    mixed_signs: bool = False,
) -> tuple[np.ndarray, list[str]]:
    """Noisy sensors of one plant with a common hidden drive: values [time, sensor] and names.

    A drifting daily profile p[t] = .95 p[t - period] + noise and a slow drive
    s[t] = .98 s[t - 1] + noise, both of unit variance, are seen by sensor c as

        x_c[t] = offset_c + g_c p[t] + .5 k_c s[t] + u_c[t] + .6 white noise

    with gains g, k uniform in (.7, 1.3), offsets of standard deviation 2, and u_c an AR(1) process
    with coefficient .7 and standard deviation .5. The customary split is 2,000 steps to train, 400
    to validate and 600 to test; the first half of the sensors to fit, the others held out.
    `mixed_signs` flips the gains of every sensor at random: then the mean over sensors holds
    nothing of the drive, and pooling has nothing to find.
    """
    raise NotImplementedError


def small_world_var(
    seed: int = 0,
    *,
    variables: int = 64,
    steps: int = 1000,
    neighbours: int = 4,
    rewire: float = 0.1,
    self_weight: float = 0.5,
    neighbour_weight: float = 0.4,
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """A VAR(1) process on a Watts-Strogatz graph: values [time, variable], names, adjacency.

    x[t] = self_weight x[t - 1] + neighbour_weight (mean of the neighbours at t - 1) + white noise.
    Stable for self_weight + neighbour_weight < 1. `adjacency` is symmetric and boolean.
    """
    raise NotImplementedError


def faulty_plant(
    seed: int = 0,
    *,
    sensors: int = 8,
    train_steps: int = 2000,
    test_steps: int = 1000,
    faults: int = 6,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """The plant with injected faults: train and test [time, sensor], labels [time, sensor], names.

    Faults of the test part, in turn: a spike, a stuck sensor, a shift of level, a burst of noise,
    a sensor that no longer follows the drive. They do not overlap. `labels` is True where a sensor
    is at fault; `labels.any(1)` says when anything is. Training data has none.
    """
    raise NotImplementedError


def motions(
    seed: int = 0,
    *,
    cases: int = 60,
    variables: int = 4,
    shortest: int = 40,
    longest: int = 60,
) -> tuple[list[np.ndarray], np.ndarray, list[str]]:
    """A small set for classification: cases [variable, time] of different length, labels, names.

    Three classes, in equal numbers: "slow" and "fast" oscillations shared by all variables, and
    "drift", a common random walk; each variable adds its own phase, gain and noise.
    """
    raise NotImplementedError
