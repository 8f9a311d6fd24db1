"""The page of a search for layouts: the best ones, why faster ones were refused, what was
searched."""

from __future__ import annotations

import math
from typing import Any

from ..report.chart import Chart
from ..report.page import Fact, Page, Section, Table
from ..report.quantity import share, size, time
from ..units import NS_PER_S, counted
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
            Section("Best layouts", [_best(data), *_chart(data)]),
            *_refused(data),
            Section("Searched values", [_axes(data)], only="page"),
        ],
    )


def verdict(data: Data) -> str:
    """The best layout, and what is proved of it."""
    best = data["best"][0]
    said = (
        f"{named(best)}: {time(best['step_ns'])} a step. No other of the "
        f"{data['layouts']:,} layouts has a simulated step that is more than "
        f"{at_most(data['gap'])} faster"
    )
    if data["stopped"]:
        said += ". The search was stopped early: its gap is not the smallest that it could prove"
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
    return said + "."


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
    first = data["best"][0]["step_ns"]
    rows = [
        (
            named(each),
            time(each["step_ns"]),
            f"{(each['step_ns'] / first - 1) * 100:+.1f}%",
            share(each["mfu"]) if each["mfu"] else "",
            size(each["memory_bytes"]),
            each["fits"],
            "yes" if each["separated"] else "no",
        )
        for each in data["best"]
    ]
    columns = ("Layout", "Step", "Behind", "MFU", "Memory", "Fits", "Separated")
    note = "Separated: whether the difference from the best is larger than the uncertainty."
    return Table("Simulated layouts, the fastest first", columns, rows, note)


def _chart(data: Data) -> list[Chart]:
    if len(data["best"]) < 2:
        return []
    records = [
        {"step": each["step_ns"] / NS_PER_S, "memory": each["memory_bytes"] / 1e9}
        for each in data["best"]
    ]
    spec = {
        "height": 220,
        "mark": {"type": "point", "filled": True},
        "encoding": {
            "x": {
                "field": "memory",
                "type": "quantitative",
                "title": "memory of the fullest rank, GB",
                "scale": {"zero": False},
            },
            "y": {
                "field": "step",
                "type": "quantitative",
                "title": "step, s",
                "scale": {"zero": False},
            },
        },
    }
    return [Chart(name="front", title="Step and memory", rows=records, spec=spec)]


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


def _axes(data: Data) -> Table:
    rows = [
        (name, ", ".join("none" if value is None else str(value) for value in values))
        for name, values in data["axes"].items()
    ]
    return Table("Values of each option", ("Option", "Values"), rows)


def at_most(gap: float) -> str:
    """A share, rounded up: it is a limit."""
    return f"{math.ceil(gap * 1e4 - 1e-6) / 100:.2f}%"
