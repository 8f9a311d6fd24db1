"""Settings of a process before it trains."""

from __future__ import annotations

import torch

from armillary import machine


def prepare_process(threads: int | None) -> None:
    """Makes this process keep the memory that its steps free, and sets the number of PyTorch's
    threads. `None`: PyTorch's choice."""
    machine.keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
