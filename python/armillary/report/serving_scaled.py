"""Engines that start and stop with the load, next to fleets of fixed sizes, as a section of a page.

Here: what is shown. Not here: the page (`serving.py`), the simulation (`serve/autoscale.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..units import NS_PER_S
from .chart import Chart
from .page import Section, Table
from .quantity import share, time

if TYPE_CHECKING:
    from ..serve.autoscale import Scaled
    from ..serve.limits import Limits
    from ..serve.scaling import Rule


def section(by: Rule, found: Sequence[Scaled], limits: Limits, dollars: float | None) -> Section:
    """The fleets, the scaled one first. `dollars` are those of a GPU for an hour."""
    return Section("Autoscaling", [_table(by, found, limits, dollars), _chart(found[0])])


def _table(by: Rule, found: Sequence[Scaled], limits: Limits, dollars: float | None) -> Table:
    from ..serve.autoscale import share as kept

    rates = ("goodput", "kept") if limits.given else ("requests/s",)
    heads = ("fleet", "engines", "GPU-hours", *rates, "TTFT p99", "TPOT p99")
    rows = []
    for each in found:
        served = each.served
        cells = [
            each.said,
            f"{each.engines:.3g}",
            f"{each.gpu_hours:.4g}",
            f"{served.goodput(limits.ttft, limits.tpot):.3g}",
            *([share(kept(served, limits))] if limits.given else []),
            time(served.ttft.p99 * NS_PER_S),
            time(served.tpot.p99 * NS_PER_S),
        ]
        rows.append((*cells, *([] if dollars is None else [f"${each.gpu_hours * dollars:,.2f}"])))
    good = "Goodput is requests a second within the service level. " if limits.given else ""
    note = (
        f"The same requests on each fleet. The rule: {by.said}. {good}"
        "GPU-hours end with the last token."
    )
    return Table("Fleets", heads if dollars is None else (*heads, "cost"), rows, note)


def _chart(scaled: Scaled) -> Chart:
    end = max(each.end for each in scaled.served.answers)
    ends = [*scaled.changes, (end, scaled.changes[-1][1])]
    records: list[dict[str, Any]] = [{"time": round(at, 6), "engines": count} for at, count in ends]
    spec: dict[str, Any] = {
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "time", "type": "quantitative", "title": "time, s"},
            "y": {"field": "engines", "type": "quantitative", "title": "engines"},
        },
    }
    most = max((later - at for (at, _), (later, _) in pairwise(ends)), default=0.0)
    note = f"Engines that start, run or stop. The longest time without a change is {most:,.0f} s."
    return Chart("engines", "Engines over time", records, spec, note)
