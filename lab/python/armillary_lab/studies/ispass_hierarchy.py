"""Packages of four with faster links inside, and the all-reduce that uses them (ISPASS 2020,
Fig. 11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from armillary.api import collective_row
from armillary.units import counted

from ..study import Study, StudyRow, claimed, drawn, evaluated, unreferenced
from .ispass_collectives import LARGE, SETUP, SIZES, lines, platform, size_of, time

if TYPE_CHECKING:
    from armillary.report.chart import Chart

WHERE = "section V-C; Fig. 11"
SYMMETRIC, ASYMMETRIC = "torus-4x4x4-symmetric", "torus-4x4x4"
BASELINE: dict[str, object] = {"collectives.hierarchy": "baseline"}
ENHANCED: dict[str, object] = {"collectives.hierarchy": "hierarchical_optimal"}
SYSTEMS = {
    "symmetric, baseline": (SYMMETRIC, BASELINE),
    "asymmetric, baseline": (ASYMMETRIC, BASELINE),
    "asymmetric, enhanced": (ASYMMETRIC, ENHANCED),
}
SMALL = SIZES[1]
"""Bytes from which the claims are checked: the paper prints no sizes."""
SIGNIFICANT = 0.25
"""Least relative gain that counts as significant: the paper prints none."""

DRAWN = "the figure prints no number"
FED = "only the local links are faster, and a third of the baseline's bytes take them"
LESS = "the local reduce-scatter leaves a quarter of the bytes for the rings between packages"
VOLUME = "bytes on the vertical rings, as counted: the local dimension has 4 NPUs"
GAIN = "what the paper does not print: more chunks keep all dimensions busy at the same time"
LATENCY = "what the paper does not print: long rounds hide how fast links are"


@cache
def between(system: str, backend: str) -> float:
    """Bytes of a large all-reduce on the vertical rings, in an unknown unit."""
    name, settings = SYSTEMS[system]
    row = collective_row("all_reduce", LARGE, platform(name, settings), backend=backend)
    return row.utilisation[1] * row.time_us


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Times and claims on each backend, then what the paper's open parameters do."""
    found = [row for backend in backends for row in (*_times(backend), *_claims(backend))]
    return [*found, *_sensitivity(backends[0])]


def _times(backend: str) -> Iterator[StudyRow]:
    for kind, systems in (("all_reduce", list(SYSTEMS)), ("all_to_all", list(SYSTEMS)[:2])):
        for system in systems:
            name, settings = SYSTEMS[system]
            what = system if kind == "all_reduce" else system.removesuffix(", baseline")
            for size in SIZES:
                setup = f"{kind.replace('_', '-')}, {what}, {size_of(size)}"
                took = time(kind, size, name, backend, settings)
                yield StudyRow(setup, backend, drawn("Fig. 11"), took, "us", DRAWN)


def gain(
    slow: str,
    fast: str,
    size: int,
    backend: str,
    more: dict[str, object] | None = None,
    kind: str = "all_reduce",
) -> float:
    """How many times faster one system is than another."""
    times = []
    for system in (slow, fast):
        name, settings = SYSTEMS[system]
        times.append(time(kind, size, name, backend, {**settings, **(more or {})}))
    return times[0] / times[1]


def _claims(backend: str) -> Iterator[StudyRow]:
    above = claimed(1.0, WHERE, ">", SIGNIFICANT)
    symmetric, baseline, enhanced = SYSTEMS
    for size in (SMALL, LARGE):
        at = size_of(size)
        found = gain(symmetric, baseline, size, backend)
        setup = f"all-reduce, symmetric over asymmetric at {at}"
        yield StudyRow(setup, backend, above, found, "x", FED)
        found = gain(symmetric, baseline, size, backend, kind="all_to_all")
        setup = f"all-to-all, symmetric over asymmetric at {at}"
        yield StudyRow(setup, backend, above, found, "x", FED)
        found = gain(baseline, enhanced, size, backend)
        setup = f"all-reduce, baseline over enhanced at {at}"
        yield StudyRow(setup, backend, above, found, "x", LESS)
    ratio = between(baseline, backend) / between(enhanced, backend)
    setup = "bytes between packages, baseline over enhanced"
    yield StudyRow(setup, backend, evaluated(4.0, "section V-C"), ratio, "x", VOLUME)


def _sensitivity(backend: str) -> Iterator[StudyRow]:
    symmetric, baseline, enhanced = SYSTEMS
    pairs = (
        ("symmetric over asymmetric", symmetric, baseline),
        ("baseline over enhanced", baseline, enhanced),
    )
    for what, slow, fast in pairs:
        for chunks in (1, 16, 64):
            found = gain(slow, fast, LARGE, backend, {"scheduler.chunks": chunks})
            setup = f"all-reduce, {counted(chunks, 'chunk')}, {what} at {size_of(LARGE)}"
            yield StudyRow(setup, backend, unreferenced(), found, "x", GAIN)
        for delay in ("1 us", "10 us"):
            more: dict[str, object] = {"scheduler.endpoint_delay": delay}
            found = gain(slow, fast, SMALL, backend, more)
            setup = f"all-reduce, endpoint delay {delay}, {what} at {size_of(SMALL)}"
            yield StudyRow(setup, backend, unreferenced(), found, "x", LATENCY)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 11: times over sizes, one chart for each collective."""
    found = []
    for kind in ("all-reduce", "all-to-all"):
        of = [row for row in rows if row.setup.startswith(kind)]
        found.append(lines(of, f"ispass-hierarchy-{kind}", f"{kind} on 4x4x4", "Fig. 11"))
    return found


STUDY = Study(
    SETUP + "Symmetric: 25 GB/s within packages, too. Baseline reduces everything in each of three "
    "dimensions, enhanced scatters within packages first.",
    rows,
    charts,
)
