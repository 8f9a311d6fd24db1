"""Goodput of a job whose nodes fail: the page.

Here: what is shown. Not here: how runs are simulated (`goodput`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..units import NS_PER_S, counted
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import share, time

if TYPE_CHECKING:
    from ..goodput import Goodput
    from ..goodput.run import Spread

_PARTS = {
    "trained": "Training that is kept",
    "checkpoints": "Checkpoints",
    "lost": "Training that is lost",
    "down": "Detection and restarts",
    "waiting": "Waiting for repairs",
}
_LAWS = {
    "exponential": "exponential",
    "weibull": "Weibull's",
    "gamma": "gamma's",
    "recorded": "recorded",
}


def page(found: Goodput) -> Page:
    """The page of a job."""
    job = found.job
    return Page(
        title="Goodput",
        verdict=_verdict(found),
        lead=(
            f"{counted(job.nodes, 'node')}. Each fails every {_long(job.mtbf_s)} on average, so "
            f"there is a failure every {_long(job.gap_s)}. {found.runs:,} runs of {job.days:g} "
            f"days, {_LAWS[job.law]} failures."
        ),
        facts=[
            Fact("Goodput", f"{found.goodput.mean:.2%}", _between(found.goodput, "{:.2%}")),
            Fact("Failures", f"{found.failures.mean:,.0f}", _between(found.failures, "{:,.0f}")),
            Fact("Checkpoint every", _long(job.interval_s or 0.0), "of training"),
            *_effective(found),
        ],
        warnings=found.warnings,
        sections=[
            Section("Time", [_parts(found)]),
            Section("Checkpoints", _checkpoints(found)),
            *([Section("Spare nodes", [_spares(found)])] if found.spares else []),
            *([Section("Law of failures", [_laws(found)])] if found.exponential else []),
        ],
    )


def _effective(found: Goodput) -> list[Fact]:
    if found.effective_step_s is None:
        return []
    step = time(found.effective_step_s * NS_PER_S)
    return [Fact("Effective step", step, f"{time(found.job.step_s * NS_PER_S)} without failures")]


def _verdict(found: Goodput) -> str:
    worst = max((name for name in _PARTS if name != "trained"), key=found.parts.__getitem__)
    said = (
        f"{found.goodput.mean:.1%} of the time trains and is kept. The largest loss is "
        f"{_PARTS[worst].lower()}, {found.parts[worst]:.1%}. In {found.job.days:g} days, 95 % of "
        f"runs have {found.failures.low:,.0f} to {found.failures.high:,.0f} failures"
    )
    if found.spares:
        best = found.spares[-1]
        gain = best.goodput - found.spares[0].goodput
        enough = next(
            each.value for each in found.spares if best.goodput - each.goodput < 0.1 * gain + 1e-9
        )
        said += f". {counted(int(enough), 'spare node')} give nine tenths of what spares can"
    return f"{said}."


def _between(spread: Spread, form: str) -> str:
    return f"95 % of runs: {form.format(spread.low)} to {form.format(spread.high)}"


def _long(seconds: float) -> str:
    """A time from seconds to days."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.3g} s"


def _parts(found: Goodput) -> Table:
    rows = [[title, f"{found.parts[name]:.2%}"] for name, title in _PARTS.items()]
    return Table("Mean part of the time", ("Part", "Share"), rows, labels=1)


def _checkpoints(found: Goodput) -> list[Table | Chart]:
    used = found.job.interval_s or 0.0
    rows = [
        ["used", _long(used), f"{found.goodput.mean:.2%}"],
        ["Young", _long(found.young_s), ""],
        ["Daly", _long(found.daly_s), ""],
    ]
    if found.daly_goodput is not None:
        rows.append(["Daly's goodput with the interval used", "", f"{found.daly_goodput:.2%}"])
    heads = ("Interval", "Training between checkpoints", "Goodput")
    table = Table("Interval of checkpoints", heads, rows, labels=1)
    if not found.intervals:
        return [table]
    records: list[dict[str, Any]] = [
        {"interval": each.value, "goodput": round(each.goodput, 6)} for each in found.intervals
    ]
    across = {"field": "interval", "type": "quantitative", "scale": {"type": "log"}}
    across |= {"title": "training between checkpoints, s"}
    up = {"field": "goodput", "type": "quantitative", "axis": {"format": "%"}}
    tooltip = [{"field": "interval", "format": ",.4~g"}, {"field": "goodput", "format": ".2%"}]
    encoding = {"x": across, "y": up, "tooltip": tooltip}
    spec = {"height": 240, "mark": {"type": "line", "point": True}, "encoding": encoding}
    chart = Chart("intervals", "Goodput by interval", records, spec, "The same failures for each.")
    return [table, chart]


def _spares(found: Goodput) -> Table:
    rows = [[f"{int(each.value):,}", f"{each.goodput:.2%}"] for each in found.spares]
    note = "The same failures and repairs for each number."
    return Table("Goodput by spare nodes", ("Spare nodes", "Goodput"), rows, note)


def _laws(found: Goodput) -> Table:
    assert found.exponential is not None
    goodput, failures = found.exponential
    rows = [
        [
            name,
            f"{spread.mean:.2%}",
            f"{count.mean:,.0f}",
            f"{count.low:,.0f} to {count.high:,.0f}",
        ]
        for name, spread, count in (
            (_LAWS[found.job.law], found.goodput, found.failures),
            ("exponential", goodput, failures),
        )
    ]
    heads = ("Failures", "Goodput", "Number", "95 % of runs")
    error = share(abs(goodput.mean - found.goodput.mean))
    note = f"Exponential failures would change the goodput by {error} of the time."
    return Table("The law against an exponential one", heads, rows, note, labels=1)
