"""The interval of what a deployment delivers, and its labels: what decides how alike two are.

Residuals are of engines on GPUs that no host time was fitted to (`data/serving_*.json`). Those with
`times calibrated` are what is left at other loads after a run of the same deployment was matched.

| label | values |
| --- | --- |
| engine | vllm, sglang, trtllm |
| gpu | the GPU |
| model | dense or experts |
| requests | at a time on an engine: up to 8, to 64, above 64 |
| pools | prompts and tokens together or apart |
| arrivals | closed; no measured run is open |
| times | as they come, or calibrated |

Rooflines in place of measured kernels, drafts, prefixes of a cache, and prompts on another GPU have
labels that no measured run has."""

from __future__ import annotations

import math
from functools import cache

from .interval import Interval
from .tables import of

QUANTITIES = ("ttft", "tpot", "rate")
"""Mean seconds to the first token and of each later one, tokens a second."""
LIKENESS = {
    "engine": 0.5, "gpu": 0.5, "model": 0.5, "requests": 0.6, "pools": 0.3, "times": 0.0,
}  # fmt: skip
"""Weight of a residual whose label of this kind differs. Choices."""
AS_THEY_COME, CALIBRATED = "as they come", "calibrated"
_BANDS = ((8, "up to 8"), (64, "to 64"))


def labels(
    engine: str,
    gpu: str,
    *,
    experts: bool,
    requests: float,
    apart: bool = False,
    arrivals: str = "closed",
    calibrated: bool = False,
    measured: bool = True,
    drafts: bool = False,
    prefixes: bool = False,
    prompts: str = "",
    network: bool = False,
) -> dict[str, str]:
    """Labels of a deployment under a load with `requests` at a time on an engine; `measured`: the
    kernels of the GPU were measured; `prefixes`: a cache holds the starts of prompts;
    `prompts`: another GPU that computes them; `network`: collectives are simulated."""
    new = (
        ("kernels", "rooflines", not measured),
        ("drafts", "yes", drafts),
        ("prefixes", "cached", prefixes),
        ("collectives", "simulated", network),
        ("prompts on", prompts.partition("-")[0], bool(prompts)),
    )
    return {
        "engine": engine,
        "gpu": gpu.partition("-")[0],
        "model": "experts" if experts else "dense",
        "requests": next((name for most, name in _BANDS if requests <= most), "above 64"),
        "pools": "apart" if apart else "together",
        "arrivals": arrivals,
        "times": CALIBRATED if calibrated else AS_THEY_COME,
        **{name: value for name, value, holds in new if holds},
    }


def interval(quantity: str, wanted: dict[str, str]) -> Interval | None:
    """Factors on a quantity of `QUANTITIES`; `None` without any residuals."""
    found = _interval(quantity, *wanted.items())
    return found if math.isfinite(found.high) else None


@cache
def _interval(quantity: str, *wanted: tuple[str, str]) -> Interval:
    return of(f"serving_{quantity}").interval(dict(wanted))
