"""Simulated series with known truth. Same seed, same numbers."""

import numpy as np

from orderless.errors import ValueRangeError

FAULTS = ("spike", "stuck", "shift", "noise", "loose")
"""What can happen to a sensor, in the order in which it does."""


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
    random = np.random.default_rng(seed)
    profile = _autoregression(random, 0.95, period, (steps, 1))
    drive = _autoregression(random, 0.98, 1, (steps, 1))
    gains = random.uniform(0.7, 1.3, (2, sensors))
    offsets = random.normal(0.0, 2.0, sensors)
    own = 0.5 * _autoregression(random, 0.7, 1, (steps, sensors))
    noise = 0.6 * random.standard_normal((steps, sensors))
    if mixed_signs:
        gains = gains * random.choice([-1.0, 1.0], sensors)
    values = offsets + gains[0] * profile + 0.5 * gains[1] * drive + own + noise
    return values, _names("sensor", sensors)


def wind_farm(
    seed: int = 0, *, turbines: int = 24, steps: int = 3000
) -> tuple[np.ndarray, list[str]]:
    """Hourly power of the turbines of one farm, in percent of what each is rated at.

    All turbines feel one wind, a weather of some days with a daily breeze on top, and each sees it
    through its own turbulence:

        wind_c[t] = 9 + 3 weather[t] + 2 breeze[t] + site_c + 2.5 turbulence_c[t]    (m/s)

    The power grows with the cube of the wind from 3 m/s on, stays at 100 from 12 m/s on, and is 0
    beyond 22 m/s, where turbines are switched off. No linear forecast knows these limits.
    """
    random = np.random.default_rng(seed)
    weather = _autoregression(random, 0.985, 1, (steps, 1))
    breeze = np.sin(2 * np.pi * np.arange(steps) / 24)[:, None]
    site = random.normal(0.0, 0.7, turbines)
    turbulence = _autoregression(random, 0.5, 1, (steps, turbines))
    wind = np.maximum(9 + 3 * weather + 2 * breeze + site + 2.5 * turbulence, 0.0)
    power = 100 * np.clip((wind**3 - 3**3) / (12**3 - 3**3), 0.0, 1.0)
    return np.where(wind > 22, 0.0, power), _names("turbine", turbines)


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

    x[t] = self_weight x[t - 1] + neighbour_weight (mean of the neighbours at t - 1) + white noise,
    begun 200 steps before the first value returned. Stable for |self_weight| + |neighbour_weight|
    below 1. `adjacency` is symmetric and boolean.
    """
    random = np.random.default_rng(seed)
    adjacency = _small_world(random, variables, neighbours, rewire)
    weights = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    transition = self_weight * np.eye(variables) + neighbour_weight * weights
    state, warm_up = np.zeros(variables), 200
    values = np.empty((steps, variables))
    for t, noise in enumerate(random.standard_normal((warm_up + steps, variables))):
        state = transition @ state + noise
        if t >= warm_up:
            values[t - warm_up] = state
    return values, _names("variable", variables), adjacency


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
    a sensor that no longer follows the others. Each has its own stretch of time and does not
    overlap the next. `labels` is True where a sensor is at fault; `labels.any(1)` says when
    anything is. Training data has none.
    """
    stretch = test_steps // max(faults, 1)
    if stretch < 8:
        raise ValueRangeError(
            f"{faults} faults do not fit in {test_steps} steps; allow at least 8 steps for each."
        )
    longest = max(stretch // 4, 3)
    if faults > FAULTS.index("loose") and train_steps < longest:
        raise ValueRangeError(
            f"`train_steps` is {train_steps}; a loose sensor repeats {longest} values of the "
            "training part, which needs at least as many."
        )
    values, names = plant(seed, sensors=sensors, steps=train_steps + test_steps)
    random = np.random.default_rng([seed, 1])
    train, test = values[:train_steps], values[train_steps:].copy()
    labels = np.zeros(test.shape, bool)
    for fault in range(faults):
        kind = FAULTS[fault % len(FAULTS)]
        length = 2 if kind == "spike" else longest
        begin = fault * stretch + int(random.integers(stretch // 4, stretch // 2))
        span = slice(begin, begin + length)
        sensor = int(random.integers(sensors))
        if kind == "spike":
            test[span, sensor] += 8.0
        elif kind == "stuck":
            test[span, sensor] = test[begin, sensor]
        elif kind == "shift":
            test[span, sensor] += 4.0
        elif kind == "noise":
            test[span, sensor] += 3.0 * random.standard_normal(length)
        else:
            test[span, sensor] = random.permutation(train[:, sensor])[:length]
        labels[span, sensor] = True
    return train, test, labels, names


def motions(
    seed: int = 0,
    *,
    cases: int = 60,
    variables: int = 4,
    shortest: int = 40,
    longest: int = 60,
) -> tuple[list[np.ndarray], np.ndarray, list[str]]:
    """A small set for classification: cases [variable, time] of different length, labels, names.

    Three classes, in turn: "slow" and "fast" oscillations shared by all variables (periods of 20
    and 8 steps), and "drift", a common random walk; each variable adds its own phase, gain and
    noise.
    """
    random = np.random.default_rng(seed)
    labels = np.resize(np.array(["slow", "fast", "drift"]), cases)
    series = []
    for label in labels:
        length = int(random.integers(shortest, longest + 1))
        gain = random.uniform(0.7, 1.3, (variables, 1))
        if label == "drift":
            common = 0.4 * random.standard_normal((1, length)).cumsum(1)
        else:
            period = 20 if label == "slow" else 8
            phase = random.uniform(0, 2 * np.pi) + random.uniform(0, 0.5, (variables, 1))
            common = np.sin(2 * np.pi * np.arange(length) / period + phase)
        series.append(gain * common + 0.3 * random.standard_normal((variables, length)))
    return series, labels, _names("variable", variables)


def _names(word: str, count: int) -> list[str]:
    """Names that sort as they count."""
    return [f"{word}_{number:0{len(str(count - 1))}d}" for number in range(count)]


def _autoregression(
    random: np.random.Generator, weight: float, lag: int, shape: tuple[int, int]
) -> np.ndarray:
    """x[t] = weight x[t - lag] + noise along the first axis, of unit variance from the start."""
    values = random.standard_normal(shape)
    innovation = np.sqrt(1 - weight**2)
    for t in range(lag, shape[0]):
        values[t] = weight * values[t - lag] + innovation * values[t]
    return values


def _small_world(
    random: np.random.Generator, nodes: int, neighbours: int, rewire: float
) -> np.ndarray:
    """Watts and Strogatz 1998: a ring, each edge's far end moved with probability `rewire`."""
    adjacency = np.zeros((nodes, nodes), bool)
    ring = np.arange(nodes)
    for distance in range(1, min(neighbours // 2, (nodes - 1) // 2) + 1):
        adjacency[ring, (ring + distance) % nodes] = True
    adjacency |= adjacency.T
    for distance in range(1, min(neighbours // 2, (nodes - 1) // 2) + 1):
        for node in range(nodes):
            old = (node + distance) % nodes
            free = np.flatnonzero(~adjacency[node] & (ring != node))
            if random.random() < rewire and len(free):
                new = random.choice(free)
                adjacency[node, old] = adjacency[old, node] = False
                adjacency[node, new] = adjacency[new, node] = True
    return adjacency
