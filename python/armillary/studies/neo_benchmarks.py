"""Neo's Appendix A: what kernels and collectives reach on V100, A100 and 128 GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..api import collective_us, simulate
from ..platform import Platform
from ..study import Study, StudyRow, analytical, drawn, printed
from ..workload import Workload
from ..workload.program import Program
from .neo import PAPER

GPUS = {"A100": "zionex", "V100": "zion"}
LOOKUPS = {"A100": 1300.0, "V100": 850.0}
"""GB/s."""
PRODUCTS = {"A100": 70.5, "V100": 78.6}
"""Percent of the peak."""
TABLES, DIM, POOLING, BATCH = 64, 128, 32, 2048
"""Appendix A; the batch is ours."""
SIDE = 4096
"""Of the largest layers in Appendix A."""
WIRES = {"all_to_all": 7.0, "all_reduce": 60.0}
"""GB/s of 256 MB."""
LARGE = 256 * 10**6
SMALL = (10**6, 16 * 10**6)

SET = "the preset is set to it; the kernel's overhead is added"
LIBRARY = (
    "the preset's efficiency of the library is set to it; messages and latencies are simulated"
)
CURVE = "the figure has no numbers; the latencies are those of other machines with NCCL"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Lookups and matrix multiplications of each GPU, then collectives."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    for gpu, name in GPUS.items():
        platform = Platform.load(name)
        for width in (4, 2):
            moved = BATCH * TABLES * (POOLING * (DIM * width + 8) + DIM * 4)
            program = Program()
            program.compute("lookup", [], operations=0, bytes=moved, kernel="embedding")
            rate = moved / _seconds(program, platform, backend) / 1e9
            reference = printed(LOOKUPS[gpu], "Appendix B, after equation 1; Fig. 15")
            setup = f"{gpu}: lookups, FP{8 * width}"
            yield StudyRow(setup, backend, reference, rate, "GB/s", SET)
        program = Program()
        program.gemm("product", [], m=SIDE, n=SIDE, k=SIDE, width=2)
        peak = platform.describe()["npu"]["peak_flops"]
        share = 100 * 2 * SIDE**3 / _seconds(program, platform, backend) / peak
        reference = printed(PRODUCTS[gpu], "Appendix B, after equation 1; Fig. 12")
        yield StudyRow(f"{gpu}: product of {SIDE}^3, FP16", backend, reference, share, "%", SET)
    platform = Platform.load("zionex")
    for kind, rate in WIRES.items():
        for size in (*SMALL, LARGE):
            found = size / collective_us(kind, size, platform, backend=backend) / 1e3
            large = size == LARGE
            where = "Appendix A, Fig. 17"
            reference = printed(rate, where) if large else drawn(where)
            setup = f"128 GPUs: {kind.replace('_', '-')}, {size // 10**6} MB"
            why = LIBRARY if large else CURVE
            yield StudyRow(setup, backend, reference, found, "GB/s", why)


def _seconds(program: Program, platform: Platform, backend: str) -> float:
    """Time of the program on all NPUs of the platform."""
    workload = Workload.mesh("benchmark", [("npu", platform.npus)], {}, [], [program])
    return simulate(workload, platform, backend=backend).step_time_ns / 1e9


STUDY = Study(
    "Bandwidths and rates of V100, A100 and 128 GPUs",
    f"{PAPER}, Appendices A and B, Figs. 12, 15 and 17 in part",
    "The presets zionex and zion have these rates as efficiencies of their data sheets. The study "
    "shows what simulated kernels and collectives make of them. GB/s of a collective are bytes of "
    "a GPU's buffer over time. Read as the bus bandwidth of nccl-tests, 60 GB/s would be half of "
    "it; then model A's all-reduces would not be hidden, which Fig. 10 says they are.",
    rows,
)
