"""Logs and tables of collectives that a library of known parameters makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import armillary as arm
from armillary import nccl
from armillary.calibrate import MeasuredTable

HEAD = "# nThread 1 nGpus 8 minBytes 8\n" + "".join(
    f"#  Rank {r:2d} Pid 1 on n device {r}\n" for r in range(8)
)
SIZES = [2**k for k in range(3, 34)]


def log(times: Callable[[int], float], old: bool = False) -> str:
    """A log of 8 ranks; `old`: without the column of the root, as before version 2.11."""
    lines = [HEAD, "#       size         count    type   redop     time   algbw   busbw  error\n"]
    for size in SIZES:
        time = times(size)
        algbw = size / time / 1e3
        once = f"{time:.4g} {algbw:.2f} {algbw * 1.75:.2f} {'0e+00' if old else '0'}"
        lines.append(f"{size:>12} {size // 4:>12} float sum {'' if old else '-1'} {once} {once}\n")
    return "".join(lines)


def library(settings: dict[str, object], preset: str = "dgx-a100") -> Callable[[int], float]:
    """What a library of known parameters takes."""
    platform = arm.Platform.load(preset, settings)

    def time(size: int) -> float:
        found = platform._core.library_choice("all_reduce", size)
        assert found is not None
        return found[2] / 1e6

    return time


def noisy(preset: str, seed: int, slower: float = 1.03, spread: float = 0.03) -> MeasuredTable:
    """Nine sizes of an all-reduce of 8 ranks: the preset's times, a little slower and with
    noise."""
    sizes = [2**k for k in (13, 16, 18, 20, 23, 26, 28, 30, 33)]
    times = arm.Platform.load(preset)._core.library_times([], "all_reduce", sizes)
    assert times is not None
    random = Random(seed)
    points = [
        (size, us * slower * math.exp(random.gauss(0, spread)))
        for size, us in zip(sizes, times, strict=True)
    ]
    return MeasuredTable("all_reduce.log", "all_reduce", 8, tuple(points))


def nccl_times(kind: str, slower: float) -> MeasuredTable:
    sizes = [2**k for k in range(14, 31, 2)]
    wanted = [nccl.measured_bytes(kind, size, 8) for size in sizes]
    times = arm.Platform.load("dgx-a100")._core.library_times([], kind, wanted)
    assert times is not None
    return MeasuredTable(
        "x.log", kind, 8, tuple((size, us * slower) for size, us in zip(sizes, times, strict=True))
    )
