"""Times of kernels on a platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..platform import Platform
from .shapes import Shape, encoded


@dataclass(frozen=True, slots=True)
class Time:
    """Time of a kernel by itself.

    `seconds` is the time, `operations` are floating-point operations, `bytes` those that must be
    read from memory or written to it, and `parts` are the seconds of each part alone; parts may
    overlap."""

    seconds: float
    operations: float
    bytes: float
    parts: dict[str, float]
    npu: str
    """Name of the NPU."""
    generation: str
    """Generation of GPUs whose measured kernels the parameters are fitted to."""


def seconds(shapes: Sequence[Shape], platform: Platform) -> list[float]:
    """Seconds that each kernel takes by itself on one NPU of the platform, in order.

    Raises:
        InputError: a kernel whose time the platform does not say.
    """
    return platform._core.kernel_times(encoded(shapes))


def one(shape: Shape, platform: Platform) -> Time:
    """Time of a kernel by itself on one NPU of the platform.

    Raises:
        InputError: the platform does not say it.
    """
    time, operations, bytes, parts = platform._core.kernel_parts(encoded([shape]))
    npu, generation = origin(platform)
    return Time(time, operations, bytes, dict(parts), npu, generation or "")


def origin(platform: Platform) -> tuple[str, str | None]:
    """Name of the NPU, and the generation of GPUs whose measured kernels its parameters are fitted
    to; `None` for a platform without them."""
    return platform._core.kernel_origin()
