"""Closed forms for exponential failures: Young's and Daly's intervals, and Daly's time.

Sources: Young, "A first order approximation to the optimum checkpoint interval", CACM 17, 1974;
Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22,
2006, equations 20, 37."""

from __future__ import annotations

import math


def young(checkpoint_s: float, gap_s: float) -> float:
    """Training between two checkpoints, seconds, by Young: `sqrt(2 d M)` for checkpoints of `d` and
    a mean time `M` between failures."""
    return math.sqrt(2 * checkpoint_s * gap_s)


def daly(checkpoint_s: float, gap_s: float) -> float:
    """Training between two checkpoints, seconds, by Daly's equation 37."""
    if checkpoint_s >= 2 * gap_s:
        return gap_s
    root = math.sqrt(checkpoint_s / (2 * gap_s))
    return math.sqrt(2 * checkpoint_s * gap_s) * (1 + root / 3 + root**2 / 9) - checkpoint_s


def goodput(interval_s: float, checkpoint_s: float, down_s: float, gap_s: float) -> float:
    """Part of the time that trains and is kept, by Daly's equation 20: exponential failures, also
    during restarts, which take `down_s`."""
    exponent = (interval_s + checkpoint_s) / gap_s
    if exponent + down_s / gap_s > 700:
        return 0.0
    return interval_s / (gap_s * math.exp(down_s / gap_s) * math.expm1(exponent))
