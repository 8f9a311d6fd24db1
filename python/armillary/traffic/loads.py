"""Loads as users write them: shares of the injection bandwidth, or bandwidths of an NPU."""

from __future__ import annotations

import re

from .. import _core
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import base, split

_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(%?)")
_ALLOWED = "shares of the injection bandwidth such as 0.4 or 40%, or bandwidths such as 20 GB/s"


def loads_of(text: str, platform: Platform) -> list[float]:
    """`0.1,40%,20 GB/s` as shares of the injection bandwidth of `platform`. Raises `InputError`
    naming every part that is neither."""
    parts = [part.strip() for part in text.split(",")]
    found = {part: _load(part, platform) for part in parts}
    wrong = [
        Problem("", "--loads", f'invalid load: "{part}"', _ALLOWED)
        for part, load in found.items()
        if load is None
    ]
    if wrong:
        raise InputError(wrong)
    return [load for load in found.values() if load is not None]


def _load(part: str, platform: Platform) -> float | None:
    share = _SHARE.fullmatch(part)
    if share is not None:
        return float(share[1]) / (100 if share[2] else 1)
    parted, rate = split(part), base(part)
    if parted is None or rate is None or not parted[1].endswith("/s"):
        return None
    core = _core.Traffic(platform._core, platform.backend, "uniform", 1, [], 0, [], 0.0, [])
    return float(rate) / max(1, core.injection())
