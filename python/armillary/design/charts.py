"""The pictures of a design run: what bandwidth buys, step time against cost, the ranking; as a page and as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..report.chart import Chart
from ..report.page import Fact, Page, Section, Table
from .curves import Share
from .result import DesignResult

_TOTAL = {"field": "total", "type": "quantitative", "title": "bandwidth of an NPU (GB/s)"}
_SCHEME = {"field": "scheme", "type": "nominal", "title": None}


def page(result: DesignResult) -> Page:
    """Everything on one page."""
    best = result.best
    found = result.found
    lead = (
        f"{result.task.objective.replace('_', ' ')} over {', '.join(model.name for model in best.models)}; "
        f"{found.topologies:,} topologies, {found.proved:.1%} of them settled"
    )
    facts = [Fact("best topology", str(best.topology)), Fact("step", f"{best.time:,.4g} s", "weighted sum")]
    if best.cost is not None:
        facts.append(Fact("cost of the network", f"{best.cost / 1e6:,.3f} M$"))
    facts.append(Fact("duality gap", f"{best.gap:.1e}", "no better bandwidths exist"))
    sections = [Section("Designs", [ranking(result), _table(result)]), *_curve_sections(result)]
    notes = list(result.task.notes)
    return Page(
        f"{result.task.name}: designs", sections, lead, facts, notes, f"Armillary {result.to_dict()['version']}"
    )


def charts(result: DesignResult) -> list[Chart]:
    """Every chart there is something to show in."""
    curves = result.curves
    found = [ranking(result)]
    if curves:
        found += [step_time(curves), utilisation(curves)]
    if any(each.cost for each in curves):
        found.append(performance_per_cost(curves))
    return found


def ranking(result: DesignResult) -> Chart:
    """Step time against cost where there are prices, else step times of the designs."""
    rows = [
        {
            "topology": f"{index + 1} {each.topology}",
            "step": each.time,
            "cost": None if each.cost is None else each.cost / 1e6,
            "blocks": len(each.topology),
        }
        for index, each in enumerate(result.found.designs)
    ]
    time = {"field": "step", "type": "quantitative", "title": "step (s)", "scale": {"zero": False}}
    if result.best.cost is None:
        name = {"field": "topology", "type": "nominal", "sort": None, "title": None}
        bars = {"mark": "bar", "encoding": {"x": {**time, "scale": {"zero": True}}, "y": name}}
        return Chart("designs", "Step time of the best designs", rows, bars)
    cost = {"field": "cost", "type": "quantitative", "title": "cost of the network (M$)", "scale": {"zero": False}}
    shape = {"field": "blocks", "type": "nominal", "title": "dimensions"}
    encoding = {"x": cost, "y": time, "color": shape, "tooltip": [{"field": "topology"}, cost, time]}
    spec = {"mark": {"type": "point", "filled": True, "size": 80}, "encoding": encoding, "height": 320}
    title = "Step time against cost" + (
        ": no design is both faster and cheaper" if result.task.objective == "pareto" else ""
    )
    return Chart("front", title, rows, spec)


def step_time(curves: Sequence[Share]) -> Chart:
    """As the paper's Fig. 13: relative to EqualBW at the least total."""
    unit = curves[0].time
    rows = [_row(each, each.time / unit) for each in curves]
    return _lines("step-time", "Step time, relative to EqualBW at the least bandwidth", "step time", rows)


def utilisation(curves: Sequence[Share]) -> Chart:
    """As the paper's Fig. 14."""
    rows = [_row(each, 100 * each.utilisation) for each in curves]
    return _lines("utilisation", "Bandwidth used while collectives run", "%", rows)


def performance_per_cost(curves: Sequence[Share]) -> Chart:
    """As the paper's Fig. 16: relative to EqualBW at the least total."""
    unit = curves[0].performance_per_cost or 1.0
    rows = [_row(each, (each.performance_per_cost or 0.0) / unit) for each in curves]
    title = "Performance per cost, relative to EqualBW at the least bandwidth"
    return _lines("performance-per-cost", title, "performance per cost", rows)


def _row(share: Share, value: float) -> dict[str, Any]:
    return {"scheme": share.scheme, "total": share.total / 1e9, "value": value}


def _lines(name: str, title: str, unit: str, rows: Sequence[dict[str, Any]]) -> Chart:
    value = {"field": "value", "type": "quantitative", "title": unit}
    encoding = {"x": _TOTAL, "y": value, "color": _SCHEME, "strokeDash": _SCHEME, "tooltip": [_SCHEME, _TOTAL, value]}
    return Chart(name, title, rows, {"mark": {"type": "line", "point": True}, "encoding": encoding, "height": 280})


def _curve_sections(result: DesignResult) -> list[Section]:
    found = charts(result)[1:]
    return [Section(f"What bandwidth buys {result.best.topology}", found)] if found else []


def _table(result: DesignResult) -> Table:
    rows = [
        [
            str(index + 1),
            str(each.topology),
            " + ".join(f"{part / 1e9:.4g}" for part in each.bandwidth),
            f"{each.time:.5g}",
            "-" if each.cost is None else f"{each.cost / 1e6:.4g}",
            f"{each.gap:.0e}",
        ]
        for index, each in enumerate(result.found.designs)
    ]
    columns = ["", "topology", "GB/s by dimension", "step (s)", "cost (M$)", "duality gap"]
    return Table("Designs, best first", columns, rows, labels=3)
