"""DLRM's raw and exposed communication by layer (HOTI 2020, Figs. 11 and 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from armillary.units import NS_PER_MS

from ..study import Study, StudyRow, claimed, drawn
from .hoti import FLAT, SETUP, SYSTEMS, by_layer

if TYPE_CHECKING:
    from armillary.report.chart import Chart

BACKEND = "analytical"
MARGIN = 0.1
TOP, REDUCED, RETURNED = "top", "weight_gradient", "input_gradient"
Times = dict[tuple[str, str], tuple[float, float, float]]
"""Computation, raw and exposed communication, ms, by layer and pass."""

DRAWN = "the figures draw bars for each layer and print no number"
FIRST = "the first reduction that is issued, and the smallest"
LIFO = (
    "LIFO lets a later layer pass those that still wait. Those that are issued first go first as "
    "well, because 64 chunks are under way at once, and the paper has more chunks"
)
BACKWARD = "chunks of reductions are under way when the gradients of embeddings are exchanged"
FLATTEST = "one phase over links of 800 Gb/s; hierarchies have two phases and links of 100 Gb/s"
SHALLOW = (
    "the least other is flat800: it has few chunks here, and the paper's 1,024 take more steps. "
    "Of the systems with links of 100 Gb/s hierOpt100 is the fastest"
)
STALLED = (
    "the largest reduction. Where links are fast it is hidden here, and all-to-alls are exposed "
    "more"
)


@cache
def times(system: str) -> Times:
    """Two iterations."""
    return {
        (row["layer"], row["pass"]): (
            row["compute_ns"] / NS_PER_MS,
            row["comm_ns"] / NS_PER_MS,
            row["exposed_comm_ns"] / NS_PER_MS,
        )
        for row in by_layer(system, BACKEND)
    }


def rows(_backends: Sequence[str]) -> list[StudyRow]:
    """The claims of section IV-B on each system, then the bars of both figures."""
    return [*_claims(), *(row for system in SYSTEMS for row in _bars(system))]


def _row(setup: str, observation: int, ours: float, why: str) -> StudyRow:
    reference = claimed(1.0, f"section IV-B, observation {observation}", ">", MARGIN)
    return StudyRow(setup, BACKEND, reference, ours, "x", why)


def _claims() -> Iterator[StudyRow]:
    for system in SYSTEMS:
        found = times(system)
        raw = {
            layer: communication
            for (layer, name), (_, communication, _) in found.items()
            if name == REDUCED
        }
        exchanged = [found["embedding", name][1] for name in (RETURNED, "forward")]
        others = min(time for layer, time in raw.items() if time and layer != "top.11")
        yield _row(f"{system}: least other reduction over top 11", 1, others / raw["top.11"], FIRST)
        over = raw["top.10"] / raw["top.1"]
        yield _row(f"{system}: reduction of top 10 over top 1", 1, over, LIFO)
        over = exchanged[0] / exchanged[1]
        yield _row(f"{system}: all-to-all, backward over forward", 3, over, BACKWARD)
        exposed = {layer: _exposed(found, layer) for layer, _ in found}
        most = max(time for layer, time in exposed.items() if layer != "top.0")
        yield _row(
            f"{system}: exposed, top 0 over the most of others", 5, exposed["top.0"] / most, STALLED
        )
    yield from _systems()


def _systems() -> Iterator[StudyRow]:
    """Which system is best for all-to-alls, and which for all-reduces."""

    def exchanged(system: str) -> float:
        return sum(times(system)["embedding", name][1] for name in (RETURNED, "forward"))

    def reduced(system: str) -> float:
        return sum(raw for (_, name), (_, raw, _) in times(system).items() if name == REDUCED)

    for best, what, observation, of, why in (
        ("flat800", "all-to-all", 3, exchanged, FLATTEST),
        ("hierOpt100", "all-reduce", 4, reduced, SHALLOW),
    ):
        others = min(of(system) for system in SYSTEMS if system != best)
        yield _row(f"{what}: the least other over {best}", observation, others / of(best), why)


def _exposed(found: Times, layer: str) -> float:
    return sum(exposed for (name, _), (_, _, exposed) in found.items() if name == layer)


def _bars(system: str) -> Iterator[StudyRow]:
    from armillary.report.layer_chart import PASSES

    found = times(system)
    for (layer, name), (_, raw, _) in found.items():
        if raw:
            setup = f"{system}, {layer}: communication, {PASSES[name][0]}"
            yield StudyRow(setup, BACKEND, drawn("Fig. 11"), raw, "ms", DRAWN)
    for layer in dict.fromkeys(layer for layer, _ in found):
        compute = sum(time for (one, _), (time, _, _) in found.items() if one == layer)
        for what, time in (("compute", compute), ("exposed", _exposed(found, layer))):
            yield StudyRow(
                f"{system}, {layer}: {what}", BACKEND, drawn("Fig. 12"), time, "ms", DRAWN
            )


def charts(_rows: Sequence[StudyRow]) -> list[Chart]:
    """Figs. 11 and 12, a chart for each system."""
    from armillary.report.layer_chart import END_TO_END, PASSES, stacked

    found = []
    for system in SYSTEMS:
        raw, ends = [], []
        for (layer, name), (compute, communication, exposed) in times(system).items():
            raw.append({"layer": layer, "part": PASSES[name][0], "time": communication})
            for part, time in zip(END_TO_END, (compute, exposed), strict=True):
                ends.append({"layer": layer, "part": part, "time": time})
        passes = dict(PASSES.values())
        title = f"{system}: communication by layer (Fig. 11)"
        found.append(stacked(f"dlrm-layers-{system}", title, raw, passes, "ms"))
        title = f"{system}: computation and exposed communication by layer (Fig. 12)"
        found.append(stacked(f"dlrm-layers-{system}-ends", title, ends, END_TO_END, "ms"))
    return found


STUDY = Study(
    SETUP
    + f"flat systems have {FLAT}, the least of Table IV. A bar is the mean over the NPUs. This "
    "study runs on the analytical network whatever `--backend` says.",
    rows,
    charts,
)
