"""Sizes and rates that a sweep states, against those that its operation and machine imply."""

from __future__ import annotations

import math
import re

from ..sweeps import SEND
from .reading import Part
from .run import Missing

_TOTAL = re.compile(r"^nccl-tests|nccl-tests size column|^total bytes")
"""Sizes as nccl-tests counts them: of the whole buffer."""
_EACH = re.compile(r"per rank")
"""Sizes of a rank's part, which is the whole buffer in these operations only."""
_WHOLE = ("all_reduce", "broadcast", "reduce", SEND)
_ROUNDED = 0.012
"""Factors and rates are rounded."""
_LINK = "nvlink_unidir_GBps_per_gpu"


def follows(row: Part, operation: str, link: float) -> None:
    """Raises `Missing` naming a field that states other sizes, another operation, or other links
    inside a node than `link`, GB/s."""
    said = row.get("size_convention")
    each = _EACH.search(str(said)) and operation in _WHOLE
    if said and not _TOTAL.search(str(said)) and not each:
        raise Missing(f"size_convention is {said!r}: not the whole buffer of {operation}")
    gpus = row["hardware"]["gpus"]
    _near("busbw_factor", row.get("busbw_factor"), _factor(operation, gpus))
    _near(_LINK, row["hardware"].get(_LINK), link)


def _near(name: str, said: object, known: float) -> None:
    near = isinstance(said, int | float) and math.isclose(said, known, rel_tol=_ROUNDED)
    if said and not near:
        raise Missing(f"{name} is {said}, where {known:g} is known")


def _factor(operation: str, gpus: int) -> float:
    """Bus bandwidth over the algorithm's (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
    if operation == "all_reduce":
        return 2 * (gpus - 1) / gpus
    return 1.0 if operation in _WHOLE else (gpus - 1) / gpus
