"""How many steps make a season, found from the data."""

from collections.abc import Sequence

import numpy as np

MOST_VARIABLES = 64
"""Variables looked at; a season that the first ones do not show is not worth the time."""


def find_season(values: Sequence[np.ndarray], observed: Sequence[np.ndarray]) -> int:
    """The lag at which series [variable, time] resemble themselves most; 1 if none stands out.

    The autocorrelation of the differenced series, averaged over variables: differences, so that a
    trend does not look like a season. The lags before it first vanishes only say that the series
    is smooth. A multiple of the season resembles as much, so the shortest lag within a quarter of
    the best is taken.
    """
    total: np.ndarray | None = None
    for one, seen in zip(values, observed, strict=True):
        correlation = _autocorrelation(one[:MOST_VARIABLES], seen[:MOST_VARIABLES])
        if correlation is None:
            continue
        if total is None:
            total = correlation
        else:
            shorter = min(len(total), len(correlation))
            total = total[:shorter] + correlation[:shorter]
    if total is None or len(total) < 4:
        return 1
    peak = (total[1:-1] > total[:-2]) & (total[1:-1] >= total[2:])
    lags = np.flatnonzero(peak) + 1
    # Differences of noise are negatively correlated at lag 1, which therefore tells nothing.
    crossed = np.flatnonzero(total[2:] <= 0)
    lags = lags[lags > 2 + crossed[0]] if len(crossed) else lags[:0]
    if len(lags) == 0:
        return 1
    best = total[lags].max()
    # White noise has correlations of about 1 / sqrt(length); a season stands clear of that.
    if best < 0.1 * total[0]:
        return 1
    return int(lags[total[lags] >= 0.75 * best][0])


def _autocorrelation(values: np.ndarray, observed: np.ndarray) -> np.ndarray | None:
    """Autocovariance of the standardised differences, up to a third of the length."""
    length = values.shape[1]
    if length < 8:
        return None
    both = observed[:, 1:] & observed[:, :-1]
    steps = np.where(both, np.diff(np.where(observed, values, 0.0), axis=1), 0.0)
    size = np.sqrt((steps**2).sum(1, keepdims=True))
    steps = np.divide(steps, size, out=np.zeros_like(steps), where=size > 0)
    spectrum = np.abs(np.fft.rfft(steps, 2 * length, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.mean(0))[: length // 3 + 1]
    return covariance * length / (length - np.arange(len(covariance)))
