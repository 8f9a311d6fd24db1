"""Single kernels: predicted times against measured ones.

Multiplications keep only a part of their rate in training (`npu.compute.sustained`), and the
overhead of a kernel there is mostly that of small kernels next to it. A kernel by itself keeps its
rate, and takes a few microseconds to start."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from armillary import _core
from armillary.calibrate.single_operation import ALONE, alone, times
from armillary.errors import ArmillaryError
from armillary.kernels.tables import Left
from armillary.platform import Platform

from ..measured.published import reading
from ..measured.published.file import Row, problem, source
from ..measured.published.machines import gpu_of, no_preset, one_node
from ..measured.published.reading import Part
from ..measured.published.run import Missing, count

_WIDTHS = {"fp4": 0, "fp8": 1, "f8": 1, "fp16": 2, "bf16": 2, "f16": 2}
"""Bytes of an element, as kernels state it; 4 bits are 0."""
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
_PRODUCTS = ("gemm", "max_achievable_matmul")
_ALONE = {
    "RTX PRO 6000": "rtx-pro-6000-8",
    "L40S": "l40s-8",
    "B300": "dgx-b300",
    "H800": "dgx-h100",
    **{f"TPU {name}": f"tpu-{name}-pod" for name in ("v4", "v5e", "v5p", "v6e")},
}
"""Presets that stand for single kernels of a GPU, whose links they don't need. GB300 has its own.
An H800 is an H100 with fewer links (arXiv:2505.09343, section 4)."""
_NAMES = {name.lower(): name for name in _ALONE}
_START = "5 us"
"""Time that a kernel by itself needs to start and drain: the smallest multiplications of Azure's
guide take 4 to 6 us longer than their tiles."""
_STREAM_BYTES = 2**30
"""Bytes of a stream whose size is not stated."""
_REASONS = {
    "attention": "attention: heads and widths are not stated",
    "grouped_gemm": "a layer of experts in one kernel: its shapes are not stated",
    "nvbandwidth": "copies between host and GPU",
    "rdma_put": "puts from within a kernel: not a collective",
    "rdma_latency": "one network card: not a GPU",
    "rdma_bandwidth": "one network card: not a GPU",
}


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel's measured time and ours, us."""

    name: str
    kind: str
    gpu: str
    source: str
    measured: float
    ours: float

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ours / self.measured)


def predict(measured: Row) -> KernelTime | Left:
    """Our time of a kernel, or why there is none."""
    row = Part(measured)
    kind = str(row["kind"])
    if kind not in (*_PRODUCTS, "hbm_stream"):
        return Left(_REASONS.get(kind, f"no model for kernels of the kind {kind!r}"))
    text = str(row.get("gpu"))
    named = re.search("|".join(rf"\b{name}\b" for name in _ALONE), text, re.I)
    gpu = _NAMES[named[0].lower()] if named else gpu_of(text)
    if gpu is None:
        return Left(no_preset(row.get("gpu")))
    preset = _ALONE.get(gpu) or one_node(gpu)
    program = _core.Program()
    try:
        platform = Platform.load(preset, {**ALONE, "npu.compute.kernel_overhead": _START})
        if kind in _PRODUCTS:
            what, us = _product(row, program)
        else:
            what, us = _stream(row, program)
        reading.check(row, "compute")
        (ours,) = times([alone("kernel", program, platform.npus)], platform._core)
    except Missing as missing:
        return Left(str(missing))
    except ArmillaryError as error:
        return Left(f"not predicted: {problem(error)}")
    words = "products" if kind in _PRODUCTS else "streams"
    return KernelTime(f"{gpu} {what}", words, gpu, source(row), us, ours)


def _product(row: Row, program: _core.Program) -> tuple[str, float]:
    """Adds a multiplication; its name, and its measured time in us."""
    kind = str(row.get("dtype"))
    if kind not in _WIDTHS:
        raise Missing(f"numbers of the type {kind}" if kind != "None" else "dtype is not stated")
    shape = _SHAPE.fullmatch(str(row.get("shape")))
    sizes = dict(zip("mnk", map(int, shape.groups()), strict=True)) if shape else {}
    m, n, k = (count(row, key, sizes.get(key)) for key in "mnk")
    if sizes and (m, n, k) != tuple(sizes.values()):
        raise Missing(f"shape is {row['shape']}, and m, n and k are {m}, {n} and {k}")
    program.gemm("kernel", [], m=m, n=n, k=k, batch=1, width=_WIDTHS[kind])
    rate = _positive(row, "tflops")
    return f"{kind} {m} x {n} x {k}", 2 * m * n * k / rate / 1e6


def _stream(row: Row, program: _core.Program) -> tuple[str, float]:
    """Adds a stream of bytes; its name, and its measured time in us."""
    size = count(row, "bytes", _STREAM_BYTES)
    program.compute("kernel", [], operations=0, bytes=size, kernel="other")
    return str(row.get("op")), size / _positive(row, "TBps") / 1e6


def _positive(row: Row, key: str) -> float:
    value = row.get(key)
    if not isinstance(value, int | float) or not value > 0:
        raise Missing(f"{key} is not stated")
    return float(value)
