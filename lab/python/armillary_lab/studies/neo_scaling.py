"""Neo's Figs. 9 and 10: weak scaling from one node to 16, and where model A's step goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..study import Study, StudyRow, analytical, claimed, drawn, printed
from .neo import ANY, Step, model_a, model_i

if TYPE_CHECKING:
    from armillary.report.chart import Chart

RANKS = (8, 16, 32, 64, 128)
LAST = {"A": 50.0, "I": 75.0}
"""Percent at 128 GPUs: section 8.3 says around."""
STEPS = {"A": model_a, "I": model_i}

WHY = (
    "on one node all-to-alls go over NVLink and take 1 ms, on 16 nodes most of the step. The "
    "paper's 128 GPUs leave a single node 27 ms (A) and 58 ms (I) for a step; ours takes less, so "
    "its share falls further"
)
FIGURE = "the figure has no numbers"
PARTS = "the figure has no numbers; the sum over a step, one after the other"
HIDDEN = "input copies run during the batch before"
LESS = "communication that is exposed, over all-to-alls and all-reduces one after the other"
GROWS = "between nodes an all-to-all has 7 GB/s, within a node 225"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Efficiencies, then the breakdown of model A's step."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    ends: dict[int, Step] = {}
    for name, run in STEPS.items():
        first = None
        for ranks in RANKS:
            found = run(ranks=ranks, capacity=ANY, backend=backend)
            first = first or found
            if name == "A" and ranks in (RANKS[0], RANKS[-1]):
                ends[ranks] = found
            if ranks == RANKS[0]:
                continue
            last = ranks == RANKS[-1]
            reference = printed(LAST[name], "section 8.3") if last else drawn("Fig. 9")
            share = 100 * found.rate / first.rate * RANKS[0] / ranks
            why = WHY if last else FIGURE
            yield StudyRow(f"model {name}, {ranks} GPUs", backend, reference, share, "%", why)
    for ranks, found in ends.items():
        yield from _breakdown(backend, ranks, found)
    one, other = (found.serialized("all_to_all") for found in ends.values())
    longer = claimed(1.0, "section 8.3, Fig. 10: increased AlltoAll", ">", 0.1)
    yield StudyRow("all-to-alls, 128 over 8 GPUs", backend, longer, other / one, "x", GROWS)


def _breakdown(backend: str, ranks: int, found: Step) -> Iterator[StudyRow]:
    for kind, said in (("all_to_all", "all-to-all"), ("all_reduce", "all-reduce")):
        setup = f"model A, {ranks} GPUs, {said}"
        yield StudyRow(setup, backend, drawn("Fig. 10"), found.serialized(kind), "ms", PARTS)
    setup = f"model A, {ranks} GPUs, exposed communication"
    yield StudyRow(setup, backend, drawn("Fig. 10"), found.exposed, "ms", PARTS)
    both = found.serialized("all_to_all") + found.serialized("all_reduce")
    less = claimed(1.0, "section 8.3, Fig. 10: much less than serialized", "<", 0.1)
    setup = f"model A, {ranks} GPUs, exposed over serialized"
    yield StudyRow(setup, backend, less, found.exposed / both, "x", LESS)
    without = model_a(ranks=ranks, capacity=ANY, backend=backend, host_inputs=False)
    same = claimed(1.0, "section 8.3, Fig. 10: HtoD is completely hidden", "=", 0.01)
    setup = f"model A, {ranks} GPUs, step with input copies over without"
    yield StudyRow(setup, backend, same, found.time / without.time, "x", HIDDEN)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Fig. 9: efficiency by number of GPUs."""
    from armillary.report.chart import Chart

    records = [
        {
            "model": row.setup[:7],
            "gpus": int(row.setup.split(", ")[1].split()[0]),
            "share": row.ours,
        }
        for row in rows
        if row.setup.endswith(" GPUs") and row.unit == "%"
    ]
    spec = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gpus", "type": "ordinal", "title": "GPUs"},
            "y": {"field": "share", "type": "quantitative", "title": "% of 8 GPUs' rate each"},
            "color": {"field": "model", "type": "nominal", "title": None},
        },
    }
    return [Chart("neo-scaling", "Weak scaling (Fig. 9)", records, spec)]


STUDY = Study(
    "Models A and I as in neo-throughput, with the same samples for each GPU on 8 to 128 of them. "
    "Memory does not limit tables on few nodes, as the paper's have fewer rows there. Efficiency "
    "is the rate of a GPU over that on one node. The breakdown sums collectives over a step.",
    rows,
    charts,
)
