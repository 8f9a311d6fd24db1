"""A sharding plan as a page: loads of the ranks, how good the plan is, memory.

Here: what is shown of the JSON of `armillary plan`. Not here: how a plan is found (`planner`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import NS_PER_S, counted
from . import uncertain
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import share, size, time

Data = Mapping[str, Any]

_HEURISTICS = {
    "greedy": "greedy, the costliest shard first",
    "differencing": "largest differencing (Karmarkar-Karp)",
    "by_node": "greedy over nodes, then ranks",
    "by_memory": "greedy, the largest shard first",
}
_ALONE = {
    "table": "whole tables only",
    "column": "all tables cut by columns",
    "row": "all tables cut by rows",
    "table_row": "all tables cut by rows within a node",
    "data": "a copy of all tables on every rank",
}
_SORT = "Sort"
_COMPARED = ("Found by", _SORT, "Greatest sum of costs", "Simulated step", "Chosen")
_SAME, _EQUAL = 5e-4, 0.01
"""Differences from the mean below which ranks are called the same, or are not drawn."""
_MOST_RANKS = 4096
"""Ranks that a chart shows one by one."""


def verdict(data: Data) -> str:
    """How good the plan is: by costs, and in simulation."""
    load, bound = _cost(data, data["greatest_load"]), _cost(data, data["lower_bound"])
    return (
        f"Greatest sum of costs of a rank: {load} a step. No plan{_limited(data)} has less than "
        f"{bound}: this one is at most {_at_most(data['gap'])} from the best sum of costs (the "
        f"planner's cost model).{_simulated(data)}{_near(data)}"
    )


def _limited(data: Data) -> str:
    allowed = data["allowed_schemes"]
    return "" if allowed is None else f" with these schemes ({', '.join(allowed)})"


def _at_most(gap: float) -> str:
    """A share, rounded up: it is a limit."""
    return f"{math.ceil(gap * 1e4 - 1e-6) / 100:.2f}%"


def _simulated(data: Data) -> str:
    """The simulated step, next to those of other plans; or that there is none."""
    if data["by_costs"] is not None:
        return f" Plans were compared by their costs only: {data['by_costs']}."
    plans = [each for each in data["compared"] if each["step_ns"] is not None]
    said = f" Simulated step ({data['backend']}): {time(data['step_ns'])}"
    if len(plans) < 2:
        return f"{said}. There was no other plan to compare it with."
    said += f", the fastest of {len(plans)} plans that were simulated{_of_all(data)}"
    simple = [each["step_ns"] for each in plans if each["simple"]]
    if simple:
        said += f"; simple plans: {time(min(simple))} to {time(max(simple))}"
    alike = uncertain.sentence(data["alike"], "simulated plan")
    return f"{said}. A plan that was not simulated may be faster.{alike}"


def _of_all(data: Data) -> str:
    left = sum(each["step_ns"] is None for each in data["compared"])
    return f" ({left} more were not)" if left else ""


def _near(data: Data) -> str:
    """That a plan may not fit, or that one that may not would cost less."""
    if data["fits"] == "near":
        return " It may not fit: what it needs is closer to the memory of an NPU than it is known."
    if data["near_load"] is None:
        return ""
    return f" Costs of a plan that may not fit: {_cost(data, data['near_load'])}; --near takes it."


def page(data: Data) -> Page:
    """The page of a plan."""
    results, memory = _results(data), _memory(data)
    return Page(
        title=f"Sharding plan of {data['model']} on {data['platform']}",
        lead=_lead(data),
        verdict=verdict(data),
        warnings=data["warnings"],
        facts=[
            *_step_fact(data),
            Fact("Greatest sum of costs", _cost(data, data["greatest_load"])),
            Fact("Lower bound of costs", _cost(data, data["lower_bound"])),
            Fact("Greatest over mean load", f"{data['imbalance']:.3f}"),
            Fact("Most memory of a rank", size(max(data["memory_bytes"]))),
        ],
        sections=[
            *_spreads(data),
            *_plans(data),
            Section(
                "Plans and bounds",
                [
                    _filled("Plans, simple ones and the bound", "Plan", results),
                    _filled("Memory of a rank", "What", memory),
                ],
            ),
        ],
    )


def _spreads(data: Data) -> list[Section]:
    """Load and memory of each rank; one section where there is nothing to draw."""
    load = _spread(data["loads"], "loads", "load")
    memory = _spread(data["memory_bytes"], "memory_bytes", "memory")
    if isinstance(load, str) and isinstance(memory, str):
        return [Section("Load and memory", [load, memory])]
    return [Section("Loads", [load]), Section("Memory", [memory])]


def _plans(data: Data) -> list[Section]:
    """The plans that were compared; nothing where there is only one."""
    rows = _compared(data)
    if len(rows) < 2:
        return []
    table = _filled("Plans, the fastest first", _COMPARED[0], [_COMPARED, *rows])
    return [Section("Plans that were compared", [table], only="page")]


def _filled(caption: str, first: str, rows: Sequence[Sequence[str]]) -> Table:
    """A table without columns that are empty or say one sort; `first` names the first one."""
    kept = [
        at
        for at, head in enumerate(rows[0])
        if any(row[at] for row in rows[1:])
        and not (head == _SORT and len({row[at] for row in rows[1:]}) == 1)
    ]
    heads, *cells = ([row[at] for at in kept] for row in rows)
    return Table(caption, [first, *heads[1:]], cells)


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


def _step_fact(data: Data) -> list[Fact]:
    return [] if data["step_ns"] is None else [Fact("Simulated step", time(data["step_ns"]))]


def _results(data: Data) -> list[tuple[str, ...]]:
    """Loads and steps of the plan, of the best one by costs, of each heuristic, and the bound."""
    steps = {name: each["step_ns"] for each in data["compared"] for name in each["found_by"]}
    rows: list[tuple[str, ...]] = [
        ("", "Greatest sum of costs", "Above the bound", "Simulated step"),
        _row(data, "this plan", data["greatest_load"], data["step_ns"]),
        _row(data, "lowest costs that were found", data["lowest_load"], _lowest_step(data)),
    ]
    for name, value in data["heuristics"].items():
        rows.append(_row(data, _HEURISTICS[name], value, steps.get(name)))
    rows += [_row(data, words, *found) for words, found in _by_scheme(data)]
    rows.append(("lower bound of any plan", _cost(data, data["lower_bound"]), "", ""))
    return rows


def _lowest_step(data: Data) -> float | None:
    """The fastest step of the plans with the lowest costs."""
    steps = [
        each["step_ns"]
        for each in data["compared"]
        if each["greatest_load"] == data["lowest_load"] and each["step_ns"] is not None
    ]
    return min(steps, default=None)


def _row(data: Data, words: str, load: float | None, step: float | None) -> tuple[str, ...]:
    bound = data["lower_bound"]
    above = "" if load is None or not bound else f"{(load / bound - 1) * 100:+.2f}%"
    return words, _cost(data, load), above, "" if step is None else time(step)


def _by_scheme(data: Data) -> Iterator[tuple[str, tuple[float, float | None]]]:
    """The best plan by costs with each scheme alone."""
    names = {name: each for each in data["compared"] for name in each["found_by"]}
    for scheme, words in _ALONE.items():
        found = names.get(f"search ({scheme})")
        if found is not None:
            yield words, (found["greatest_load"], found["step_ns"])


def _compared(data: Data) -> list[tuple[str, ...]]:
    """The plans, the fastest first; those that were not simulated last, the lowest costs first."""

    def key(each: Data) -> tuple[float, float]:
        step = each["step_ns"]
        return (float("inf") if step is None else step, each["greatest_load"])

    return [
        (
            _found_by(each["found_by"]),
            "simple" if each["simple"] else "",
            _cost(data, each["greatest_load"]),
            "" if each["step_ns"] is None else time(each["step_ns"]),
            "this plan" if each["chosen"] else "",
        )
        for each in sorted(data["compared"], key=key)
    ]


def _found_by(names: Sequence[str]) -> str:
    """The ways that found a plan. A way with all schemes stands for the same with fewer."""
    ways = [(name, name.partition(" (")[0]) for name in names]
    return "; ".join(name for name, way in ways if name == way or way not in names)


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
