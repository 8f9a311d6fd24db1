"""Whether the parts of a tensor are the whole: each element once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MOST_PARTS = 2**15
"""Parts of a tensor, at most. Each is compared with those behind it."""

Box = tuple[Sequence[int], Sequence[int]]
"""First element and number of elements, in each dimension."""


def tiles(boxes: Sequence[Box], shape: Sequence[int]) -> bool:
    """Whether boxes cover a tensor of a `shape` once. Their numbers are below 2^48."""
    if any(len(first) != len(shape) or len(sizes) != len(shape) for first, sizes in boxes):
        return False
    some = [box for box in boxes if math.prod(box[1])]
    if len(some) > MOST_PARTS or sum(math.prod(box[1]) for box in some) != math.prod(shape):
        return False
    first = np.array([box[0] for box in some], np.int64).reshape(len(some), len(shape))
    last = first + np.array([box[1] for box in some], np.int64).reshape(first.shape)
    if (last > np.array(shape, np.int64)).any():
        return False
    return not any(
        ((first[at + 1 :] < last[at]) & (first[at] < last[at + 1 :])).all(1).any()
        for at in range(len(some))
    )
