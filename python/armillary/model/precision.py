"""Formats of numbers that options name, and their bytes.

Here: formats of weights, activations, gradients and tables as data. Not here: formats on the wire
(`messages.py`), those of large language models (`workload/parallelism.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ..errors import Problem

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8"]

BYTES: Mapping[str, int] = MappingProxyType(
    {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
)
"""Bytes of an element."""


def problems(**given: str | None) -> list[Problem]:
    """Problems of the formats that options name."""
    return [
        Problem("", name, f"unknown precision {value!r}", ", ".join(BYTES))
        for name, value in given.items()
        if value is not None and value not in BYTES
    ]
