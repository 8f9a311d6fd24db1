"""Why an operation takes another time in another run: the cause, from the terms that both runs
recorded.

A term of a collective or send that changes has one cause:

- Waits are contention.
- Latencies, endpoint delays and bytes over bandwidth: the platform's numbers, if only they differ;
  the algorithm, if messages, chunks or phases differ; the network model, if the runs use different
  ones.
- What a communication library adds to its messages: the library.

A computation that does more operations, moves more bytes, or takes another time on an equal NPU is
other work. Where the NPUs differ, the ratio of operations is other work and the rest is speed. More
operations on each rank are other work, too. Waits for launches are a cause of their own. All the
rest is the schedule: the operation is equally long, but another part of it, or of waits for other
ranks, is on the critical path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..estimate.network_dimensions import NetworkDimension, dimensions
from ..estimate.report_detail import detail
from ..schema import Collective, PathOperation, Report
from .rows import LAUNCH, pattern, require_choices, term_sum

_WAITS = ("contention_ns", "congestion_ns", "queue_ns")
_BYTES = ("transfer_ns", "port_ns")
_LATENCY = ("latency_ns", "endpoint_ns")
_HALF_PS = 5e-4
LISTED = 1000
"""Operations that a report lists at most."""
CAUSES = {
    "contention": "waits for links and queues",
    "latency": "latency of links and endpoints",
    "bandwidth": "bandwidth of links",
    "algorithm": "another algorithm, hierarchy or chunks",
    "library": (
        "overhead of the communication library: starts, steps, bandwidth that it does not reach"
    ),
    "network model": "another network model",
    "work": "more or fewer operations, other sizes, shapes or recorded times",
    "reduction": "reducing what was received, at another speed",
    "compute": "the same computations at another speed",
    "overlap": "the same computations, slowed down more or less by what runs at the same time",
    "memory": "memory at another speed",
    "launches": "more or less waiting for hosts to launch kernels, collectives and sends",
    "schedule": "equally long, but more or less of it is waited for",
}
"""Causes and what they mean."""

Key = tuple[str, str]
"""Name with a star for each number, and kind, of an operation."""


_SPEED = ("compute", "compute_settings", "peak_flops", "memory_bandwidth", "memory_latency_ps")
"""Keys of an NPU that determine how fast it computes and reaches its memory."""


@dataclass(frozen=True)
class OperationWork:
    """Operations of one key: how many over all ranks, and of the mean one its duration in ns,
    operations and bytes."""

    count: int
    ns: float
    flops: float
    bytes: float


@dataclass(frozen=True)
class ComparedRun:
    """A run, prepared for comparison."""

    report: Report
    path: dict[Key, PathOperation]
    rows: dict[Key, Collective]
    work: dict[Key, OperationWork]
    """All operations, on the critical path or not."""

    def on_each(self, key: Key) -> float:
        """How many of them the mean rank has."""
        return self.work[key].count / self.report["ranks"] if key in self.work else 0.0


@dataclass(frozen=True)
class Move:
    """How much of the difference one operation makes, ns, and why."""

    name: str
    kind: str
    a_ns: float
    b_ns: float
    causes: Mapping[str, float]

    @property
    def delta_ns(self) -> float:
        """The change."""
        return self.b_ns - self.a_ns

    def as_dict(self) -> dict[str, Any]:
        """The cause as data for JSON."""
        return {**vars(self), "causes": dict(self.causes), "delta_ns": self.delta_ns}


def run(report: Report, what: str) -> ComparedRun:
    """Looks a report up. Raises `InputError` when it has no detail."""
    found = detail(report, what)
    require_choices(report, what)
    path = {(each["name"], each["kind"]): each for each in found["critical_path"]["by_operation"]}
    rows: dict[Key, Collective] = {}
    for row in found["collectives"]:
        rows.setdefault((row["name"], row["kind"]), row)
    return ComparedRun(report, path, rows, _work(report))


def _work(report: Report) -> dict[Key, OperationWork]:
    sums: dict[Key, list[float]] = {}
    for each in report["operations"]:
        total = sums.setdefault((pattern(each["name"]), each["kind"]), [0, 0.0, 0, 0])
        moved = each["bytes"] + each["compute_bytes"]
        for at, value in enumerate((each["count"], each["total_ns"], each["flops"], moved)):
            total[at] += value
    return {
        key: OperationWork(int(count), *(part / max(count, 1) for part in (ns, flops, moved)))
        for key, (count, ns, flops, moved) in sums.items()
    }


def split(a: ComparedRun, b: ComparedRun, key: Key) -> dict[str, float]:
    """The change of an operation's time on the critical path, by cause, ns; it sums to the
    change."""
    before, after = a.path.get(key), b.path.get(key)
    delta = (after["ns"] if after else 0.0) - (before["ns"] if before else 0.0)
    if key[1] == LAUNCH:
        return {"launches": delta}
    if before is None or after is None:
        there = key in (a.work if before is None else b.work)
        return {"schedule" if there else "work": delta}
    times = min(before["count"], after["count"])
    found: dict[str, float] = {}
    for cause, ns in _each(a, b, key):
        found[cause] = found.get(cause, 0.0) + ns * times
    found["work"] = found.get("work", 0.0) + _more(a, b, key)
    rest = delta - sum(found.values())
    if abs(rest) > 1e-9 * max(abs(delta), before["ns"]):
        found["schedule"] = found.get("schedule", 0.0) + rest
    return _small(found, delta)


def _more(a: ComparedRun, b: ComparedRun, key: Key) -> float:
    """The part of the change that comes from more or fewer operations on each rank, as far as they
    are on the critical path."""
    one, two = a.path[key], b.path[key]
    before, after = a.on_each(key), b.on_each(key)
    if not before or not after or before == after:
        return 0.0
    more = two["count"] - one["count"]
    expected = one["count"] * (after / before - 1)
    if more * expected <= 0:
        return 0.0
    longer = two if more > 0 else one
    return min(abs(more), abs(expected)) * (1 if more > 0 else -1) * longer["ns"] / longer["count"]


def _small(found: dict[str, float], delta: float) -> dict[str, float]:
    """The causes without rounding errors, which are added to the largest."""
    kept = {cause: ns for cause, ns in found.items() if abs(ns) > max(1e-9 * abs(delta), _HALF_PS)}
    return kept or ({"schedule": delta} if delta else {})


def _each(a: ComparedRun, b: ComparedRun, key: Key) -> Iterator[tuple[str, float]]:
    """Changes of the mean operation, by cause."""
    one, other = _row(a, key), _row(b, key)
    if one is not None and other is not None:
        yield from _terms(a, b, one, other)
    elif key in a.work and key in b.work and key[1] in _OWN:
        yield from _computed(a, b, key)


_OWN = ("compute", "host", "load", "store")
"""Kinds of operations that wait for nothing once they run: their time on the critical path is their
duration."""


def _computed(a: ComparedRun, b: ComparedRun, key: Key) -> Iterator[tuple[str, float]]:
    """Splits the change of an operation of one rank into other work and another speed."""
    one, other = a.work[key], b.work[key]
    faster = _speed(a.report) != _speed(b.report)
    same = (one.flops, one.bytes) == (other.flops, other.bytes)
    if faster:
        alike = one.ns * (1.0 if same else _ratio(one, other))
        yield "work", alike - one.ns
        yield _pace(key), other.ns - alike
    else:
        overlapped = same and (_shares(a.report) or _shares(b.report))
        yield "overlap" if overlapped else "work", other.ns - one.ns


def _pace(key: Key) -> str:
    return "memory" if key[1] in ("load", "store") else "compute"


def _ratio(one: OperationWork, other: OperationWork) -> float:
    """The ratio of their work: in operations, or in bytes where operations are not counted."""
    if one.flops and other.flops:
        return other.flops / one.flops
    return other.bytes / one.bytes if one.bytes else 1.0


def _speed(report: Report) -> list[Any]:
    npu = report["config"]["platform"]["npu"]
    return [npu.get(key) for key in _SPEED]


def _shares(report: Report) -> bool:
    """Whether computing takes longer while something else goes on."""
    npu = report["config"]["platform"]["npu"]
    settings = npu.get("compute_settings") or {}
    return bool(npu.get("memory_contention")) or settings.get("comm_overlap_slowdown_ppm", 0) != 0


def _row(found: ComparedRun, key: Key) -> Collective | None:
    """The row of an operation; for a receive, the row of a send of the same number of bytes, which
    it waits for."""
    if key[1] != "recv":
        return found.rows.get(key)
    moved = found.work[key].bytes if key in found.work else -1.0
    return next(
        (row for row in found.rows.values() if row["kind"] == "send" and row["bytes"] == moved),
        None,
    )


def _terms(
    a: ComparedRun, b: ComparedRun, one: Collective, other: Collective
) -> Iterator[tuple[str, float]]:
    def change(*names: str) -> float:
        return term_sum(other, *names) - term_sum(one, *names)

    structural = _structural(a, b, one, other)
    yield "contention", change(*_WAITS)
    library = a.report["config"]["platform"]["library"] or b.report["config"]["platform"]["library"]
    yield structural or ("library" if library else "reduction"), change("reduction_ns")
    yield structural or "algorithm", change("algorithm_ns")
    yield structural or _platform(a, b, one, "latency"), change(*_LATENCY)
    yield structural or _platform(a, b, one, "bandwidth"), change(*_BYTES)


def _structural(a: ComparedRun, b: ComparedRun, one: Collective, other: Collective) -> str | None:
    """The cause by which terms differ on any links: other work, algorithm or network model; None
    without one."""
    if (one["bytes"], one["ranks"]) != (other["bytes"], other["ranks"]):
        return "work"
    if one["chunks"] != other["chunks"] or _how(one) != _how(other):
        return "algorithm"
    if a.report["config"]["backend"] != b.report["config"]["backend"]:
        return "network model"
    return None


def _how(row: Collective) -> list[tuple[int, str, str, int, float]]:
    return [
        (p["dim"], p["kind"], p["algorithm"], p["ranks"], p["sent_bytes"]) for p in row["phases"]
    ]


def _platform(a: ComparedRun, b: ComparedRun, row: Collective, cause: str) -> str:
    """`cause` when the numbers of the links or endpoints that a row uses differ; else where the
    chain goes differs."""
    used = {terms["dim"] for terms in row["terms"]}
    before, after = _numbers(a.report, used, cause), _numbers(b.report, used, cause)
    return cause if before != after else "schedule"


def _numbers(report: Report, used: set[int], cause: str) -> list[Any]:
    network = dimensions(report)
    fabric = report["config"]["platform"]["fabric"]
    if not network:
        return [fabric]

    def of(dim: NetworkDimension) -> float:
        return dim.latency_ns if cause == "latency" else dim.link

    delay = (
        report["config"]["platform"]["scheduler"]["endpoint_delay_ps"]
        if cause == "latency"
        else None
    )
    return [delay, *(of(dim) for at, dim in enumerate(network) if at in used)]
