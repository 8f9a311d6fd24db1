"""Changes of a platform that are tried to find what would help, each with the keys that it sets.
`workload_changes.py` has those of the workload.

Derivatives: 10 % more bandwidth or less latency of each dimension, faster compute and memory, less
endpoint delay. Choices: other algorithms, hierarchies, numbers of chunks. No change alters the work
or what NPUs hold, so none can fail to fit in memory. Not here: simulating them (`whatif.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from ..blocks import BLOCKS
from ..estimate.network_dimensions import dimensions
from ..estimate.report_detail import detail
from ..option_fields import spelled
from ..schema import Collective, CollectiveTerms, Report
from ..step_parts import PARTS
from ..units import GB, PPM, PS_PER_NS, TFLOP
from .rows import term

_MORE = 1.1
_LESS = 0.9
_HIERARCHIES = ("baseline", "enhanced", "hierarchical", "hierarchical_optimal")
_ALGORITHMS = ("ring", "bidirectional_ring", "direct", "halving_doubling")
_BY_PATHS = {"relayed": "ring", "direct": "direct", "switched": "halving_doubling"}
_FAR = ("direct", "halving_doubling")
"""Algorithms whose messages go to ranks that are not neighbours on a ring."""
_MESH = 3
"""In a ring of at most this number of NPUs, each NPU is a neighbour of every other."""
_MOVED = ("transfer_ns", "port_ns", "contention_ns", "congestion_ns", "queue_ns")
_DELAYED = ("latency_ns",)


@dataclass(frozen=True)
class Change:
    """One thing changed: what, the keys of the platform, and whether it is a derivative (by a
    tenth) or a choice.

    `reach_ns` is the time on the critical path that it affects: approximately the most that can be
    gained. Of the workload: its `options`, whether it `fits` an NPU's memory, and whether it
    `mends` a run that does not."""

    what: str
    settings: Mapping[str, str]
    derivative: bool
    reach_ns: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    fits: str | None = None
    mends: bool = False

    @property
    def kind(self) -> str:
        """The sort of change, in words."""
        if self.derivative:
            return "10 % more"
        return "option of the workload" if self.options else "another choice"

    @property
    def command(self) -> str:
        """The options as they stand on a command line; empty for a change of the platform."""
        words = (word for item in self.options.items() for word in spelled(*item))
        return " ".join(map(quote, words))

    @property
    def named(self) -> str:
        """The change, and the options that make it."""
        return f"{self.what} ({self.command})" if self.options else self.what

    @property
    def label(self) -> str:
        """The same, and what is to be known of its memory."""
        if self.fits == "near":
            return f"{self.named}, which may not fit"
        return f"{self.named}, which fits" if self.mends else self.named


def applying(report: Report, row: Collective | None = None) -> Iterator[Change]:
    """Possible changes of the platform; with `row`, only those that affect it."""
    used = (
        None
        if row is None
        else {phase["dim"] for phase in row["phases"]} | {t["dim"] for t in row["terms"]}
    )
    yield from _links(report, used)
    yield from _npu(report, row)
    yield from _removals(report)
    yield from _scheduler(report)
    yield from _collectives(report, row)


def likeliest(report: Report, most: int) -> list[Change]:
    """The changes that affect most of the critical path, half of them derivatives.

    The same for the same report. Where there are fewer of one sort, there are more of the other.
    """
    found = [change for change in applying(report) if change.reach_ns > 0]
    ranked = sorted(found, key=lambda change: -change.reach_ns)
    tenths = [change for change in ranked if change.derivative]
    choices = [change for change in ranked if not change.derivative]
    kept = tenths[: max((most + 1) // 2, most - len(choices))]
    return [*kept, *choices[: most - len(kept)]]


def impossible(report: Report) -> list[str]:
    """Choices that this network model can't judge, and why."""
    if report["config"]["backend"] != "analytical" or report["config"]["platform"]["library"]:
        return []
    rings = [dim.name for dim in dimensions(report) if dim.relays and dim.size > _MESH]
    if not rings or not any(row["phases"] for row in detail(report)["collectives"]):
        return []
    return [
        f"{' and '.join(_FAR)} on {', '.join(rings)}: their messages cross several links, which "
        "the analytical network does not count (--backend link does)"
    ]


def _links(report: Report, used: set[int] | None) -> Iterator[Change]:
    moved, delayed = _reach(report, _MOVED), _reach(report, _DELAYED)
    for at, dim in enumerate(dimensions(report)):
        if dim.size > 1 and (used is None or at in used):
            each = dim.link * _MORE / dim.parallel
            more = {f"links[{at}].bandwidth": f"{each:.9f} GB/s"}
            yield Change(f"10 % more bandwidth of {dim.name}", more, True, moved.get(at, 0.0))
            if dim.latency_ns:
                less = {f"links[{at}].latency": f"{dim.latency_ns * _LESS:.3f} ns"}
                yield Change(f"10 % less latency of {dim.name}", less, True, delayed.get(at, 0.0))


def _reach(report: Report, names: tuple[str, ...]) -> dict[int, float]:
    """Time on the critical path that collectives and messages spend on these terms, by dimension,
    ns."""
    found = detail(report)
    on_path = {
        (each["name"], each["kind"]): each["ns"] for each in found["critical_path"]["by_operation"]
    }
    sums: dict[int, float] = {}
    for row in found["collectives"]:
        share = on_path.pop((row["name"], row["kind"]), 0.0) / (row["mean_ns"] or 1.0)
        for terms in row["terms"]:
            spent = share * sum(_positive(terms, name) for name in names)
            sums[terms["dim"]] = sums.get(terms["dim"], 0.0) + spent
    return sums


def _positive(terms: CollectiveTerms, name: str) -> float:
    return max(term(terms, name), 0.0)


def _on_path(report: Report, *kinds: str) -> float:
    """Time on the critical path of operations of these kinds, ns."""
    parts = detail(report)["critical_path"]["by_kind"]
    return sum(part["ns"] for part in parts if part["name"] in kinds)


def _npu(report: Report, row: Collective | None) -> Iterator[Change]:
    npu = report["config"]["platform"]["npu"]
    computing = _on_path(report, "compute")
    if row is None:
        yield from _compute(npu, computing)
    if npu["memory_bandwidth"]:
        value = f"{npu['memory_bandwidth'] * _MORE / GB:.9f} GB/s"
        reach = (computing if npu.get("compute") == "roofline" else 0.0) + sum(
            _reach(report, ("reduction_ns",)).values()
        )
        reach += _on_path(report, "load", "store")
        yield Change("10 % faster memory", {"npu.memory.bandwidth": value}, True, reach)


def _compute(npu: Mapping[str, Any], reach: float) -> Iterator[Change]:
    """Higher peak rates, of all widths; where other models time kernels, kernels that take less."""
    settings = npu.get("compute_settings") or {}
    if npu.get("compute") == "roofline" and npu["peak_flops"]:
        rates = {
            f"npu.compute.peak_by_type.{width}": rate
            for width, rate in (settings.get("peak_by_type_flops") or {}).items()
        }
        given = {
            key: rate for key, rate in {"npu.peak": npu["peak_flops"], **rates}.items() if rate
        }
        faster = {key: f"{rate * _MORE / TFLOP:.12f} TFLOPS" for key, rate in given.items()}
        yield Change("10 % faster compute", faster, True, reach)
    elif reach:
        scale = settings.get("speedup_ppm", 10**6) / PPM
        yield Change(
            "10 % faster kernels", {"npu.compute.speedup": f"{scale * _MORE:.6f}"}, True, reach
        )


def _removals(report: Report) -> Iterator[Change]:
    """Changes that remove a part of the step, for each part that some rank has and a setting can
    remove."""
    for part in PARTS:
        setting = part.removed_by
        if setting and part.doing and any(each[part.field] for each in report["classes"]):  # type: ignore[literal-required]
            reach = _on_path(report, *part.doing.kinds)
            yield Change(setting.what, {setting.key: setting.value}, False, reach)


def _scheduler(report: Report) -> Iterator[Change]:
    scheduler = report["config"]["platform"]["scheduler"]
    if delay := scheduler["endpoint_delay_ps"]:
        reach = sum(_reach(report, ("endpoint_ns",)).values())
        less = {"scheduler.endpoint_delay": f"{delay * _LESS / PS_PER_NS:.3f} ns"}
        yield Change("10 % less endpoint delay", less, True, reach)
    kinds = {row["kind"] for row in detail(report)["collectives"] if row["kind"] != "send"}
    if not kinds or report["config"]["platform"]["library"]:
        return
    reach, chunks = _on_path(report, *kinds), scheduler["chunks"]
    for count in (2 * chunks, chunks // 2):
        if count:
            yield Change(
                f"{count} chunks instead of {chunks}",
                {"scheduler.chunks": str(count)},
                False,
                reach,
            )
    active = scheduler["active_chunks"]
    each = active if isinstance(active, list) else [active]
    if chunks > min(each):
        twice = [2 * count for count in each] if isinstance(active, list) else 2 * active
        more = {"scheduler.active_chunks": str(twice)}
        yield Change(f"{twice} active chunks instead of {active}", more, False, reach)


def _collectives(report: Report, row: Collective | None) -> Iterator[Change]:
    rows = [row] if row is not None else detail(report)["collectives"]
    kinds = {each["kind"]: each for each in reversed(rows) if each["phases"]}
    dims = {phase["dim"] for each in kinds.values() for phase in each["phases"]}
    chosen = report["config"]["platform"]["hierarchy"]
    if "all_reduce" in kinds and len(dims) > 1 and not report["config"]["platform"]["library"]:
        reach = _on_path(report, "all_reduce")
        for hierarchy in _HIERARCHIES:
            if hierarchy != chosen:
                what = f"hierarchy {hierarchy} instead of {chosen}"
                yield Change(what, {"collectives.hierarchy": hierarchy}, False, reach)
    for kind, each in kinds.items():
        yield from _algorithms(report, kind, each)


def _algorithms(report: Report, kind: str, row: Collective) -> Iterator[Change]:
    """Each dimension's algorithm exchanged for the others; none from a file, of a library or of a
    flat group."""
    network = dimensions(report)
    choice = report["config"]["platform"]["collectives"][kind]
    if not network or choice["flat"] or choice["custom"] or report["config"]["platform"]["library"]:
        return
    now = {
        phase["dim"]: phase["algorithm"].replace("-", "_").replace(" ", "_")
        for phase in row["phases"]
    }
    words = choice["algorithms"] or [
        now.get(at, _BY_PATHS[BLOCKS[dim.block].paths]) for at, dim in enumerate(network)
    ]
    words = [*words, *words[-1:] * (len(network) - len(words))]
    judged = report["config"]["backend"] != "analytical"
    for at in sorted(now):
        far = not judged and network[at].relays and network[at].size > _MESH
        for word in _ALGORITHMS:
            pointless = word == "bidirectional_ring" and not network[at].relays
            if word not in (now[at], words[at]) and not (far and word in _FAR) and not pointless:
                listed = ", ".join([*words[:at], word, *words[at + 1 :]])
                what = f"{word} instead of {words[at]} for {kind} on {network[at].name}"
                yield Change(
                    what, {f"collectives.{kind}": f"[{listed}]"}, False, _on_path(report, kind)
                )
