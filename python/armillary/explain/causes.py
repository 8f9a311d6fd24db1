"""Why an operation takes another time in another run: the cause, from the terms that both runs recorded.

A term of a collective or send that changes has one cause. Waits are contention. Latencies, endpoint delays and bytes
over bandwidth are the platform's where its numbers differ and nothing else does; the algorithm's where messages,
chunks or phases differ; the network model's where that is another. What no term explains is the schedule: the
operation is as long, and more or less of it, or of other ranks' waiting, is on the critical path. Waits for
launches are a cause of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..schema import Collective, PathOperation, Report
from .network import Dimension, dimensions
from .rows import LAUNCH, detail, pattern, term_sum

_WAITS = ("contention_ns", "congestion_ns", "queue_ns")
_BYTES = ("transfer_ns", "port_ns")
_LATENCY = ("latency_ns", "endpoint_ns")
_HALF_PS = 5e-4
CAUSES = {
    "contention": "waits for links and queues",
    "latency": "latency of links and endpoints",
    "bandwidth": "bandwidth of links",
    "algorithm": "another algorithm, hierarchy or chunks",
    "network model": "another network model",
    "work": "different work",
    "reduction": "reducing at another speed",
    "compute": "computing at another speed",
    "memory": "memory at another speed",
    "launches": "more or less waiting for hosts to launch kernels, collectives and sends",
    "schedule": "as long, but more or less of it is waited for",
}
"""Causes and what they mean."""

Key = tuple[str, str]
"""Name with a star for each number, and kind, of an operation."""


@dataclass(frozen=True)
class Run:
    """One run as comparing needs it."""

    report: Report
    path: dict[Key, PathOperation]
    rows: dict[Key, Collective]
    durations: dict[Key, tuple[int, float, float]]
    """Count, mean duration in ns and bytes of one, over all ranks."""


def run(report: Report, what: str) -> Run:
    """Looks a report up. Raises `InputError` when it has no detail."""
    found = detail(report, what)
    path = {(each["name"], each["kind"]): each for each in found["critical_path"]["by_operation"]}
    rows: dict[Key, Collective] = {}
    for row in found["collectives"]:
        rows.setdefault((row["name"], row["kind"]), row)
    return Run(report, path, rows, _durations(report))


def _durations(report: Report) -> dict[Key, tuple[int, float, float]]:
    sums: dict[Key, tuple[int, float, float]] = {}
    for each in report["operations"]:
        key = (pattern(each["name"]), each["kind"])
        count, total, moved = sums.get(key, (0, 0.0, 0.0))
        sums[key] = (count + each["count"], total + each["total_ns"], moved + each["bytes"])
    return {key: (count, total / max(count, 1), moved / max(count, 1)) for key, (count, total, moved) in sums.items()}


def split(a: Run, b: Run, key: Key) -> dict[str, float]:
    """The change of an operation's time on the critical path, by cause, ns; it sums to the change."""
    before, after = a.path.get(key), b.path.get(key)
    delta = (after["ns"] if after else 0.0) - (before["ns"] if before else 0.0)
    if key[1] == LAUNCH:
        return {"launches": delta}
    if before is None or after is None:
        there = key in (a.durations if before is None else b.durations)
        return {"schedule" if there else "work": delta}
    times = min(before["count"], after["count"])
    found: dict[str, float] = {}
    for cause, ns in _each(a, b, key):
        found[cause] = found.get(cause, 0.0) + ns * times
    rest = delta - sum(found.values())
    if abs(rest) > 1e-9 * max(abs(delta), before["ns"]):
        found["schedule"] = found.get("schedule", 0.0) + rest
    return _small(found, delta)


def _small(found: dict[str, float], delta: float) -> dict[str, float]:
    """Without what rounding left, which goes to the largest."""
    kept = {cause: ns for cause, ns in found.items() if abs(ns) > max(1e-9 * abs(delta), _HALF_PS)}
    return kept or ({"schedule": delta} if delta else {})


def _each(a: Run, b: Run, key: Key) -> Iterator[tuple[str, float]]:
    """Changes of the mean operation, by cause."""
    one, other = _row(a, key), _row(b, key)
    if one is not None and other is not None:
        yield from _terms(a, b, one, other)
    elif key in a.durations and key in b.durations:
        (_, before, moved), (_, after, moves) = a.durations[key], b.durations[key]
        kind = {"load": "memory", "store": "memory", "recv": "schedule"}.get(key[1], "compute")
        yield ("work" if moved != moves else kind), after - before


def _row(found: Run, key: Key) -> Collective | None:
    """The row of an operation; of a receive that of a send of as many bytes, the message it waits for."""
    if key[1] != "recv":
        return found.rows.get(key)
    moved = found.durations.get(key, (0, 0.0, -1.0))[2]
    return next((row for row in found.rows.values() if row["kind"] == "send" and row["bytes"] == moved), None)


def _terms(a: Run, b: Run, one: Collective, other: Collective) -> Iterator[tuple[str, float]]:
    def change(*names: str) -> float:
        return term_sum(other, *names) - term_sum(one, *names)

    structural = _structural(a, b, one, other)
    yield "contention", change(*_WAITS)
    yield structural or "reduction", change("reduction_ns")
    yield structural or "algorithm", change("algorithm_ns")
    yield structural or _platform(a, b, one, "latency"), change(*_LATENCY)
    yield structural or _platform(a, b, one, "bandwidth"), change(*_BYTES)


def _structural(a: Run, b: Run, one: Collective, other: Collective) -> str | None:
    """What makes terms differ whatever the links: other work, algorithm or network model; None when nothing does."""
    if (one["bytes"], one["ranks"]) != (other["bytes"], other["ranks"]):
        return "work"
    if one["chunks"] != other["chunks"] or _how(one) != _how(other):
        return "algorithm"
    if a.report["config"]["backend"] != b.report["config"]["backend"]:
        return "network model"
    return None


def _how(row: Collective) -> list[tuple[int, str, str, int, float]]:
    return [(p["dim"], p["kind"], p["algorithm"], p["ranks"], p["sent_bytes"]) for p in row["phases"]]


def _platform(a: Run, b: Run, row: Collective, cause: str) -> str:
    """`cause` when the numbers of the links or endpoints that a row uses differ; else where the chain goes differs."""
    used = {terms["dim"] for terms in row["terms"]}
    before, after = _numbers(a.report, used, cause), _numbers(b.report, used, cause)
    return cause if before != after else "schedule"


def _numbers(report: Report, used: set[int], cause: str) -> list[Any]:
    network = dimensions(report)
    fabric = report["config"]["platform"]["fabric"]
    if not network:
        return [fabric]

    def of(dim: Dimension) -> float:
        return dim.latency_ns if cause == "latency" else dim.link

    delay = report["config"]["platform"]["scheduler"]["endpoint_delay_ps"] if cause == "latency" else None
    return [delay, *(of(dim) for at, dim in enumerate(network) if at in used)]
