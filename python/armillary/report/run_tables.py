"""Tables of a run that its page and a terminal show: phases, operations, links.

Not here: what is drawn (`run_network.py`, `run_work.py`), how much of a table a terminal shows
(`breakdown.py`)."""

from __future__ import annotations

from ..schema import Phase, Report
from .parts import Table
from .plain_names import Named
from .quantity import number, share, size, time

_PHASES = 20
_LINKS = 20


def heaviest(report: Report) -> list[Phase]:
    """The phases that take most time, in their order."""
    found = report["phases"]
    largest = sorted(
        found, key=lambda item: -item["count"] * (item["queue_ns"] + item["network_ns"])
    )[:_PHASES]
    return [item for item in found if item in largest]


def phases(report: Report) -> Table:
    """Mean queue and network delay of each phase position."""
    shown = heaviest(report)
    cells = [
        [p["name"], number(p["count"]), time(p["queue_ns"]), time(p["network_ns"])] for p in shown
    ]
    left = len(report["phases"]) - len(shown)
    more = f"The largest; {number(left)} more are in the JSON." if left else ""
    return Table("Phases", ["Phase", "Count", "Waiting", "On the network"], cells, more)


def operations(report: Report) -> Table:
    """The operations that cost most, over all ranks."""
    whole = (report["step_time_ns"] or 1.0) * report["ranks"]
    cells = [
        [
            Named(item["name"]),
            item["kind"],
            number(item["count"]),
            time(item["cost_ns"]),
            share(item["cost_ns"] / whole),
            time(item["total_ns"]),
            time(item["total_ns"] / max(item["count"], 1)),
            time(item["max_ns"]),
            size(item["bytes"]) if item["bytes"] else "",
        ]
        for item in report["operations"]
    ]
    heads = ["Operation", "Kind", "Count", "Cost", "Share", "Duration", "Mean", "Longest", "Bytes"]
    return Table("Operations by cost", heads, cells, _COST, labels=2)


_COST = (
    "Sums over all ranks; a star stands for the numbers in a name. Cost: each moment of a rank is "
    "charged to one operation. That is the one that computes, else the communication that ends "
    "first, else memory, a launch or the host. Duration: from beginning to end, overlapped or not. "
    "A receive that is posted early lasts long and costs little."
)


def links(report: Report) -> list[Table]:
    """The busiest links, where the backend knows links."""
    shown = report["links"][:_LINKS]
    heads = ["Link", "Alike", "Busy", "Carried", "Messages", "Mean wait", "Longest queue"]
    cells = [
        [
            item["name"],
            number(item["count"]),
            f"{time(item['busy_ns'])}  {share(item['busy_ns'] / (report['step_time_ns'] or 1.0))}",
            size(item["bytes"]),
            number(item["messages"]),
            time(item["queue_mean_ns"]),
            number(item["queue_max"]),
        ]
        for item in shown
    ]
    return (
        [Table("Busiest links", heads, cells, "Links used alike share a row; values are for each.")]
        if shown
        else []
    )
