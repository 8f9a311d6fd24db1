"""Rows of 8 bits for reading, from trained rows.

Here: the bytes of an `int8` table. Not here: looking rows up (`tables/embedding.py`), checkpoints
with 8 bits (`precision.py`)."""

from __future__ import annotations

import torch
from torch import Tensor

from .precision import encode

_ELEMENTS = 2**24
"""Elements that are rounded at a time."""


def eight_bits(weight: Tensor) -> Tensor:
    """The rows of an `int8` table, uint8 [rows, dim + 8], from `weight` [rows, dim] of any
    floating type.

    A row becomes 256 steps between its least and its largest number. Behind its bytes are the
    step and the least number, each float32: `number = byte * step + least`. So the error is at
    most half a step, and a rounding of float32."""
    rows, dim = weight.shape
    found = torch.empty(rows, dim + 8, dtype=torch.uint8)
    count = max(1, _ELEMENTS // dim)
    for first in range(0, rows, count):
        part = weight[first : first + count].detach().to("cpu", torch.float32)
        stored = {
            name: torch.from_numpy(values)
            for name, values in encode(part.numpy(), "F32", "int8").items()
        }
        ends = torch.stack((stored["scale"], stored["offset"]), 1).view(torch.uint8)
        found[first : first + count] = torch.cat((stored["weight"], ends), 1)
    return found
