"""Buckets of gradients, which are reduced together.

Here: which gradients share a bucket, and into which pieces larger ones are cut. Not here: when a
bucket is reduced (`stage.py`, `layerwise.py`, `dlrm_flow.py`).

Gradients join a bucket in the order in which they come, as long as it has room. What is larger than
a bucket is cut into pieces that are as even as they come.

Source: Li et al. 2020 (arXiv:2006.15704)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import Problem
from ..units import MB

T = TypeVar("T")

LEAST, MOST = 0.1, 1e9
"""Range of a bucket's size, MB."""
ALLOWED = "MB from 0.1 to 1e9, or none"


def fill(
    gradients: Sequence[T], size: Callable[[Sequence[T]], int], bucket_mb: float | None
) -> list[list[T]]:
    """The gradients in buckets of `bucket_mb` MB. `size` gives the bytes of some of them together.
    Without a size of buckets, each is alone."""
    most = bucket_mb * MB if bucket_mb else 0
    found: list[list[T]] = []
    for each in gradients:
        if found and size([*found[-1], each]) <= most:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def pieces(name: str, size: int, bucket_mb: float | None) -> list[tuple[str, int]]:
    """The collectives that reduce a bucket of `size` bytes: the name and the bytes of each."""
    most = bucket_mb and round(bucket_mb * MB)
    count = max(1, min(size, -(-size // most))) if most else 1
    names = [name] if count == 1 else [f"{name}.{i}" for i in range(count)]
    return [(each, size * (i + 1) // count - size * i // count) for i, each in enumerate(names)]


def check(bucket_mb: object) -> list[Problem]:
    """Faults of the option `bucket_mb`."""
    number = isinstance(bucket_mb, (int, float)) and not isinstance(bucket_mb, bool)
    if bucket_mb is None or (number and LEAST <= bucket_mb <= MOST):  # type: ignore[operator]
        return []
    return [Problem("", "bucket_mb", f"{bucket_mb!r} is out of range", ALLOWED)]
