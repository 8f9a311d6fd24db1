"""The page of a search for layouts: the best ones, why faster ones were refused, what was
searched."""

from __future__ import annotations

import math
from typing import Any

from ..report.chart import Chart
from ..report.page import Fact, Page, Section, Table
from ..report.quantity import share, size, time
from ..units import GB, NS_PER_S, counted
from .result import words

Data = dict[str, Any]


def page(data: Data) -> Page:
    """The page of a `LayoutPlan` as `to_dict` gives it."""
    best = data["best"][0]
    return Page(
        title=f"Layouts of {data['model']} on {data['platform']}",
        verdict=verdict(data),
        lead=_lead(data),
        warnings=data["warnings"],
        facts=[
            Fact("Simulated step", time(best["step_ns"])),
            *_rates(best),
            Fact("Memory of the fullest rank", size(best["memory_bytes"])),
            Fact("Layouts", f"{data['layouts']:,}"),
            Fact("Proved gap", at_most(data["gap"])),
        ],
        sections=[
            Section("Best layouts", [_best(data)]),
            *_measured(data),
            *_front(data),
            *_refused(data),
            *_neighbours(data),
            *_picture(data),
            Section("Searched values", [_axes(data)], only="page"),
        ],
    )


STOPPED = ". The search was stopped early: its gap is not the smallest that it could prove"
"""A sentence about a search that the user has stopped."""


def verdict(data: Data) -> str:
    """The best layout, and what is proved of it."""
    best = data["best"][0]
    said = (
        f"{named(best)}: {time(best['step_ns'])} a step. No other of the "
        f"{data['layouts']:,} layouts has a simulated step that is more than "
        f"{at_most(data['gap'])} faster"
    )
    fastest = min(each["step_ns"] for each in data["best"])
    if fastest < best["step_ns"]:
        said += f" than {time(fastest)}, the fastest simulated step"
    if data["stopped"]:
        said += STOPPED
    elif data["open_layouts"]:
        one = data["open_layouts"] == 1
        said += (
            f"; {counted(data['open_layouts'], 'layout')} with a bound below this step "
            f"{'was' if one else 'were'} not simulated (--simulations)"
        )
    alike = sum(not each["separated"] for each in data["best"][1:])
    if alike:
        said += (
            f". The uncertainty of predictions does not separate {alike} of the next "
            f"{len(data['best']) - 1} from it"
        )
    return f"{said}.{_after(data)}"


def _after(data: Data) -> str:
    """How measured steps of the job change the answer."""
    if not data["measured"]:
        return ""
    best = data["best"][0]
    fastest = min(data["measured"], key=lambda each: each["measured_ns"])
    said = (
        f" After the measured steps, {time(best['expected_ns'])} is expected of it, in 80 % of "
        f"cases {time(best['low_ns'])} to {time(best['high_ns'])}"
        if best["low_ns"] < best["high_ns"]
        else f" Its step was measured: {time(best['expected_ns'])}"
    )
    if fastest["measured_ns"] > best["expected_ns"]:
        less = 1 - best["expected_ns"] / fastest["measured_ns"]
        apart = fastest["measured_ns"] > best["high_ns"]
        said += (
            f": {share(less)} less than the {time(fastest['measured_ns'])} of {named(fastest)}, "
            f"which is {'more' if apart else 'not more'} than the uncertainty"
        )
    order = "changed" if data["moved"] else "did not change"
    return f"{said}. They {order} the order of layouts."


def _lead(data: Data) -> str:
    return (
        f"{counted(data['ranks'], 'rank')}, {counted(data['global_batch'], 'sample')} of "
        f"{data['seq']:,} tokens a step, {data['backend']}. {data['fitting']:,} layouts fit the "
        f"memory surely, {data['near']:,} perhaps."
    )


def _rates(best: Data) -> list[Fact]:
    found = []
    if best["tokens_per_s"]:
        found.append(Fact("Tokens/s", f"{best['tokens_per_s']:,.0f}"))
    if best["mfu"]:
        found.append(Fact("MFU", share(best["mfu"])))
    if best["low_ns"]:
        text = f"{time(best['low_ns'])} to {time(best['high_ns'])}"
        found.append(Fact("80 % of measured steps", text))
    return found


def named(each: Data) -> str:
    """A layout as options of a command line."""
    return words(_layout(each)) or "data parallelism alone"


def _layout(each: Data) -> dict[str, object]:
    """Options that differ from layout to layout."""
    return {name: value for name, value in each["options"].items() if name != "global_batch"}


def _best(data: Data) -> Table:
    first = _step(data["best"][0])
    rows = [
        (
            named(each),
            time(each["step_ns"]),
            *([time(each["expected_ns"])] if data["measured"] else []),
            f"{(_step(each) / first - 1) * 100:+.1f}%",
            share(each["mfu"]) if each["mfu"] else "",
            size(each["memory_bytes"]),
            each["fits"],
            ("yes" if each["separated"] else "no") if place else "",
        )
        for place, each in enumerate(data["best"])
    ]
    after = ("Expected",) if data["measured"] else ()
    columns = ("Layout", "Step", *after, "Behind", "MFU", "Memory", "Fits", "Separated")
    note = "Separated: whether the difference from the best is larger than the uncertainty."
    return Table("Simulated layouts, the fastest first", columns, rows, note)


def _step(each: Data) -> float:
    return float(each["expected_ns"] or each["step_ns"])


def _measured(data: Data) -> list[Section]:
    if not data["measured"]:
        return []
    rows = [
        (
            named(each),
            time(each["measured_ns"]),
            time(each["simulated_ns"]),
            f"{(each['measured_ns'] / each['simulated_ns'] - 1) * 100:+.1f}%",
            f"{each['steps']:,}",
        )
        for each in data["measured"]
    ]
    columns = ("Layout", "Measured", "Simulated", "Measured is", "Measurements")
    return [Section("Measured layouts", [Table("Steps of this job", columns, rows)])]


def _front(data: Data) -> list[Section]:
    """The trade of time for memory."""
    if not data["front"]:
        return []
    simulated = {str(each["options"]) for each in data["best"]}
    ours = [
        {
            "step": each["step_ns"] / NS_PER_S,
            "memory": each["memory_bytes"] / GB,
            "layout": words(_layout(each)),
            "what": "simulated",
        }
        for each in data["best"]
    ]
    front = [
        {
            "step": each["estimate_ns"] / NS_PER_S,
            "memory": each["memory_bytes"] / GB,
            "layout": words(_layout(each)),
            "what": "front, estimated",
        }
        for each in data["front"]
        if str(each["options"]) not in simulated
    ]
    scale = {"zero": False}
    spec = {
        "height": 260,
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": {
                "field": "memory",
                "type": "quantitative",
                "title": "memory of the fullest rank, GB",
                "scale": scale,
            },
            "y": {
                "field": "step",
                "type": "quantitative",
                "title": "step, s",
                "scale": {"type": "log", "nice": False},
            },
            "color": {"field": "what", "type": "nominal", "title": None},
            "shape": {"field": "what", "type": "nominal", "title": None},
            "tooltip": [{"field": name} for name in ("layout", "step", "memory", "what")],
        },
    }
    note = (
        "Front: layouts that fit, and that no other one is both faster and smaller than, by "
        "estimate."
    )
    return [
        Section("Time and memory", [Chart("front", "Step and memory", [*ours, *front], spec, note)])
    ]


def _picture(data: Data) -> list[Section]:
    """The space by its degrees of parallelism: first tp and pp alone, then by cp and by ep."""
    charts = []
    for extra in (None, "cp", "ep"):
        names = ["tp", "pp", *([extra] if extra else [])]
        if extra and len({each[extra] for each in data["cells"]}) < 2:
            continue
        charts += [_map(data, names)] if data["cells"] else []
    return [Section("The space", charts, only="page")] if charts else []


def _map(data: Data, names: list[str]) -> Chart:
    """The smallest estimate of each cell; cells in which nothing fits are grey."""
    groups: dict[tuple[int, ...], list[Data]] = {}
    for each in data["cells"]:
        groups.setdefault(tuple(each[name] for name in names), []).append(each)
    rows = []
    for degrees, cells in groups.items():
        timed = [each for each in cells if each["estimate_ns"] is not None]
        best = min(timed, key=lambda each: each["estimate_ns"], default=None)
        least = min(each["least_bytes"] for each in cells)
        rows.append(
            {
                **dict(zip(names, degrees, strict=True)),
                "step": best and best["estimate_ns"] / NS_PER_S,
                "layout": words(_layout(best)) if best else f"none fits: {size(least)} or more",
                "fits": f"{sum(each['fitting'] for each in cells):,} of "
                f"{sum(each['layouts'] for each in cells):,}",
            }
        )
    axes = {
        "x": {"field": "tp", "type": "ordinal", "title": "tp", "axis": {"labelAngle": 0}},
        "y": {"field": "pp", "type": "ordinal", "title": "pp", "sort": "descending"},
        "tooltip": [{"field": name} for name in (*names, "step", "layout", "fits")],
    }
    scale = {"scheme": "viridis", "reverse": True, "type": "log"}
    colour: dict[str, Any] = {"field": "step", "type": "quantitative", "title": "step, s"}
    colour |= {"scale": scale, "legend": {"format": ".3~g", "tickCount": 3}}
    none, some = ({"filter": f"datum.step {sign} null"} for sign in ("===", "!=="))
    layers = [
        {"transform": [none], "mark": {"type": "rect", "color": "#d0d0d0"}, "encoding": axes},
        {"transform": [some], "mark": "rect", "encoding": {**axes, "color": colour}},
    ]
    spec: dict[str, Any] = {"height": 260, "layer": layers}
    if len(names) > 2:
        facet = {"field": names[2], "type": "ordinal", "header": {"titleFontSize": 12}}
        inner = {"layer": layers, "width": 160, "height": 160}
        spec = {"facet": facet, "columns": 4, "spec": inner}
    by = ", ".join(names)
    note = (
        "Each cell: the smallest estimate of its layouts that fit. Grey: none fits in memory. "
        "Empty: no layout."
    )
    return Chart(f"space-{names[-1]}", f"Estimated step by {by}", rows, spec, note)


def _refused(data: Data) -> list[Section]:
    if not data["refused"]:
        return []
    rows = [
        (
            named(each),
            time(each["estimate_ns"]),
            each["reason"],
        )
        for each in data["refused"]
    ]
    columns = ("Layout", "Estimate", "Reason")
    table = Table("Faster layouts that do not fit", columns, rows)
    return [Section("Refused layouts", [table])]


_CHANGED = {"batch": "samples", "network": "bandwidth of links", "memory": "memory of an NPU"}


def _neighbours(data: Data) -> list[Section]:
    """The answer for other batches, networks and memories."""
    if not data["neighbours"]:
        return []
    best = data["best"][0]
    rows = []
    for each in data["neighbours"]:
        change = f"{each['factor']:g} x {_CHANGED[each['what']]}"
        if each["step_ns"] is None:
            none = "no layout fits" if each["options"] is None else "not possible, or takes minutes"
            rows.append((change, none, "", "", ""))
            continue
        rate = each["tokens_per_s"]
        more = (rate / best["tokens_per_s"] - 1) * 100 if rate and best["tokens_per_s"] else None
        rows.append(
            (
                change,
                "the same" if _layout(each) == _layout(best) else named(each),
                time(each["step_ns"]),
                "" if more is None else f"{more:+.1f}%",
                "simulated" if each["simulated"] else "estimate",
            )
        )
    note = (
        "Batch and bandwidth: the best layout above, simulated there. Limits of the communication "
        "library stay. Memory: the layout with the smallest estimate."
    )
    columns = ("Change", "Layout", "Step", "Tokens/s", "From")
    return [
        Section("Sensitivity", [Table("Other batches, networks, memories", columns, rows, note)])
    ]


def _axes(data: Data) -> Table:
    rows = [(name, ", ".join(_spans(values))) for name, values in data["axes"].items()]
    return Table("Values of each option", ("Option", "Values"), rows)


def _spans(values: list[object]) -> list[str]:
    """Values as `--layout` takes them: numbers that follow each other as a first and a last
    one."""
    found: list[list[object]] = []
    for value in values:
        last = found[-1][-1] if found else None
        number = isinstance(value, int) and not isinstance(value, bool)
        if number and isinstance(last, int) and not isinstance(last, bool) and value == last + 1:
            found[-1].append(value)
        else:
            found.append([value])
    words = (each if len(each) < 3 else [f"{each[0]}..{each[-1]}"] for each in found)
    return ["none" if value is None else str(value) for each in words for value in each]


def at_most(gap: float) -> str:
    """A share, rounded up: it is a limit."""
    return f"{math.ceil(gap * 1e4 - 1e-6) / 100:.2f}%"
