"""A sharding plan on a terminal and as a page: loads of the ranks, how good the plan is, memory.

Here: what is shown of the JSON of `armillary plan`. Not here: how a plan is found (`planner`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..units import NS_PER_S, counted
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import share, size, time

if TYPE_CHECKING:
    from rich.console import RenderableType

Data = Mapping[str, Any]

_HEURISTICS = {
    "greedy": "greedy, the costliest shard first",
    "differencing": "largest differencing (Karmarkar-Karp)",
    "by_node": "greedy over nodes, then ranks",
    "by_memory": "greedy, the largest shard first",
}
_SAME, _EQUAL = 5e-4, 0.01
"""Differences from the mean below which ranks are called the same, or are not drawn."""
_MOST_RANKS = 4096
"""Ranks that a chart shows one by one."""


def terminal(data: Data) -> Iterator[RenderableType]:
    """The tables that a terminal shows."""
    from rich.table import Table as RichTable
    from rich.text import Text

    yield Text(_lead(data))
    yield Text(verdict(data))
    for head, rows in (("Plan", _results(data)), ("Memory of a rank", _memory(data))):
        yield Text("")
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(head)
        for name in rows[0][1:]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows[1:]:
            table.add_row(*row)
        yield table


def verdict(data: Data) -> str:
    """How good the plan is."""
    load, bound = _cost(data, data["greatest_load"]), _cost(data, data["lower_bound"])
    return (
        f"Greatest load of a rank: {load} a step. No plan has less than {bound}: this one is at "
        f"most {share(data['gap'])} from the best.{_near(data)}"
    )


def _near(data: Data) -> str:
    """That a plan may not fit, or that one that may not would be faster."""
    if data["fits"] == "near":
        return " It may not fit: what it needs is closer to the memory of an NPU than it is known."
    if data["near_load"] is None:
        return ""
    return f" A plan that may not fit has {_cost(data, data['near_load'])}: --near takes it."


def page(data: Data) -> Page:
    """The page of a plan."""
    results, memory = _results(data), _memory(data)
    return Page(
        title=f"Sharding plan of {data['model']} on {data['platform']}",
        lead=_lead(data),
        verdict=verdict(data),
        facts=[
            Fact("Greatest load", _cost(data, data["greatest_load"])),
            Fact("Lower bound", _cost(data, data["lower_bound"])),
            Fact("Greatest over mean load", f"{data['imbalance']:.3f}"),
            Fact("Most memory of a rank", size(max(data["memory_bytes"]))),
        ],
        sections=[
            Section("Loads", [_spread(data["loads"], "loads", "load")]),
            Section("Memory", [_spread(data["memory_bytes"], "memory_bytes", "memory")]),
            Section(
                "Plans and bounds",
                [
                    Table("plans", results[0], results[1:]),
                    Table("memory", memory[0], memory[1:]),
                ],
            ),
        ],
    )


def _lead(data: Data) -> str:
    schemes = ", ".join(f"{count:,} {name}" for name, count in data["schemes"].items())
    ranks = counted(data["ranks"], "rank")
    nodes = f"{data['ranks_per_node']} to a node"
    away = "".join(
        f" {name}: {data[count]:,}, up to {size(max(data[bytes_]))} of a rank."
        for name, count, bytes_ in (
            ("On hosts", "on_hosts", "host_bytes"),
            ("On disk", "on_disk", "disk_bytes"),
        )
        if data[count]
    )
    return (
        f"{data['model']} on {ranks} of {data['platform']}, {nodes}. Tables by scheme: {schemes}."
        f"{away}"
    )


def _cost(data: Data, value: float | None) -> str:
    if value is None:
        return "no room"
    return time(value * NS_PER_S) if data["unit"] == "s" else f"{value:.4g} {data['unit']}"


def _results(data: Data) -> list[tuple[str, ...]]:
    """Loads of the plan, of each heuristic and of the bound."""
    bound = data["lower_bound"]

    def above(value: float | None) -> str:
        return "" if value is None or not bound else f"{(value / bound - 1) * 100:+.2f}%"

    rows: list[tuple[str, ...]] = [("", "Greatest load", "Above the bound")]
    rows.append(("this plan", _cost(data, data["greatest_load"]), above(data["greatest_load"])))
    for name, value in data["heuristics"].items():
        rows.append((_HEURISTICS[name], _cost(data, value), above(value)))
    rows.append(("lower bound of any plan", _cost(data, bound), ""))
    return rows


def _memory(data: Data) -> list[tuple[str, ...]]:
    held, dense = data["memory_bytes"], data["dense_bytes"]
    mean = sum(held) / len(held)
    return [
        ("", "Least", "Mean", "Most", "Room"),
        (
            "tables, state, buffers",
            *(size(value - dense) for value in (min(held), mean, max(held))),
            size(data["capacity_bytes"] - dense),
        ),
        ("MLPs", *[size(dense)] * 3, ""),
        ("all", *(size(v) for v in (min(held), mean, max(held))), size(data["capacity_bytes"])),
    ]


def _spread(values: Sequence[float], name: str, what: str) -> Chart | str:
    """How far each rank is from the mean; a sentence where ranks hardly differ."""
    mean = sum(values) / len(values)
    apart = max(abs(value / mean - 1) for value in values) if mean else 0.0
    if apart < _SAME:
        return f"All ranks have the same {what}."
    if apart < _EQUAL:
        return f"The {what} of every rank is within {share(apart)} of the mean."
    shown = values[:_MOST_RANKS]
    records = [{"rank": rank, "off": value / mean - 1} for rank, value in enumerate(shown)]
    off = {
        "field": "off",
        "type": "quantitative",
        "title": f"{what} above the mean",
        "axis": {"format": "+.1%"},
    }
    spec = {
        "height": 220,
        "mark": {"type": "bar", "binSpacing": 0},
        "encoding": {
            "x": {"field": "rank", "type": "ordinal", "axis": {"labelOverlap": True}},
            "y": off,
        },
    }
    title = f"{what.capitalize()} by rank, against the mean"
    return Chart(name=name, title=title, rows=records, spec=spec)
