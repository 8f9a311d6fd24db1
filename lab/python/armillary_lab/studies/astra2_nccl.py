"""The analytical network against V100s (ASTRA-sim 2.0, Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_US

from ..study import Study, StudyRow, analytical, drawn, measured, printed
from .astra2_table4 import all_reduce

if TYPE_CHECKING:
    from armillary.report.chart import Chart

ERROR = 5.0
"""Mean error over all configurations, percent: the only number the paper prints of its figure."""

SIZES = (64, 128, 256, 512, 1024, 1536)
"""2^20 bytes; the figure goes from 64 MB to 1.5 GB."""

MEASURED: dict[int, dict[int, float]] = {
    4: {
        64: 1202.1,
        96: 1779.1,
        128: 2364.8,
        192: 3526.4,
        256: 4714.0,
        384: 7074.2,
        512: 9437.4,
        768: 14176.0,
        1024: 18869.0,
    },
    8: {
        64: 911.3,
        96: 1338.3,
        128: 1777.1,
        192: 2643.9,
        256: 3527.4,
        384: 5261.9,
        512: 7004.4,
        768: 10484.0,
        1024: 13969.0,
    },
}
"""GPUs -> 2^20 bytes -> microseconds out of place: nccl-tests on 8 V100 SXM2 with NVLink 2, by the
authors of vTrain (VIA-Research/vTrain, `trace/v100/AR_GPU4_1M_1024M_LUT` and
`AR_GPU8_1M_1024M_LUT`, commit f8dda847)."""

SWEEPS = "nccl-tests on 8 V100 by the authors of vTrain (VIA-Research/vTrain, trace/v100)"

LINKS = {4: 100, 8: 150}
"""GPUs -> GB/s an NPU of the rings that NCCL finds: of six links of 25 GB/s, four lead to the other
GPUs of a quad."""

REACHED = 0.897
"""Share of the links that NCCL reaches in the largest measurement on 8 GPUs: 134.5 of 150 GB/s of
bus bandwidth."""

FIGURE = (
    "the figure prints no numbers, and its measurements are not published; ours is 2 (n - 1) "
    "/ n bytes over 150 GB/s"
)
EIGHT = (
    "8 GPUs fill all six links, 150 GB/s; on the wire NCCL reaches 134 of them, which a "
    "bandwidth of 150 leaves out"
)
FOUR = "4 GPUs of this machine have rings over four of six links, 100 GB/s; NCCL reaches 85"
SHARE = (
    "one factor on the links for all rows, 0.897, from the largest measurement on 8 GPUs "
    "alone: protocol, packets"
)
MEAN = (
    "the paper's machines, 4 and 16 V100 on rings of 150 GB/s, are not those measured here: no "
    "sweep of such is public"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The figure's curves by the model, then measured times of another V100 machine and the mean
    error on them."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> list[StudyRow]:
    curves = [
        StudyRow(
            f"{gpus} V100, {size} MB",
            backend,
            drawn("Fig. 4"),
            time(gpus, size, 150, backend),
            "us",
            FIGURE,
        )
        for gpus in (4, 16)
        for size in SIZES
    ]
    points = [
        StudyRow(
            f"{gpus} V100, {size} MB, measured",
            backend,
            measured(us, SWEEPS),
            time(gpus, size, LINKS[gpus], backend),
            "us",
            why,
        )
        for gpus, why in ((8, EIGHT), (4, FOUR))
        for size, us in MEASURED[gpus].items()
    ]
    mean = printed(ERROR, "Fig. 4 and section IV-C")
    errors = [
        StudyRow("mean error", backend, mean, error(1.0, backend), "%", MEAN),
        StudyRow("mean error, links at 89.7 %", backend, mean, error(REACHED, backend), "%", SHARE),
    ]
    return [*curves, *points, *errors]


def error(share: float, backend: str) -> float:
    """Mean error over what was measured, in percent, with that share of each link."""
    ratios = [
        time(gpus, size, LINKS[gpus] * share, backend) / us
        for gpus, sweep in MEASURED.items()
        for size, us in sweep.items()
    ]
    return 100 * sum(abs(ratio - 1) for ratio in ratios) / len(ratios)


def time(gpus: int, size: int, gigabytes: float, backend: str) -> float:
    """Microseconds of a ring all-reduce of `size` * 2^20 bytes at `gigabytes` GB/s an NPU and
    direction."""
    settings: dict[str, object] = {
        "collectives.all_reduce": "ring",
        "scheduler.endpoint_delay": "0 ns",
    }
    platform = Platform(
        f"Ring({gpus})",
        bandwidth=f"{gigabytes} GB/s",
        latency="600 ns",
        per="link",
        settings=settings,
    )
    return (
        simulate(all_reduce(gpus, size * 2**20), platform, backend=backend).step_time_ns / NS_PER_US
    )


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Time over size: measured as points, ours as lines."""
    from armillary.report.chart import Chart

    records = []
    for row in rows:
        gpus, _, rest = row.setup.partition(" V100, ")
        if not rest:
            continue
        line = f"{gpus} V100, {LINKS[int(gpus)] if rest.endswith('measured') else 150} GB/s"
        point = {"megabytes": int(rest.split()[0]), "line": line}
        records.append({**point, "of": "ours", "us": row.ours})
        if row.reference.value is not None:
            records.append({**point, "of": "measured", "us": row.reference.value})
    base = {
        "x": {
            "field": "megabytes",
            "type": "quantitative",
            "scale": {"type": "log", "domain": [50, 2000]},
            "title": "all-reduce (2^20 bytes)",
        },
        "y": {
            "field": "us",
            "type": "quantitative",
            "scale": {"type": "log", "domain": [500, 30000]},
            "title": "time (us)",
        },
        "color": {"field": "line", "type": "nominal", "title": None},
    }
    spec = {
        "height": 320,
        "layer": [
            {
                "mark": {"type": "line"},
                "transform": [{"filter": "datum.of == 'ours'"}],
                "encoding": base,
            },
            {
                "mark": {"type": "point"},
                "transform": [{"filter": "datum.of == 'measured'"}],
                "encoding": base,
            },
        ],
    }
    title = "All-reduce on V100: lines ours, points measured with nccl-tests"
    return [Chart("astra2-nccl", title, records, spec)]


STUDY = Study(
    "Ring all-reduce at 150 GB/s on 4 and 16 V100, 600 ns a step (NCCL's own constant for "
    "NVLink), one chunk. Rows called measured have the times that nccl-tests printed on another "
    "machine as their reference, not the paper's.",
    rows,
    charts,
)
