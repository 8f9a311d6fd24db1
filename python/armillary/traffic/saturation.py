"""The load at which a network saturates, by bisection.

Three loads that cut the bracket in four are run at a time, whatever the number of cores, so that
the result is the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST = 64.0
"""Highest load that is tried, as a share of the injection bandwidth."""


def bracket(
    saturates: Callable[[Sequence[float]], Sequence[bool]], tolerance: float
) -> tuple[float, float | None]:
    """A load that the network carries and one that it does not, `tolerance` apart.

    Loads are shares of the injection bandwidth. `saturates` runs several and says of each whether
    the network saturates. The second is `None` where even `MOST` is carried, the first 0 where
    nothing is.
    """
    low, high = 0.0, 1.0
    while not saturates([high])[0]:
        low, high = high, 2 * high
        if high > MOST:
            return low, None
    while high - low > tolerance * high:
        quarter = (high - low) / 4
        loads = [low + quarter * part for part in (1, 2, 3)]
        found = list(saturates(loads))
        steady = found.index(True) if True in found else len(found)
        edges = [low, *loads, high]
        low, high = edges[steady], edges[steady + 1]
        if high < tolerance**2:
            return 0.0, high
    return low, high
