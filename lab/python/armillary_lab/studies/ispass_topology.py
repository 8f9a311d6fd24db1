"""Eight packages around switches and in a ring: all-to-all and all-reduce (ISPASS 2020, Fig. 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from armillary.api import collective_us
from armillary.platform import Platform
from armillary.units import counted

from ..study import Study, StudyRow, claimed, drawn, evaluated, unreferenced
from .ispass_collectives import LARGE, MARGIN, SETUP, SIZES, SMALL, lines, size_of, time

if TYPE_CHECKING:
    from armillary.report.chart import Chart

SWITCHES, RING = "alltoall-1x8", "torus-1x8x1"
WHERE = "section V-A; Fig. 9"
LINKS = 8 / 7
"""Links of an NPU in use on the ring over those around seven switches."""

DRAWN = "the figure prints no number"
PASSED_ON = (
    "a message between peers takes one link around the switches and 4 on average on the ring, "
    "where chunks run one way round: 28 blocks pass each NPU, and 7 of them are its own"
)
SHRINKS = (
    "small all-to-alls wait for 28 steps one after the other on the ring and for one on the "
    "switches; in large ones only bytes count"
)
EIGHT = "both are optimal in bytes; 8 of 8 links against 7 of 8, so 8/7 is the limit"
STEPS = (
    "the ring has 14 steps, the switches 2. The paper doesn't say from which size on the ring wins"
)
CHUNKS = (
    "what the paper does not print: a single chunk runs one way round and uses half of the links;"
    " many small ones wait for their steps"
)
GLOBAL = (
    "7 global switches as one switch with 7 links for each NPU, two links from NPU to NPU instead "
    "of one link for each peer"
)
HARDWARE = (
    "Table III has hardware routing: routers pass messages on, so the steps of the ring's "
    "all-to-all no longer wait for NPUs"
)
APART = (
    "a chunk then has one ring: 4 chunks leave half of the 8 one-way rings idle, 8 or more fill "
    "them as links of their sum do"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Times and claims on each backend, then what the paper's open parameters do."""
    found = [row for backend in backends for row in (*_times(backend), *_claims(backend))]
    found += _sensitivity(backends[0])
    return [*found, *_separate()] if "link" in backends else found


def _times(backend: str) -> Iterator[StudyRow]:
    for kind in ("all_to_all", "all_reduce"):
        for name in (SWITCHES, RING):
            for size in SIZES:
                what = f"{kind.replace('_', '-')} on {name}, {size_of(size)}"
                yield StudyRow(
                    what, backend, drawn("Fig. 9"), time(kind, size, name, backend), "us", DRAWN
                )


def slower(kind: str, size: int, backend: str, settings: dict[str, object] | None = None) -> float:
    """Time on the ring over that around switches."""
    ring = time(kind, size, RING, backend, settings)
    return ring / time(kind, size, SWITCHES, backend, settings)


def _claims(backend: str) -> Iterator[StudyRow]:
    above = claimed(1.0, WHERE, ">", MARGIN)
    for size in SIZES:
        setup = f"all-to-all, ring over switches at {size_of(size)}"
        yield StudyRow(setup, backend, above, slower("all_to_all", size, backend), "x", PASSED_ON)
    gap = slower("all_to_all", SMALL, backend) / slower("all_to_all", LARGE, backend)
    ends = f"{size_of(SMALL)} over {size_of(LARGE)}"
    yield StudyRow(f"all-to-all, that ratio at {ends}", backend, above, gap, "x", SHRINKS)
    gain = 1 / slower("all_reduce", LARGE, backend)
    setup = f"all-reduce, switches over ring at {size_of(LARGE)}"
    yield StudyRow(setup, backend, above, gain, "x", EIGHT)
    limit = evaluated(LINKS, WHERE)
    yield StudyRow(f"{setup}, and the ratio of links", backend, limit, gain, "x", EIGHT)
    small = 1 / slower("all_reduce", SMALL, backend)
    setup = f"all-reduce, switches over ring at {size_of(SMALL)}"
    yield StudyRow(setup, backend, drawn("Fig. 9"), small, "x", STEPS)


def _sensitivity(backend: str) -> Iterator[StudyRow]:
    none = unreferenced()
    for chunks in (1, 4, 16, 64):
        for size in (SMALL, SIZES[1], LARGE):
            gain = 1 / slower("all_reduce", size, backend, {"scheduler.chunks": chunks})
            setup = f"all-reduce, {counted(chunks, 'chunk')}, switches over ring at {size_of(size)}"
            yield StudyRow(setup, backend, none, gain, "x", CHUNKS)
    switch = {"topology": "Switch(8)"}
    for size in (SMALL, LARGE):
        ring = time("all_reduce", size, RING, backend)
        gain = time("all_reduce", size, SWITCHES, backend, switch) / ring
        setup = f"all-reduce, one switch with 7 links over ring at {size_of(size)}"
        yield StudyRow(setup, backend, none, gain, "x", GLOBAL)
        hardware = {"collectives.all_to_all": "direct"}
        routed = time("all_to_all", size, RING, backend, hardware)
        ratio = routed / time("all_to_all", size, SWITCHES, backend)
        setup = f"all-to-all, hardware routing, ring over switches at {size_of(size)}"
        yield StudyRow(setup, backend, none, ratio, "x", HARDWARE)


def separate(kind: str, size: int, chunks: int, rings: int = 4) -> float:
    """Time on the ring, us, where each ring of either way is a link of its own: messages take the
    links to a neighbour in turn, and each has a queue."""
    links = ", ".join(
        f"{{between: [npu{npu}, npu{(npu + 1) % 8}], count: {rings}, bandwidth: 23.5 GB/s, "
        "latency: 200 ns}"
        for npu in range(8)
    )
    queues = 2 * rings
    apart = Platform.parse(
        f"graph: {{npus: 8, links: [{links}]}}\n"
        "logical: [8]\n"
        "network: {routing: spray}\n"
        "collectives: {all_reduce: ring, all_to_all: ring}\n"
        f"scheduler: {{policy: lifo, queues_per_dim: {queues}, active_chunks: {4 * queues}, "
        f"chunks: {chunks}, endpoint_delay: 10 ns}}\n"
    )
    return collective_us(kind, size, apart, backend="link")


def _separate() -> Iterator[StudyRow]:
    around = time("all_reduce", LARGE, SWITCHES, "link")
    for chunks in (4, 8, 16):
        gain = around / separate("all_reduce", LARGE, chunks)
        setup = (
            f"all-reduce, {chunks} chunks, each ring its own links, switches over ring at "
            f"{size_of(LARGE)}"
        )
        yield StudyRow(setup, "link", unreferenced(), gain, "x", APART)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 9: times over sizes, one chart for each collective."""
    found = []
    for kind in ("all-to-all", "all-reduce"):
        of = [row for row in rows if row.setup.startswith(f"{kind} on ")]
        found.append(lines(of, f"ispass-topology-{kind}", f"{kind} of eight packages", "Fig. 9"))
    return found


STUDY = Study(
    SETUP + "1x8 has 7 of an NPU's 8 links in use, one to each peer; 1x8x1 has four to each "
    "neighbour.",
    rows,
    charts,
)
