"""`ops/zero_order_hold.py` for kernels: the same functions, with their derivatives.

Every function takes float32 tiles. Series and quotients are evaluated side by side and chosen
entry by entry, each on arguments where it is finite.
"""

import triton
import triton.language as tl


@triton.jit
def exp(x):
    """As few instructions as there can be: where `tl.exp` gives a denormal number, it is zero."""
    return tl.exp2(1.4426950408889634 * x)


@triton.jit
def _exprel_near(z):
    """(exp(z) - 1) / z for -0.5 < z <= 0."""
    value = tl.full(z.shape, 1.0 / 40320, tl.float32)
    value = value * z + 1.0 / 5040
    value = value * z + 1.0 / 720
    value = value * z + 1.0 / 120
    value = value * z + 1.0 / 24
    value = value * z + 1.0 / 6
    value = value * z + 1.0 / 2
    return value * z + 1.0


@triton.jit
def exprel(x):
    """(exp(x) - 1) / x for x <= 0, and its derivative."""
    near = tl.abs(x) < 0.5
    z = tl.where(near, x, 0.0)
    value = _exprel_near(z)
    slope = tl.full(x.shape, 7.0 / 40320, tl.float32)
    slope = slope * z + 6.0 / 5040
    slope = slope * z + 5.0 / 720
    slope = slope * z + 4.0 / 120
    slope = slope * z + 3.0 / 24
    slope = slope * z + 2.0 / 6
    slope = slope * z + 1.0 / 2
    far = tl.where(near, -1.0, x)
    grown = exp(far)
    far_value = (grown - 1.0) / far
    far_slope = (grown - far_value) / far
    return tl.where(near, value, far_value), tl.where(near, slope, far_slope)


@triton.jit
def exp_difference(x, y):
    """exp[x, y] = (exp(x) - exp(y)) / (x - y), and its derivatives by x and by y."""
    gap = x - y
    near = tl.abs(gap) < 1.0
    half = tl.where(near, 0.5 * gap, 0.0)
    z = half * half
    sinhc = ((1.0 / 5040 * z + 1.0 / 120) * z + 1.0 / 6) * z + 1.0
    slope = half * ((3.0 / 5040 * z + 2.0 / 120) * z + 1.0 / 6)
    middle = exp(0.5 * (x + y))
    far = tl.where(near, 1.0, gap)
    size = tl.abs(far)
    value = exp(tl.maximum(x, y)) * (1.0 - exp(-size)) / size
    by_x = (exp(x) - value) / far
    by_y = (value - exp(y)) / far
    return (
        tl.where(near, middle * sinhc, value),
        tl.where(near, middle * (0.5 * sinhc + slope), by_x),
        tl.where(near, middle * (0.5 * sinhc - slope), by_y),
    )


@triton.jit
def exp_difference_from_zero(x, y):
    """exp[0, x, y], and its derivatives by x and by y."""
    x_is_small = tl.abs(x) < tl.abs(y)
    small = tl.where(x_is_small, x, y)
    big = tl.where(x_is_small, y, x)
    near = tl.abs(big) < 1.0
    u = tl.where(near, small, 0.0)
    w = tl.where(near, big, 0.0)
    series = tl.full(x.shape, 0.5, tl.float32)
    series_small = tl.zeros_like(series)
    series_big = tl.zeros_like(series)
    power = tl.full(x.shape, 1.0, tl.float32)
    power_slope = tl.zeros_like(series)
    homogeneous = tl.full(x.shape, 1.0, tl.float32)
    by_small = tl.zeros_like(series)
    by_big = tl.zeros_like(series)
    factor = 0.5
    for k in tl.static_range(1, 11):
        power_slope = power_slope * w + power
        power = power * w
        by_small = by_small * u + homogeneous
        by_big = by_big * u + power_slope
        homogeneous = homogeneous * u + power
        factor = factor / (k + 2)
        series += factor * homogeneous
        series_small += factor * by_small
        series_big += factor * by_big
    far = tl.where(near, -1.0, big)
    difference, by_x, by_y = exp_difference(x, y)
    # Of both, for all who call this have them as well.
    relative_x, slope_x = exprel(x)
    relative_y, slope_y = exprel(y)
    value = (difference - tl.where(x_is_small, relative_x, relative_y)) / far
    far_small = tl.where(x_is_small, by_x - slope_x, by_y - slope_y) / far
    far_big = (tl.where(x_is_small, by_y, by_x) - value) / far
    small_slope = tl.where(near, series_small, far_small)
    big_slope = tl.where(near, series_big, far_big)
    return (
        tl.where(near, series, value),
        tl.where(x_is_small, small_slope, big_slope),
        tl.where(x_is_small, big_slope, small_slope),
    )


@triton.jit
def transition(h, v, vh, span):
    """exp(A span): its entries (h, v, vh).

    Most of the time that tables take is spent here: so two exponentials an entry, and no quotient.
    """
    # A constant for exp2 goes into the rates, of which there are fewer.
    e_h, e_v = tl.exp2(h * 1.4426950408889634 * span), tl.exp2(v * 1.4426950408889634 * span)
    gap = -tl.abs(h - v) * span
    near = vh * span * tl.maximum(e_h, e_v) * _exprel_near(tl.maximum(gap, -0.5))
    far = vh / tl.where(h == v, 1.0, h - v) * (e_h - e_v)
    return e_h, e_v, tl.where(gap > -0.5, near, far)


@triton.jit
def transition_gradient(h, v, vh, span, d_h, d_v, d_vh):
    """Gradients of (h, v, vh, span), given those of the entries of exp(A span)."""
    x, y = h * span, v * span
    difference, by_x, by_y = exp_difference(x, y)
    e_h, e_v = exp(x) * d_h, exp(y) * d_v
    coupling = vh * span * d_vh
    return (
        span * (e_h + coupling * by_x),
        span * (e_v + coupling * by_y),
        span * difference * d_vh,
        h * e_h + v * e_v + (h * span * difference + exp(y)) * vh * d_vh,
    )


@triton.jit
def hold(h, v, vh, span):
    """The integral of exp(A s) over [0, span]: its entries (h, v, vh)."""
    x, y = h * span, v * span
    relative_h, _ = exprel(x)
    relative_v, _ = exprel(y)
    second, _, _ = exp_difference_from_zero(x, y)
    return span * relative_h, span * relative_v, vh * span * span * second


@triton.jit
def hold_gradient(h, v, vh, span, d_h, d_v, d_vh):
    """Gradients of (h, v, vh, span), given those of the entries of the integral."""
    x, y = h * span, v * span
    _, slope_h = exprel(x)
    _, slope_v = exprel(y)
    second, by_x, by_y = exp_difference_from_zero(x, y)
    difference, _, _ = exp_difference(x, y)
    square = span * span
    coupling = vh * span * d_vh
    return (
        square * (slope_h * d_h + coupling * by_x),
        square * (slope_v * d_v + coupling * by_y),
        square * second * d_vh,
        exp(x) * d_h + exp(y) * d_v + coupling * difference,
    )
