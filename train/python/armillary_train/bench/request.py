"""Request for benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """Request for benchmarks."""

    model: str | None
    """The model whose shapes are timed; a sweep of shapes, when not given."""
    global_batch: int
    """Samples of a step, over all processes."""
    threads: int | None = None
    """Threads of each process; PyTorch's choice, when not given."""
