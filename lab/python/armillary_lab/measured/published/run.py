"""Facts that a rule finds out about a run of training, and how rules read rows.

Here: the types and readers that all rules share. Not here: the rules of sources (`rules.py`,
`megatron.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from armillary.model.files import Model

from .file import Row
from .machines import gpu_of, no_preset


class Missing(Exception):
    """A run needs something that its row lacks."""


@dataclass(slots=True)
class Run:
    """Facts that a rule finds out about a run."""

    model: Model
    gpu: str
    gpus: int
    nodes: int
    global_batch: int
    micro_batch: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 0
    zero: int = 1
    virtual_stages: int = 1
    recompute: str = "none"
    precision: str = "bf16"
    extra: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    gib: float | None = None
    seq: int = 0
    """Tokens of a sample; 0: those of the model."""

    @property
    def sequence(self) -> int:
        """Tokens of a sample."""
        return self.seq or int(self.model.fields["sequence"])


_MOST = 10**12
"""The largest count that a run of ours can have; larger ones count as not stated."""


def count(values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A count of a row, which may be text; words such as `n/a` count as missing. Of two in a cell,
    `2 (4)`, the first counts."""
    value = values.get(key)
    if isinstance(value, str) and (found := re.fullmatch(r"(\d+)( \(\d+\))?", value.strip())):
        value = int(found[1])
    if isinstance(value, int | float) and value == int(value) and 0 < value <= _MOST:
        return int(value)
    if default is None:
        raise Missing(f"{key.replace('_', ' ')} is not stated")
    return default


def hardware(row: Row) -> tuple[str, int, int]:
    """GPU generation, GPUs and nodes."""
    found = row["hardware"]
    gpu = gpu_of(str(found.get("gpu")))
    if gpu is None:
        raise Missing(no_preset(found.get("gpu")))
    gpus = count(found, "gpus")
    return gpu, gpus, count(found, "nodes", -(-gpus // (4 if gpu.startswith("GB") else 8)))
