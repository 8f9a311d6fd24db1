"""Counts of flits in a run: packets, waits for each cause, links.

Not here: the links of a run (`breakdown.py`, `run_network.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..schema import FlitClass, FlitLink, Flits, Report
from .parts import Part, Table
from .quantity import number, share, time


def _plain(value: float) -> str:
    return f"{value:.4g}"


TOTALS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "packets": ("Packets", number),
    "flits": ("Flits on links", number),
    "hops_mean": ("Links of a packet, mean", _plain),
    "source_wait.mean_ns": ("Wait at the source, mean", time),
    "source_wait.p99_ns": ("Wait at the source, 99 %", time),
    "network.mean_ns": ("In the network, mean", time),
    "network.p50_ns": ("In the network, median", time),
    "network.p99_ns": ("In the network, 99 %", time),
    "network.p99_9_ns": ("In the network, 99.9 %", time),
    "network.max_ns": ("In the network, longest", time),
    "latency.mean_ns": ("Latency of a packet, mean", time),
    "latency.p99_ns": ("Latency of a packet, 99 %", time),
    "no_credit_ns": ("Waits for a credit", time),
    "no_channel_ns": ("Waits for a virtual channel", time),
    "lost_allocation_ns": ("Waits for other flits", time),
}
"""Totals by field of the report: what a table calls them and how it prints them."""
_HEADS = (
    "Flits",
    "Packets",
    "No credit",
    "No channel",
    "Lost allocation",
    "Mean flits held",
    "Most",
)
_WAITS = (
    "Waits are summed over flits. No credit: the buffer behind the link is full. No channel: all "
    "virtual channels of the link have a packet. Lost allocation: another flit was chosen."
)


def of(report: Report) -> Flits | None:
    """Flits of a run; `None` for networks without and for reports of older versions."""
    return report.get("flits")


def totals(flits: Flits) -> dict[str, Any]:
    """The totals by field."""
    return {field: _at(flits, field) for field in TOTALS}


def _at(flits: Flits, field: str) -> Any:  # noqa: ANN401 - a number or what holds it
    found: Any = flits
    for part in field.split("."):
        found = found[part]
    return found


def lines(report: Report) -> list[str]:
    """The totals in a few lines for a terminal; none without flits."""
    flits = of(report)
    if flits is None:
        return []
    wait, network = flits["source_wait"], flits["network"]
    found = [
        f"{number(flits['packets'])} packets, {_plain(flits['hops_mean'])} links each on average; "
        f"{number(flits['flits'])} flits on links",
        f"a packet waits {time(wait['mean_ns'])} at its source (99 %: {time(wait['p99_ns'])}) and "
        f"takes {time(network['mean_ns'])} (99 %: {time(network['p99_ns'])}) in the network",
    ]
    waited = flits["no_credit_ns"] + flits["no_channel_ns"] + flits["lost_allocation_ns"]
    if waited:
        parts = (
            share(flits["no_credit_ns"] / waited) + " for a credit",
            share(flits["no_channel_ns"] / waited) + " for a virtual channel",
            share(flits["lost_allocation_ns"] / waited) + " because others were chosen",
        )
        found.append(f"flits wait {time(waited)} in routers, all together: {', '.join(parts)}")
    else:
        found.append("no flit waits in a router")
    return found


def parts(report: Report) -> list[Part]:
    """Tables for a page; none without flits."""
    flits = of(report)
    if flits is None:
        return []
    rows = [(TOTALS[field][0], TOTALS[field][1](value)) for field, value in totals(flits).items()]
    rows += [
        ("Virtual channels of a class", number(flits["virtual_channels"])),
        ("Flits that each holds", number(flits["buffer"])),
    ]
    found: list[Part] = [Table("Flits", ["What", "Value"], rows)]
    if flits["links"]:
        found.append(_links(flits))
    return found


def _links(flits: Flits) -> Table:
    cells = []
    for link in flits["links"]:
        head = [link["name"], number(link["count"]), share(link["utilisation"])]
        cells.append([*head, *_channel(link)])
        for each in link["classes"]:
            cells.append([f"{link['name']}, class {each['number']}", "", "", *_channel(each)])
    return Table(
        "Links and what flits waited for", ["Link", "Links", "Sends", *_HEADS], cells, _WAITS
    )


def _channel(used: FlitLink | FlitClass) -> list[str]:
    return [
        number(used["flits"]),
        number(used["packets"]),
        time(used["no_credit_ns"]),
        time(used["no_channel_ns"]),
        time(used["lost_allocation_ns"]),
        _plain(used["occupancy_mean"]),
        number(used["occupancy_max"]),
    ]
