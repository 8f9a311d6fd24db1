"""How much faster a step is than with equal bandwidths (multi-dimensional topologies, Fig.
13)."""

from __future__ import annotations

from collections.abc import Sequence

from armillary.units import GB

from ..study import Study, StudyRow, analytical, claimed, drawn, printed, unreferenced
from .multidim import NPU, SETUP, SHAPES, PaperCase, case, cases, workload

PRINTED = {"MessageBW": (1.10, 1.45), "SmartBW": (1.17, 1.86)}
"""Mean and maximum over EqualBW; section VI-B."""

WHERE = "section VI-B"

SERIAL = "the paper's own time model; its batch, which it does not print, moves it by a few percent"
BEST = "SmartBW is the optimum of that model, so it can't be slower; over all 90 cases"
PROVED = "no bandwidths are faster: the convex program proves it with a duality gap below 1e-6"
SIMULATED = (
    "no number printed: simulated, weight gradients overlap with half of MP's all-reduces: "
    "less to gain"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Means and maxima by the model, then the simulator's word on one workload on each backend."""
    found = list(cases())
    gains = {name: [each.time("EqualBW") / each.time(name) for each in found] for name in PRINTED}
    table = []
    for name, (mean, most) in PRINTED.items():
        table.append(
            StudyRow(
                f"{name} over EqualBW, mean",
                "model",
                printed(mean, WHERE),
                sum(gains[name]) / len(found),
                "x",
                SERIAL,
            )
        )
        table.append(
            StudyRow(
                f"{name} over EqualBW, most",
                "model",
                printed(most, WHERE),
                max(gains[name]),
                "x",
                SERIAL,
            )
        )
    best = sum(
        each.time("SmartBW") <= min(map(each.time, each.shares)) * (1 + 1e-12) for each in found
    )
    table.append(
        StudyRow(
            "cases in which SmartBW is best",
            "model",
            claimed(90.0, f"{WHERE}: SmartBW always gives the best performance", "=", 0.0),
            float(best),
            "of 90",
            BEST,
        )
    )
    table.append(
        StudyRow(
            "SmartBW over the optimum, most",
            "model",
            unreferenced("the optimum that our convex program proves"),
            max(map(_over_optimum, found)),
            "x",
            PROVED,
        )
    )
    return [
        *table,
        *(_simulated(shape, backend) for shape in SHAPES for backend in analytical(backends)),
    ]


def _over_optimum(each: PaperCase) -> float:
    from armillary.design.optimal import Constraint, Question, optimise

    whole = Constraint("total", (1.0,) * each.model.dimensions, each.gigabytes * GB, True)
    return each.time("SmartBW") / optimise(Question((each.model,), (1.0,), (whole,))).bound


def _simulated(shape: str, backend: str) -> StudyRow:
    """SmartBW over EqualBW for Transformer-1T at 300 GB/s."""
    each = case("Transformer-1T", shape, 300)
    equal, smart = (_step(each, scheme, backend) for scheme in ("EqualBW", "SmartBW"))
    return StudyRow(
        f"SmartBW over EqualBW, Transformer-1T, 300 GB/s, {shape}",
        backend,
        drawn("Fig. 13"),
        equal / smart,
        "x",
        SIMULATED,
    )


def _step(each: PaperCase, scheme: str, backend: str) -> float:
    from armillary.api import simulate
    from armillary.platform import Platform

    blocks = SHAPES[each.shape].split("_")
    network = Platform(
        SHAPES[each.shape],
        bandwidth=[f"{int(part)} B/s" for part in each.shares[scheme]],
        latency="0 ns",
        per=["link" if name.startswith("R") else "npu" for name in blocks],
        settings={
            **NPU,
            "collectives.rings": "one_way",
            "scheduler.chunks": 64,
            "scheduler.endpoint_delay": "0 ns",
        },
    )
    return simulate(workload(each.workload), network, backend=backend).step_time_ns


STUDY = Study(SETUP, rows)
