"""Neo's Appendix A: what kernels and collectives reach on V100, A100 and 128 GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from armillary.api import collective_us, simulate
from armillary.platform import Platform
from armillary.workload import Workload
from armillary.workload.program import Program

from ..study import Study, StudyRow, analytical, drawn, printed

GPUS = {"A100": "zionex", "V100": "zion"}
LOOKUPS = {"A100": 1300.0, "V100": 850.0}
"""GB/s."""
PRODUCTS = {"A100": 70.5, "V100": 78.6}
"""Percent of the peak."""
TABLES, DIM, POOLING, BATCH = 64, 128, 32, 2048
"""Appendix A; the batch is ours."""
SIDE = 4096
"""Side of the largest layers in Appendix A."""
MLP_SIDES, MLP_BATCHES = (1024, 2048, 4096), (128, 256, 512, 1024, 2048, 4096)
FORMATS = {"A100": {2: "FP16", 4: "TF32"}, "V100": {2: "FP16", 4: "FP32"}}
"""By bytes of an element, with the presets' rates; BF16 has that of FP16."""
WIRES = {"all_to_all": 7.0, "all_reduce": 60.0}
"""GB/s of 256 MB."""
LARGE = 256 * 10**6
SMALL = (10**6, 16 * 10**6)

SET = "the preset is set to it; the kernel's overhead is added"
LIBRARY = (
    "the preset's efficiency of the library is set to it; messages and latencies are simulated"
)
KERNELS = "the figure has no numbers; products, activations and SGD one after the other"
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
    for gpu, name in GPUS.items():
        yield from _mlps(gpu, Platform.load(name))
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


def _mlps(gpu: str, platform: Platform) -> Iterator[StudyRow]:
    """The grid of MLPs: operations of the products over the time of all kernels."""
    for width, name in FORMATS[gpu].items():
        for side in MLP_SIDES:
            for batch in MLP_BATCHES:
                seconds = sum(time for _, time in platform.times(_layer(batch, side, width))) / 1e12
                rate = 3 * 2 * batch * side**2 / seconds / 1e12
                setup = f"{gpu} {name}: MLP {side}, batch {batch}"
                reference = drawn("Appendix A, Figs. 13 and 14")
                yield StudyRow(setup, "-", reference, rate, "TFLOP/s", KERNELS)


def _layer(batch: int, side: int, width: int) -> Program:
    """Forward pass, backward pass and SGD of a layer; all 20 are alike."""
    program, output = Program(), batch * side * width
    for m, n, k in ((batch, side, side), (side, side, batch), (batch, side, side)):
        program.gemm("product", [], m=m, n=n, k=k, width=width)
    for moved in (2 * output, 3 * output):
        program.compute("relu", [], operations=0, bytes=moved, kernel="elementwise")
    moved = 3 * side**2 * width
    program.compute("sgd", [], operations=2 * side**2, bytes=moved, kernel="optimizer")
    return program


def _seconds(program: Program, platform: Platform, backend: str) -> float:
    """Time of the program on all NPUs of the platform."""
    workload = Workload.mesh("benchmark", [("npu", platform.npus)], {}, [], [program])
    return simulate(workload, platform, backend=backend).step_time_ns / 1e9


STUDY = Study(
    "The presets zionex and zion have these rates as efficiencies of their data sheets. The study "
    "shows what simulated kernels and collectives make of them. GB/s of a collective are bytes of "
    "a GPU's buffer over time. Read as the bus bandwidth of nccl-tests, 60 GB/s would be half of "
    "it; then model A's all-reduces would not be hidden, which Fig. 10 says they are.",
    rows,
)
