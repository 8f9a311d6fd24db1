"""The pictures of a design run: what bandwidth buys, step time against cost, the ranking; as a page
and as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..report import design as report
from ..report.chart import Chart
from ..report.page import Brief, Fact, Page, Section, Table
from ..report.quantity import time
from ..report.scale import Scale
from ..units import GB, NS_PER_S, counted
from .curves import BandwidthShare, missing
from .designs import Designs
from .solving import Design

_TOTAL = {"field": "total", "type": "quantitative", "title": "bandwidth of an NPU (GB/s)"}
_SCHEME = {"field": "scheme", "type": "nominal", "title": None}
_BY = ["simulated", "model"]
_WHO = {
    "field": "by",
    "type": "nominal",
    "title": "step time",
    "sort": _BY,
    "scale": {"domain": _BY},
}
_FITTED = {"zero": False, "nice": False, "padding": 24}
"""Scale of an axis whose points fill the chart."""
_DRAWN = 20
"""Designs in a chart."""
_ORDERS = {"proved": "proved", "rule": "likely", "budget": "not safe", "model": "the model's"}
"""How sure the order of the designs is, in a word."""


def page(result: Designs) -> Page:
    """Everything on one page."""
    data = result.to_dict()
    best = result.best
    lead = (
        f"{result.task.name}: {result.task.objective.replace('_', ' ')} over "
        f"{', '.join(model.name for model in best.models)}"
    )
    sections = [
        Section("Designs", [*rankings(result), _table(data), report.searched(data["search"])]),
        *report.sections(data),
        Section(f"Bandwidth shared out on {best.topology}", [_scheme_table(data)]),
        *_curve_sections(result),
    ]
    return Page(
        _title(result),
        sections,
        lead,
        _facts(data),
        [
            *result.warnings,
            *result.notes,
            *report.broken(data["schemes"]),
            *missing(result.curves),
        ],
        f"Armillary {data['version']}",
        verdict=report.verdict(data),
    )


def _title(result: Designs) -> str:
    """The models and the size of the platform that were asked for."""
    models = ", ".join(model.name for model in result.best.models)
    return f"Designs for {models} on {counted(result.task.npus, 'NPU')}"


def _facts(data: Mapping[str, Any]) -> list[Fact]:
    best, order = data["designs"][0], data["order"]
    simulated = best["simulated"]
    facts = [Fact("Best topology", best["topology"], report.provision(best))]
    if simulated:
        facts.append(
            Fact("Step, simulated", time(simulated["step_time"] * NS_PER_S), "weighted sum")
        )
    model = f"simulated {simulated['gap']:+.2%}" if simulated else "weighted sum"
    facts.append(Fact("Step, by the model", time(best["weighted_step_time"] * NS_PER_S), model))
    if best["cost"] is not None:
        facts.append(Fact("Cost of the network", report.money(best["cost"])))
    if best["continuous"]:
        over = best["value"] / best["continuous"] - 1
        facts.append(Fact("Whole links cost", f"{over:.2%}", "against bandwidths of any size"))
    facts.append(
        Fact("Order", _ORDERS[order["status"]], f"{order['simulated']:,} designs simulated")
    )
    return facts


def charts(result: Designs) -> list[Chart]:
    """Every chart there is something to show in."""
    curves = result.curves
    found = rankings(result)
    if curves:
        found += [step_time(curves), utilisation(curves)]
    if any(each.cost for each in curves):
        found += [cost(curves), performance_per_cost(curves)]
    return found


def rankings(result: Designs) -> list[Chart]:
    """Step times of the designs, by the model and simulated; against cost, too, where there are
    prices."""
    rows = [
        row
        for index, each in enumerate(result.designs[:_DRAWN])
        for row in _rows(result, index, each)
    ]
    scale = Scale.of(max(row["step"] for row in rows) * NS_PER_S)
    in_unit = {"calculate": f"datum.step * {NS_PER_S / scale.ns:.0f}", "as": "time"}
    step = {"field": "time", "type": "quantitative", "title": f"step ({scale.unit})"}
    title = "Step time by simulation and by the model"
    encoding = {
        "y": {"field": "design", "type": "nominal", "sort": None, "title": None},
        "x": {**step, "scale": _FITTED},
        "color": _WHO,
        "tooltip": [{"field": "design"}, {"field": "by"}, step],
    }
    mark = {"type": "point", "filled": True, "size": 70, "opacity": 0.8}
    drawn = {"mark": mark, "transform": [in_unit], "encoding": encoding, "height": {"step": 20}}
    ranked = Chart("designs", title, rows, drawn)
    if result.best.cost is None:
        return [ranked]
    cost = {
        "field": "cost",
        "type": "quantitative",
        "title": "cost of the network (M$)",
        "scale": _FITTED,
    }
    shape = {"field": "dimensions", "type": "nominal", "title": "dimensions"}
    tips = [{"field": "design"}, {"field": "by"}, cost, step]
    points = {
        "x": cost,
        "y": {**step, "scale": _FITTED},
        "color": _WHO,
        "shape": shape,
        "tooltip": tips,
    }
    spec = {
        "mark": mark,
        "transform": [in_unit],
        "encoding": points,
        "height": 320,
    }
    front = "Step time against cost"
    if result.task.objective == "pareto":
        front += ": in the model no design is both faster and cheaper"
    return [ranked, Chart("front", front, rows, spec)]


def _rows(result: Designs, index: int, design: Design) -> Iterator[dict[str, Any]]:
    """One row for the model and one for the simulation, where there is one."""
    trials = result.order.trials
    times = {"simulated": trials[index].time if index < len(trials) else None, "model": design.time}
    for by, seconds in times.items():
        if seconds is not None:
            yield {
                "design": f"{index + 1} {design.topology}",
                "by": by,
                "step": seconds,
                "cost": None if design.cost is None else design.cost / 1e6,
                "dimensions": str(len(design.topology)),
            }


def step_time(curves: Sequence[BandwidthShare]) -> Chart:
    """Chart as in the paper's Fig. 13: relative to EqualBW at the least total."""
    unit = curves[0].time
    rows = [_row(each, each.time / unit) for each in curves]
    return _lines(
        "step-time", "Step time, relative to EqualBW at the least bandwidth", "step time", rows
    )


def utilisation(curves: Sequence[BandwidthShare]) -> Chart:
    """Chart as in the paper's Fig. 14."""
    rows = [_row(each, 100 * each.utilisation) for each in curves]
    return _lines("utilisation", "Bandwidth used while collectives run", "%", rows)


def cost(curves: Sequence[BandwidthShare]) -> Chart:
    """Chart as in the paper's Fig. 15."""
    rows = [_row(each, (each.cost or 0.0) / 1e6) for each in curves]
    return _lines("cost", "Cost of the network", "cost (M$)", rows)


def performance_per_cost(curves: Sequence[BandwidthShare]) -> Chart:
    """Chart as in the paper's Fig. 16: relative to EqualBW at the least total."""
    unit = curves[0].performance_per_cost or 1.0
    rows = [_row(each, (each.performance_per_cost or 0.0) / unit) for each in curves]
    title = "Performance per cost, relative to EqualBW at the least bandwidth"
    return _lines("performance-per-cost", title, "performance per cost", rows)


def _row(share: BandwidthShare, value: float) -> dict[str, Any]:
    return {"scheme": share.scheme, "total": share.total / GB, "value": value}


def _lines(name: str, title: str, unit: str, rows: Sequence[dict[str, Any]]) -> Chart:
    value = {"field": "value", "type": "quantitative", "title": unit}
    encoding = {
        "x": _TOTAL,
        "y": value,
        "color": _SCHEME,
        "strokeDash": _SCHEME,
        "tooltip": [_SCHEME, _TOTAL, value],
    }
    return Chart(
        name,
        title,
        rows,
        {"mark": {"type": "line", "point": True}, "encoding": encoding, "height": 280},
    )


def _curve_sections(result: Designs) -> list[Section]:
    found = charts(result)[len(rankings(result)) :]
    return [Section(f"What bandwidth buys {result.best.topology}", found)] if found else []


def _table(data: Mapping[str, Any]) -> Table:
    priced = any(each["cost"] is not None for each in data["designs"])
    ranks = any(each["parallelisation"] for each in data["designs"])
    whole = any(each["links"] for each in data["designs"])
    columns = ["Rank", "Topology", *(["Parallelisation"] if ranks else [])]
    labels = len(columns)
    columns += ["Links of an NPU by dimension" if whole else "GB/s by dimension"]
    columns += ["Model", "Simulated", "Gap", *(["Cost"] if priced else []), "By the model"]
    rows = []
    for each in data["designs"]:
        found = each["simulated"]
        row = [str(each["rank"]), each["topology"]]
        row += [each["parallelisation"]] if ranks else []
        row += [report.provision(each).removesuffix(" GB/s"), _step(each["weighted_step_time"])]
        row += [_step(found["step_time"]), f"{found['gap']:+.2%}"] if found else ["-", "-"]
        row += [f"{each['cost'] / 1e6:.3f} M$"] if priced else []
        rows.append([*row, str(each["model_rank"] or "-")])
    brief = Brief(rows=None if data["objective"] == "pareto" else data["top"])
    return Table("Designs, best first", columns, rows, labels=labels, brief=brief)


def _step(seconds: float) -> str:
    return time(seconds * NS_PER_S, 5)


def _scheme_table(data: Mapping[str, Any]) -> Table:
    """The table of schemes."""
    columns, rows = report.scheme_rows(data["schemes"])
    title = "The schemes of LIBRA's paper, and the recommended design as the optimum"
    return Table(title, columns, rows, labels=report.SCHEME_LABELS)
