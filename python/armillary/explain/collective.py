"""Why a collective takes its time: the formula with its numbers, term by term, a lower bound, and
the bottleneck.

Model: the chain of what waited for what (`crates/executor/src/observe/chain.rs`), whose terms sum
to the mean duration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..estimate import bounds
from ..estimate.network_dimensions import NetworkDimension, dimensions
from ..report.page import Part, Section, Table
from ..report.plain_names import Named, words
from ..report.quantity import bandwidth, number, share, size, time
from ..schema import Collective, CollectiveTerms, Report
from ..units import GB, PS_PER_NS, counted
from . import charts
from .rows import TERMS, term, term_sum

_WAITS = tuple(TERMS[name] for name in ("contention_ns", "congestion_ns", "queue_ns"))
_NEGLIGIBLE = 5e-4
"""Smallest share that gets a sentence."""


@dataclass(frozen=True)
class TermLine:
    """One term: where, what, the formula with its numbers, and ns."""

    dim: str
    term: str
    formula: str
    ns: float


def sections(report: Report, row: Collective, suffix: str = "") -> list[Section]:
    """Sections that explain one row; `suffix` distinguishes the charts of several rows."""
    lines = terms(report, row)
    sentences = [_what(row), *_path(row), *_bottleneck(report, row), *_waits(row)]
    parts = [(f"{line.dim} {line.term}".strip(), line.ns) for line in lines]
    chart = (
        charts.sum_of(f"terms{suffix}", "Parts of the time", parts, "time")
        if row["mean_ns"]
        else None
    )
    named = [] if words(row["name"]) == row["name"] else [f"Its name is {row['name']}."]
    made: list[Part] = [*named, *sentences, *([chart] if chart else []), _table(row, lines)]
    return [Section(heading(row), made), Section("Lower bound", _bound(report, row))]


def data(report: Report, row: Collective) -> dict[str, Any]:
    """The same as numbers."""
    bound = bounds.collective(report, row)
    lines = [vars(line) for line in terms(report, row)]
    return {
        **row,
        "lines": lines,
        "remainder_ns": row["mean_ns"] - sum(line["ns"] for line in lines),
        "bottleneck": bottleneck(report, row),
        "bound": None if bound is None else {**vars(bound), "ns": bound.ns},
    }


def heading(row: Collective) -> str:
    """`all_reduce "grad*", 100 MB on 8 ranks: 28.02 ms`, in words where there are any."""
    where = f"{size(row['bytes'])} on {counted(row['ranks'], 'rank')}"
    said = Named(row["name"])
    what = f'{row["kind"]} "{said}"' if said == said.name else f"{row['kind']}, {said}"
    return f"{what}, {where}: {time(row['mean_ns'])}"


def terms(report: Report, row: Collective) -> list[TermLine]:
    """All terms that are not zero, by dimension, waits last; they sum to the mean duration."""
    network = dimensions(report)
    names = {phase["dim"]: phase["name"] for phase in row["phases"]}
    lines = []
    for found in row["terms"]:
        dim = network[found["dim"]] if network else None
        name = names.get(found["dim"]) or (dim.name if dim else f"dimension {found['dim'] + 1}")
        lines += [
            TermLine(name, TERMS[what], formula, ns)
            for what, formula, ns in _formulas(report, found, dim)
        ]
    waits = [
        ("waiting for the last member", row["late_ns"]),
        ("begun before the rank came", -row["ahead_ns"]),
    ]
    return lines + [TermLine("", what, "", ns) for what, ns in waits if ns]


def bottleneck(report: Report, row: Collective) -> str | None:
    """The dimension that most of the time is spent on, waits for others aside."""
    spent = _spent(report, row)
    return max(spent, key=lambda name: spent[name]) if spent else None


def _spent(report: Report, row: Collective) -> dict[str, float]:
    """Time by dimension without waits for others, ns."""
    spent: dict[str, float] = {}
    for line in terms(report, row):
        if line.dim and line.term not in _WAITS:
            spent[line.dim] = spent.get(line.dim, 0.0) + line.ns
    return spent


def _formulas(
    report: Report, found: CollectiveTerms, dim: NetworkDimension | None
) -> Iterator[tuple[str, str, float]]:
    """Term, formula, ns."""
    platform = report["config"]["platform"]
    messages = f"{found['messages']:,.4g} messages"
    for name in TERMS:
        ns = term(found, name)
        if not ns:
            continue
        formula = ""
        if name == "latency_ns" and dim and dim.latency_ns and found["messages"]:
            hops = ns / dim.latency_ns / found["messages"]
            formula = f"{messages} x {hops:.3g} hops x {time(dim.latency_ns)}"
        elif name == "transfer_ns" and dim and found["bytes"]:
            links = ns * dim.link / found["bytes"]
            times = f" x {links:.3g} links, one after the other" if links > 1 + 1e-6 else ""
            formula = f"{messages}, {size(found['bytes'])} in all, at {bandwidth(dim.link)}{times}"
        elif name == "port_ns" and dim:
            formula = (
                f"{size(ns * dim.link)} of the same collective first, at {bandwidth(dim.link)}"
            )
        elif name == "endpoint_ns" and platform["scheduler"]["endpoint_delay_ps"]:
            delay = platform["scheduler"]["endpoint_delay_ps"] / PS_PER_NS
            formula = f"{ns / delay:,.4g} x {time(delay)}"
        elif name == "reduction_ns" and platform["library"]:
            formula = "library overhead: start, steps, and bandwidth that it doesn't reach"
        elif name == "reduction_ns" and platform["npu"]["memory_bandwidth"]:
            rate = platform["npu"]["memory_bandwidth"] / GB
            formula = f"3 x {size(ns * rate / 3)} at {bandwidth(rate)}"
        yield name, formula, ns


def _what(row: Collective) -> str:
    chunks = "as one chunk" if row["chunks"] == 1 else f"in {number(row['chunks'])} chunks"
    phases = ", then ".join(
        f"{phase['kind']} on {phase['name']} ({phase['algorithm']}, {phase['sends']:,.4g} "
        f"messages, {size(phase['sent_bytes'])} sent by an NPU)"
        for phase in row["phases"]
    )
    way = f" It passes {chunks} through {phases}." if phases else ""
    many = (
        f"{counted(row['count'], 'time')} over all ranks"
        if row["count"] != row["ranks"]
        else "once on each rank"
    )
    longest = (
        f", {time(row['max_ns'])} at most" if row["max_ns"] > row["mean_ns"] * (1 + 1e-9) else ""
    )
    return f"It runs {many} and takes {time(row['mean_ns'])} on average{longest}.{way}"


def _path(row: Collective) -> Iterator[str]:
    """Sentences about the chain of causes."""
    if not row["terms"]:
        return
    messages = sum(found["messages"] for found in row["terms"])
    alpha, beta = (
        term_sum(row, "latency_ns", "endpoint_ns"),
        term_sum(row, "transfer_ns", "port_ns"),
    )
    whole = row["mean_ns"] or 1.0
    yield (
        f"{messages:,.4g} messages follow one another on its critical path. Latency and endpoint "
        f"delays cost {time(alpha)} ({share(alpha / whole)}), bytes over bandwidth {time(beta)} "
        f"({share(beta / whole)})."
    )


def _bottleneck(report: Report, row: Collective) -> Iterator[str]:
    slowest, spent = bottleneck(report, row), _spent(report, row)
    if slowest is None or len({phase["dim"] for phase in row["phases"]}) < 2:
        return
    rest = sum(spent.values()) - spent[slowest]
    chunks = counted(row["chunks"], "chunk")
    fill = (
        f" The other dimensions cost {time(rest)}: filling and draining the pipeline of {chunks}."
        if rest
        else ""
    )
    yield f"{slowest} is the bottleneck: {time(spent[slowest])} are spent there.{fill}"


def _waits(row: Collective) -> Iterator[str]:
    waited = term_sum(row, "contention_ns", "queue_ns")
    if waited > _NEGLIGIBLE * row["mean_ns"]:
        names = ", ".join(words(part["name"]) for part in row["behind"])
        behind = f", most of it behind {names}" if names else ""
        yield f"It waits {time(waited)} for other operations in queues and at links{behind}."
    if row["late_ns"] > _NEGLIGIBLE * row["mean_ns"]:
        yield f"On average, a rank waits {time(row['late_ns'])} for the last member."
    inside = term_sum(row, "congestion_ns")
    if inside > _NEGLIGIBLE * row["mean_ns"]:
        yield (
            f"Its messages wait {time(inside)} for links inside the network, behind those of "
            "other NPUs."
        )


def _table(row: Collective, lines: list[TermLine]) -> Table:
    whole = row["mean_ns"] or 1.0
    rows = [
        (line.dim, line.term, line.formula, _signed(line.ns), share(line.ns / whole))
        for line in lines
    ]
    left = row["mean_ns"] - sum(line.ns for line in lines)
    rows += (
        [("", "remainder", "", _signed(left), share(left / whole))]
        if abs(left) > 1e-6 * whole
        else []
    )
    rows.append(("", "sum", "", time(row["mean_ns"]), share(1.0)))
    return Table(
        "Parts of the time",
        ("Dimension", "Term", "Formula", "Time", "Share"),
        rows,
        labels=3,
    )


def _bound(report: Report, row: Collective) -> list[str]:
    bound = bounds.collective(report, row)
    if bound is None:
        return [
            "Not known: the network has no dimensions that collectives run over, a switch reduces, "
            "or the algorithm is from a file."
        ]
    said = (
        f"No algorithm on these ranks is faster than {time(bound.ns)}: {time(bound.bandwidth_ns)} "
        "for the bytes that "
        f"have to leave, {time(bound.latency_ns)} for the way to the farthest rank."
    )
    if row["mean_ns"] < bound.ns * (1 - 1e-9):
        return [
            said,
            f"The run is faster: the backend {report['config']['backend']} lets messages share "
            "all links but the first; --backend link does not.",
        ]
    return [
        said,
        f"It takes {row['mean_ns'] / bound.ns:.2f} times as long."
        if bound.ns
        else "It sends nothing.",
    ]


def _signed(ns: float) -> str:
    return f"-{time(-ns)}" if ns < 0 else time(ns)
