"""Counts of packets in a run: round trips, ports, connections.

Not here: the links of a run (`breakdown.py`, `run_network.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..schema import Packets, Report
from ..units import counted
from .parts import Part, Table
from .quantity import bandwidth, number, share, size, time

TOTALS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "data": ("Packets with data", number),
    "acknowledgements": ("Acknowledgements", number),
    "hops": ("Links crossed", number),
    "link_utilisation": ("Mean link sends", share),
    "drops": ("Dropped", number),
    "marks": ("Marked", number),
    "pauses": ("Pauses", number),
    "retransmits": ("Sent again", number),
    "fast_recoveries": ("Fast recoveries", number),
    "timeouts": ("Timeouts", number),
    "queue_max_bytes": ("Longest queue", size),
    "rtt_mean_ns": ("Round trip, mean", time),
    "rtt_p50_ns": ("Round trip, median", time),
    "rtt_p99_ns": ("Round trip, 99 %", time),
    "rtt_sampled_mean_ns": ("Round trip each millisecond, mean of connections", time),
    "rtt_sampled_p50_ns": ("Round trip each millisecond, median of connections", time),
    "rtt_sampled_p99_ns": ("Round trip each millisecond, 99 % of connections", time),
    "skipped_ns": ("Skipped", time),
    "skip_error_ns": ("Error of skipping, about", time),
}
"""Totals by field of the report: what a table calls them and how it prints them."""
_SAMPLED = {"rtt_sampled_mean_ns", "rtt_sampled_p50_ns", "rtt_sampled_p99_ns"}
_RARE = {"marks", "pauses", "skipped_ns", "skip_error_ns"} | _SAMPLED
"""Left out where there are none."""


def of(report: Report) -> Packets | None:
    """Packets of a run; `None` for networks without and for reports of older versions."""
    return report.get("packets")


def totals(packets: Packets) -> dict[str, Any]:
    """The totals by field, those of rare things only where there are any."""
    values = cast(Mapping[str, Any], packets)
    return {field: values[field] for field in TOTALS if values[field] or field not in _RARE}


def lines(report: Report) -> list[str]:
    """The totals in a few lines for a terminal; none without packets."""
    packets = of(report)
    if packets is None:
        return []
    shown = {field: TOTALS[field][1](value) for field, value in totals(packets).items()}
    found = [
        f"{shown['data']} packets with data, {shown['acknowledgements']} acknowledgements, "
        f"{shown['hops']} links crossed; the mean link sends {shown['link_utilisation']} of the "
        "step",
        f"{shown['drops']} dropped, {shown['retransmits']} sent again, "
        f"{shown['fast_recoveries']} fast recoveries, {shown['timeouts']} timeouts"
        + "".join(
            f", {shown[field]} {word}"
            for field, word in (("marks", "marked"), ("pauses", "pauses"))
            if field in shown
        ),
        f"longest queue of a switch {shown['queue_max_bytes']}; round trip "
        f"{shown['rtt_mean_ns']} (mean), {shown['rtt_p50_ns']} (median), "
        f"{shown['rtt_p99_ns']} (99 %)",
    ]
    if packets["skips"]:
        found.append(
            f"{counted(packets['skips'], 'steady state')} skipped, {shown['skipped_ns']} in all; "
            f"error about {time(packets['skip_error_ns'])}"
        )
    elif _skips(report):
        found.append("no steady state was skipped: no rates settled for long enough")
    return found


def _skips(report: Report) -> bool:
    """Whether the run was to skip steady states."""
    network = report["config"]["platform"].get("network") or {}
    return bool((network.get("packet") or {}).get("skip_ppm"))


def parts(report: Report) -> list[Part]:
    """Tables for a page; none without packets."""
    packets = of(report)
    if packets is None:
        return []
    rows = [(TOTALS[field][0], TOTALS[field][1](value)) for field, value in totals(packets).items()]
    found: list[Part] = [Table("Packets", ["What", "Value"], rows)]
    if packets["ports"]:
        found.append(_ports(packets))
    if packets["connections"]:
        found.append(_connections(packets))
    return found


def _ports(packets: Packets) -> Table:
    heads = [
        "Port",
        "Dropped",
        "Marked",
        "Median queue",
        "99 %",
        "Longest queue",
        "Pauses",
        "Paused",
    ]
    cells = [
        [
            port["name"],
            number(port["drops"]),
            number(port["marks"]),
            size(port["queue_p50_bytes"]),
            size(port["queue_p99_bytes"]),
            size(port["queue_max_bytes"]),
            number(port["pauses"]),
            time(port["paused_ns"]),
        ]
        for port in packets["ports"]
    ]
    return Table("Ports", heads, cells, "Those that dropped most, then those with long queues.")


def _connections(packets: Packets) -> Table:
    heads = [
        "Connection",
        "Carried",
        "Goodput",
        "Sent again",
        "Fast recoveries",
        "Timeouts",
        "Mean round trip",
        "Median",
        "99 %",
        "Longest",
        "Each ms, mean",
    ]
    cells = [
        [
            f"{each['source']} -> {each['destination']}",
            size(each["bytes"]),
            bandwidth(each["goodput_gb_per_s"]),
            number(each["retransmits"]),
            number(each["fast_recoveries"]),
            number(each["timeouts"]),
            time(each["rtt_mean_ns"]),
            time(each["rtt_p50_ns"]),
            time(each["rtt_p99_ns"]),
            time(each["rtt_max_ns"]),
            "" if each["rtt_sampled_mean_ns"] is None else time(each["rtt_sampled_mean_ns"]),
        ]
        for each in packets["connections"]
    ]
    left = packets["connection_count"] - len(cells)
    note = f"and {number(left)} more, with fewer losses" if left else ""
    return Table("Connections", heads, cells, note)
