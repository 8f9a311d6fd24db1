"""Columns of pooled rows, between the rows of a batch and blocks of rows.

Here: which of two ways they go: the native kernel in the host's memory, or torch's operations on a
GPU. Not here: where columns belong (`sharding.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .. import _train
from .sharding import Run


class Columns:
    """Rows of `width` columns against blocks of `widths` columns. All arrays are float32. Both ways
    add up the same numbers in the same order."""

    def __init__(
        self, width: int, widths: Sequence[int], runs: Sequence[Run], *, on_gpu: bool
    ) -> None:
        """Raises `InputError` if a run leaves its block."""
        self.width, self.widths, self.runs = width, widths, runs
        self._native = _train.Columns(width, widths, runs)
        self._on_gpu = on_gpu

    def collect(self, rows: int, blocks: Sequence[Tensor], batch: Tensor) -> None:
        """Rows of the batch from those of the blocks, added up in the order of the runs."""
        if not self._on_gpu:
            self._native.collect(rows, [block.numpy() for block in blocks], batch.numpy())
            return
        for run, there, here in self._pairs(rows, blocks, batch):
            if run.add:
                here.add_(there)
            else:
                here.copy_(there)

    def spread(self, rows: int, batch: Tensor, blocks: Tensor) -> bool:
        """Rows of the blocks, which lie one behind the other, from those of the batch. Returns
        whether all numbers are finite."""
        if not self._on_gpu:
            return self._native.spread(rows, batch.numpy(), blocks.numpy())
        parts = torch.split(blocks, [rows * width for width in self.widths])
        for _, there, here in self._pairs(rows, parts, batch):
            there.copy_(here)
        return bool(batch.isfinite().all())

    def _pairs(
        self, rows: int, parts: Sequence[Tensor], batch: Tensor
    ) -> Iterator[tuple[Run, Tensor, Tensor]]:
        """Each run's columns in its block and in the batch."""
        whole = batch.view(rows, self.width)
        for run in self.runs:
            there = parts[run.block].view(rows, self.widths[run.block])
            yield (
                run,
                there[:, run.start : run.start + run.width],
                whole[:, run.to : run.to + run.width],
            )
