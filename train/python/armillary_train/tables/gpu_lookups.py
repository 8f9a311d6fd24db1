"""A batch of lookups on a GPU, and how the host learns what the GPU found wrong.

Here: what is known of a batch. Not here: who finds it out (`gpu.py`, `gpu_kernels.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .embedding import BatchParts


@dataclass
class Lookups:
    """A batch that was checked, on the GPU. Without bags, it has no lookups."""

    lengths: Tensor
    """Lookups of each bag."""
    ends: Tensor
    """Where each bag ends, int64."""
    indices: Tensor
    weights: Tensor | None
    keys: Tensor
    """Each lookup's table and row as one number, int32 or int64."""
    bags: Tensor
    """The bag of each lookup, int32."""

    by_row: Sorted | None = None
    """The lookups by row, once they are needed."""


class Sorted(NamedTuple):
    """Lookups by row; those of one row in their order."""

    keys: Tensor
    tables: Tensor
    """The table of each lookup, int32."""
    sources: Tensor
    """Where the gradient of each lookup starts, int64."""
    factors: Tensor | None
    """Factors of the gradients."""
    rows: tuple[Tensor, Tensor]
    """Where rows begin in each block, int32 [blocks, rows], and how many do, int32 [blocks]."""
    long_rows: tuple[Tensor, Tensor]
    """Likewise rows with more than `SHORT` lookups, which `rows` leaves out."""


class Flag:
    """Whether kernels found something wrong. The host learns it while the GPU goes on."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = torch.zeros(1, dtype=torch.int32, device=device)
        self._on_host = self.on_gpu
        if self.on_gpu.is_cuda:
            self._on_host = torch.zeros(1, dtype=torch.int32, pin_memory=True)
            self._sent = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def send(self) -> None:
        """Begins to bring the flag to the host, as it is after what was launched so far."""
        if self.on_gpu.is_cuda:
            self._on_host.copy_(self.on_gpu, non_blocking=True)
            self._sent.record(torch.cuda.current_stream(self.on_gpu.device))

    def found(self) -> bool:
        """Whether it was set. Waits for what `send` began. It is not set then."""
        if self.on_gpu.is_cuda:
            self._sent.synchronize()
        found = bool(self._on_host)
        if found:
            self.on_gpu.zero_()
            self._on_host.zero_()
        return found


def versions(parts: BatchParts) -> list[int] | None:
    """Numbers that change with the contents of tensors; `None`: torch does not count."""
    given = [part for part in parts if part is not None]
    if any(part.is_inference() for part in given):
        return None
    return [part._version for part in given]
