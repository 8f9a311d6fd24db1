"""The interval of a single kernel.

Kernels on a GPU that was measured have the errors of the presets there. Kernels on other GPUs have
those of left-out generations, so their interval is wider. `data/kernels.json` has both,
by kind of kernel and by band of predicted time; the laboratory writes it
(`python -m armillary_lab.fit.kernels --intervals`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache

from .interval import LEVEL, Interval, quantile
from .tables import DATA

BANDS = ("up to 10 us", "to 100 us", "100 us and above")
"""Bands of the predicted time."""
_ENDS = (10e-6, 100e-6)
MEASURED, OTHER = "measured", "other"
"""Kernels on a GPU that was measured, and on others."""
Table = Mapping[str, Mapping[str, Mapping[str, tuple[float, float, int]]]]
"""Kind -> measured or other -> band -> low, high, GPUs or generations behind them."""


def band(seconds: float) -> str:
    """Band of a predicted time."""
    return BANDS[sum(seconds > end for end in _ENDS)]


def ends(groups: Iterable[list[float]], level: float = LEVEL) -> tuple[float, float]:
    """Factors on a prediction between which `level` of the measurements lie.

    `groups` are ln(measured / predicted) by GPU or generation; each group weighs the same. With `n`
    groups the tails are `n/(n + 1)` as large, as few groups leave more unknown."""
    found = [group for group in groups if group]
    weighted = sorted((log, 1 / len(group)) for group in found for log in group)
    tail = (1 - level) / 2 * len(found) / (len(found) + 1)
    low, high = (math.exp(quantile(weighted, part)) for part in (tail, 1 - tail))
    return min(low, 1.0), max(high, 1.0)


@cache
def _table() -> tuple[frozenset[str], Table]:
    file = DATA / "kernels.json"
    if not file.is_file():
        return frozenset(), {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return frozenset(found["gpus"]), found["kinds"]


def interval(kind: str, npu: str, seconds: float) -> Interval | None:
    """The interval of a kernel that is predicted to take `seconds` on the NPU of this name. A band
    that few GPUs measured has the interval of the next one. `None` for kinds without measured
    kernels."""
    gpus, kinds = _table()
    known = npu.partition("-")[0] in gpus
    here = kinds.get(kind, {}).get(MEASURED if known else OTHER, {})
    near = [name for name in BANDS[BANDS.index(band(seconds)) :] if name in here]
    if not near:
        return None
    low, high, count = here[near[0]]
    labels = {"kind": kind, "gpu": npu.partition("-")[0], "time": band(seconds)}
    outside = () if known else (f"gpu {labels['gpu']}",)
    return Interval(low, high, LEVEL, float(count), labels, outside)
