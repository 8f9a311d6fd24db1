"""The interval of a training step, and its labels: what decides how alike two steps are.

Steps on GPUs that were measured have residuals of left-out sources (`data/steps.json`). Other
hardware has those of left-out hardware (`data/hardware.json`): there each generation of GPUs was
predicted with the efficiencies of the others, so the interval is wider."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from .interval import Interval
from .tables import of

LIKENESS = {"gpu": 0.5, "format": 0.6, "family": 0.4, "scale": 0.6, "software": 0.5}
"""Weight of a residual whose label of this kind differs. Choices."""
FAMILIES = {"transformer": "dense", "moe": "experts"}
"""Families of models whose steps were measured."""
_NODE, _MANY = 8, 512


def labels(
    gpu: str,
    precision: str,
    family: str,
    gpus: int,
    stated: bool = True,
    uneven: bool = False,
    adapters: bool = False,
) -> dict[str, str]:
    """Labels of a step on `gpus` GPUs; `stated`: the training framework is stated; `uneven`: some
    experts get more tokens than others; `adapters`: low-rank adapters alone are trained. No
    measured step has either of the last two."""
    size = "one node" if gpus <= _NODE else "to 512 GPUs" if gpus <= _MANY else "above 512 GPUs"
    others = ({"routing": "uneven"} if uneven else {}) | (
        {"trained": "adapters"} if adapters else {}
    )
    return {
        "gpu": gpu.partition("-")[0],
        "format": "bf16" if precision == "fp16" else precision,
        "family": FAMILIES.get(family, family),
        "scale": size,
        "software": "a stated framework" if stated else "not stated",
        **others,
    }


def measured() -> frozenset[str]:
    """GPUs whose steps were measured."""
    return frozenset(each.labels["gpu"] for each in of("steps").residuals)


@cache
def interval(
    gpu: str,
    precision: str,
    family: str,
    gpus: int,
    stated: bool,
    uneven: bool = False,
    adapters: bool = False,
) -> Interval | None:
    """Factors on the step of a model of `family` on `gpus` GPUs; the others are as in `labels`.
    `None` where no such steps were measured: no fit left those of other workloads out."""
    if family not in FAMILIES:
        return None
    wanted = labels(gpu, precision, family, gpus, stated, uneven, adapters)
    known = wanted["gpu"] in measured()
    found = of("steps").interval(wanted) if known else _elsewhere(wanted)
    return found if math.isfinite(found.high) else None


def _elsewhere(wanted: dict[str, str]) -> Interval:
    """The interval of hardware without measured steps."""
    rest = {name: value for name, value in wanted.items() if name != "gpu"}
    found = of("hardware").interval(rest)
    return replace(found, labels=wanted, outside=(f"gpu {wanted['gpu']}", *found.outside))
