"""How many steps make a season, found from the data."""

import math
from collections.abc import Sequence

import numpy as np

MOST_VARIABLES = 64
"""Variables looked at; a season that the first ones do not show is not worth the time."""
SCALES = (1, 2, 4, 8, 16, 32)
"""Steps whose mean is looked at: where single steps are mostly noise, means show a season."""


def find_season(values: Sequence[np.ndarray], observed: Sequence[np.ndarray]) -> int:
    """The lag at which series [variable, time] resemble themselves most; 1 if none stands out.

    By the autocorrelation of changes, averaged over variables: of changes, so that a trend does
    not look like a season. Of the scales the one counts at which a lag stands out most.
    """
    pairs = [
        (one[:MOST_VARIABLES], seen[:MOST_VARIABLES])
        for one, seen in zip(values, observed, strict=True)
        if one.shape[1] >= 8
    ]
    if not pairs:
        return 1
    length = _common_length([one.shape[1] for one, _ in pairs])
    pairs = [(one, seen) for one, seen in pairs if one.shape[1] >= length]
    size = 2 * max(one.shape[1] for one, _ in pairs)
    power = np.sum([_power_of_changes(one, seen, size) for one, seen in pairs], axis=0)
    if not power.any():
        return 1
    correlations = {s: _autocorrelation(power, s, length) for s in SCALES if 32 * s <= length}
    correlations = correlations or {1: _autocorrelation(power, 1, length)}
    _, lag = max(_clearest_lag(one, s, length) for s, one in correlations.items())
    # Seen from afar two or three seasons look like one.
    for parts in (3, 2):
        if lag >= 2 * parts:
            scale = max((s for s in correlations if 4 * s * parts <= lag), default=1)
            part = _middle(correlations[scale], round(lag / parts))
            if _is_season_itself(correlations[scale], part, parts):
                return part
    return lag


def _common_length(lengths: Sequence[int]) -> int:
    """That at which most would be left if longer systems were cut and shorter ones left out.

    A few short systems then do not hide what the others show.
    """
    rising = np.sort(lengths)
    return int(rising[np.argmax(rising * np.arange(len(rising), 0, -1))])


def _power_of_changes(values: np.ndarray, observed: np.ndarray, size: int) -> np.ndarray:
    """The spectrum of the standardised changes from step to step, averaged over variables."""
    both = observed[:, 1:] & observed[:, :-1]
    steps = np.where(both, np.diff(np.where(observed, values, 0.0), axis=1), 0.0)
    norm = np.sqrt((steps**2).sum(1, keepdims=True))
    steps = np.divide(steps, norm, out=np.zeros_like(steps), where=norm > 0)
    return (np.abs(np.fft.rfft(steps, size, axis=1)) ** 2).mean(0)


def _autocorrelation(power: np.ndarray, scale: int, length: int) -> np.ndarray:
    """Of the changes between means over `scale` steps, up to a third of the length.

    Such a change is a mean over `scale` steps of means over `scale` changes.
    """
    angle = np.pi * np.fft.rfftfreq(2 * len(power) - 2)
    gain = np.ones_like(angle)
    gain[1:] = np.sin(scale * angle[1:]) / (scale * np.sin(angle[1:]))
    covariance = np.fft.irfft(power * gain**4)[: length // 3 + 1]
    return covariance / covariance[0] * length / (length - np.arange(len(covariance)))


def _clearest_lag(correlation: np.ndarray, scale: int, length: int) -> tuple[float, int]:
    """How far the best lag stands out, and the shortest lag that is nearly as good; or (0, 1)."""
    nothing = 0.0, 1
    peak = (correlation[1:-1] > correlation[:-2]) & (correlation[1:-1] >= correlation[2:])
    # Before it first vanishes it only says that the series is smooth, and at lag 1 not even that:
    # changes of noise are negatively correlated there.
    crossed = np.flatnonzero(correlation[2:] <= 0)
    if len(crossed) == 0:
        return nothing
    lags = np.flatnonzero(peak) + 1
    lags = lags[lags > 2 + crossed[0]]
    # Means of noise have correlations of about sqrt(scale / length); a season is clear of that.
    chance = max(0.1, 5 * math.sqrt(scale / length))
    best = correlation[lags].max(initial=0.0)
    if best <= chance:
        return nothing
    # A multiple of the season resembles as much.
    first = lags[correlation[lags] >= 0.75 * best][0]
    return best - chance, _middle(correlation, int(first))


def _middle(correlation: np.ndarray, lag: int) -> int:
    """The lag near this one that resembles most: noise shifts the top of a broad peak."""
    near = np.arange(max(2, math.ceil(0.85 * lag)), int(1.15 * lag) + 1)
    if len(near) == 0 or near[-1] >= len(correlation):
        return lag
    return int(near[_resemblance(correlation, near).argmax()])


def _is_season_itself(correlation: np.ndarray, part: int, parts: int) -> bool:
    """Whether lags between the seasons of `parts` times this one resemble nearly as much."""
    seasons = min(max(4, part // 4), (len(correlation) - 1) // (part * parts))
    if seasons == 0:
        return False
    alike = correlation[part * np.arange(1, parts * seasons + 1)].reshape(seasons, parts)
    return bool(alike[:, :-1].mean() >= 0.75 * alike[:, -1].mean() > 0)


def _resemblance(correlation: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """The mean over multiples of each lag, so many that half a step too much does not matter."""
    longest = int(lags.max())
    count = min(max(4, longest // 4), (len(correlation) - 1) // longest)
    return correlation[lags[:, None] * np.arange(1, count + 1)].mean(1)
