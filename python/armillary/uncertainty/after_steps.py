"""The interval of a step after other steps of the same job were measured.

What a prediction misses is split in two. One part is shared by all layouts of a job on a cluster:
the clocks, the network, the version of the framework. A measured step shows it. The other is of the
layout alone and stays:

```text
c, h     = middle and half width of the interval before, as logarithms
d        = mean of ln(measured / simulated) - c over the n measured steps
w        = SHARED / (SHARED + (1 - SHARED) / n)
middle   = c + w d
surprise = d^2 / ((h / 1.2816)^2 (SHARED + (1 - SHARED) / n))
half     = STRETCH h sqrt(1 - SHARED w) sqrt((FREEDOM + surprise) / (FREEDOM + 1))
```

`w` and `1 - SHARED w` are the mean and the variance of a normal distribution given n others that
correlate by `SHARED`. The last factor is the scale of such a distribution whose variance is not
known (a Student t with `FREEDOM` degrees): a measurement far outside of the interval widens what
follows from it. The three constants are fitted to layouts of measured jobs
(`python -m armillary_lab.fit.after_steps`). Source: A. Gelman and others, "Bayesian Data Analysis"
(2013), sections 2.5, 3.2 and 3.3."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .interval import Factors

SHARED = 0.6
"""Part of the variance that layouts of a job share."""
FREEDOM = 2.0
"""How well the variance is known before."""
STRETCH = 1.224
"""Factor on half widths, with which 80 % of the steps of a source lie within."""
_NORMAL = 1.2816
"""Half width that holds 80 % of a normal distribution, in standard deviations."""


def middle(before: Factors, logs: Sequence[float]) -> float:
    """The factor on a simulated step that is expected after the steps `logs`, which are
    ln(measured / simulated)."""
    return math.exp(plain(before, logs)[0])


def after(before: Factors, logs: Sequence[float]) -> Factors:
    """The interval of other layouts after these steps, as factors on simulated steps."""
    at, half = plain(before, logs)
    return math.exp(at - STRETCH * half), math.exp(at + STRETCH * half)


def plain(
    before: Factors, logs: Sequence[float], shared: float = SHARED, freedom: float = FREEDOM
) -> tuple[float, float]:
    """Middle and half width without the stretch, as logarithms."""
    low, high = map(math.log, before)
    at, half = (low + high) / 2, (high - low) / 2
    away = sum(logs) / len(logs) - at
    variance = shared + (1 - shared) / len(logs)
    weight = shared / variance
    surprise = (away * _NORMAL / half) ** 2 / variance if half else 0.0
    scale = math.sqrt((freedom + surprise) / (freedom + 1))
    return at + weight * away, half * math.sqrt(1 - shared * weight) * scale
