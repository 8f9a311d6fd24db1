"""Kernels of an engine on platforms without measured kernels: rooflines of the platform's compute
model, and simulated collectives.

Here: operations and bytes of each shape. Not here: the roofline (`crates/device`), the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from ..errors import InputError, Problem
from ..kernels.shapes import Allreduce, Attention, Experts, Gemm, Mla, Shape, Stream
from ..platform import Platform
from ..workload.program import Program
from .layout import BYTES, CACHES


@dataclass(frozen=True, slots=True)
class Beyond:
    """Times of engines' kernels beyond a roofline and a library's all-reduce."""

    launch: float = 3e-6
    """Seconds of each kernel of a captured graph: an assumption, between those of fitted GPUs
    (docs/models/kernels.md)."""
    work: float = 1.0
    """Factor on the time of a kernel's work."""
    experts: float = 1.0
    """Another factor on layers of experts."""
    all_reduce: float | None = None
    """Seconds of the smallest all-reduce, by the engine's own kernel; by the library without."""


AMD = Beyond(launch=9e-6, work=1.1, experts=1.5, all_reduce=8e-6)
"""Found on 335 runs of MI300X and MI355X of InferenceMAX's page of October 2025: vLLM with Llama
70B and gpt-oss-120b, SGLang with DeepSeek-R1 (lab/accuracy/serving.md)."""
_BEYOND = {"MI300X": AMD, "MI355X": AMD}


def beyond(npu: str | None) -> Beyond:
    """Times of the NPU with this name, such as `MI300X`."""
    return _BEYOND.get(npu or "", Beyond())


_TINY = 1024
"""Bytes of an all-reduce that takes latency alone."""
_LATENT, _ROPE, _NOPE, _VALUE = 512, 64, 128, 128
"""Widths of DeepSeek's latent attention, as `mla` kernels have them."""


@dataclass(frozen=True, slots=True)
class _Work:
    kernel: str
    operations: float
    bytes: float
    format: str = "bf16"


def seconds(shapes: Sequence[Shape], platform: Platform, backend: str | None = None) -> list[float]:
    """Seconds of each kernel by itself, in order.

    Raises:
        InputError: a kind of kernel that has no roofline here, or an NPU without rates.
    """
    described = platform.describe()["npu"]
    _check_rates(described, platform)
    more = beyond(described.get("name"))
    sums = [shape for shape in shapes if isinstance(shape, Allreduce)]
    collectives = iter(_summed(sums, platform, backend, more.all_reduce) if sums else [])
    works = [_work(shape) for shape in shapes if not isinstance(shape, Allreduce)]
    peak = described["peak_flops"]
    by_type = described["compute_settings"].get("peak_by_type_flops", {})
    program = Program()
    for number, work in enumerate(works):
        factor = more.work * (more.experts if work.kernel == "grouped" else 1.0)
        narrow = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4_mxfp8": "fp8"}
        rate = by_type.get(narrow.get(work.format, "")) or peak
        program.compute(
            str(number),
            [],
            operations=max(1, round(factor * work.operations * peak / rate)),
            bytes=max(1, round(factor * work.bytes)),
            kernel=work.kernel,
        )
    times = iter([time for _, time in platform.times(program)] if works else [])
    return [
        next(collectives) if isinstance(shape, Allreduce) else next(times) / 1e12 + more.launch
        for shape in shapes
    ]


def _check_rates(described: Mapping[str, Any], platform: Platform) -> None:
    rates = {"npu.peak": "peak_flops", "npu.memory.bandwidth": "memory_bandwidth"}
    if described["compute"] == "recorded":
        rates["npu.compute.model"] = "none"
    problems = [
        Problem("", key, f"{platform.name} has none, and a roofline needs it", _RATES[key])
        for key, name in rates.items()
        if not described.get(name)
    ]
    if problems:
        raise InputError(problems)


_RATES = {
    "npu.peak": "a rate: --set npu.peak=400TFLOPS",
    "npu.memory.bandwidth": "a rate: --set npu.memory.bandwidth=2TB/s",
    "npu.compute.model": "roofline: --set npu.compute.model=roofline",
}


def _work(shape: Shape) -> _Work:
    """Operations and bytes of a kernel."""
    if isinstance(shape, Gemm):
        weights = BYTES[shape.format if shape.weights == "same" else shape.weights]
        moved = 2 * shape.m * (shape.k + shape.n) + weights * shape.n * shape.k
        return _Work("gemm", 2.0 * shape.m * shape.n * shape.k, moved, shape.format)
    if isinstance(shape, Stream):
        return _Work("elementwise", 0.0, shape.bytes)
    if isinstance(shape, Attention):
        seen = min(shape.length, shape.window or shape.length)
        cached = 2 * seen * shape.kv_heads * shape.head_dim * CACHES[shape.cache]
        if shape.phase == "decode":
            pairs = shape.batch * seen
        else:
            pairs = shape.batch * (seen * shape.length - seen * seen // 2)
            cached += 4 * shape.length * shape.heads * shape.head_dim
        operations = 4.0 * pairs * shape.heads * shape.head_dim
        return _Work("attention", operations, shape.batch * cached)
    if isinstance(shape, Mla):
        cached = shape.length * (_LATENT + _ROPE) * CACHES[shape.cache]
        latent = 2 * _LATENT + _ROPE
        if shape.phase == "decode":
            width, pairs = latent, shape.batch * shape.length
        else:
            width = latent if shape.form == "absorbed" else _NOPE + _ROPE + _VALUE
            pairs = shape.batch * shape.length**2 // 2
            cached += 4 * shape.length * shape.heads * (_NOPE + _ROPE)
        return _Work("attention", 2.0 * pairs * shape.heads * width, shape.batch * cached)
    if isinstance(shape, Experts):
        matrix = shape.hidden * shape.inner // shape.tp * shape.matrices
        own = shape.experts // shape.ep
        used = own * (1 - (1 - shape.top_k / shape.experts) ** shape.tokens)
        choices = shape.tokens * shape.top_k / shape.ep
        each = BYTES["mxfp4" if shape.format.startswith("mxfp4") else shape.format]
        moved = used * matrix * each + choices * 4 * (shape.hidden + shape.inner // shape.tp)
        return _Work("grouped", 2.0 * choices * matrix, moved, shape.format)
    message = f"{shape.kind} has no roofline"
    raise InputError([Problem("", "platform", message, "a platform with npu.kernels")])


def _summed(
    shapes: list[Allreduce], platform: Platform, backend: str | None, smallest: float | None
) -> list[float]:
    """All-reduces of an engine's own kernel; the smallest takes `smallest` seconds."""
    if smallest is None:
        return all_reduces(shapes, platform, backend)
    tiny = replace(shapes[0], bytes=_TINY)
    *times, least = all_reduces([*shapes, tiny], platform, backend)
    return [time - max(0.0, least - smallest) for time in times]


def all_reduces(
    shapes: Sequence[Allreduce], platform: Platform, backend: str | None = None
) -> list[float]:
    """Seconds of all-reduces among the first NPUs of the platform, simulated one after another."""
    members = shapes[0].members
    program, idle = Program(), Program()
    after: list[int] = []
    for number, shape in enumerate(shapes):
        after = [program.collective(str(number), after, "all_reduce", shape.bytes, "group")]
    idle.compute("idle", [])
    others = platform.npus - members
    workload = _core.Workload.listed(
        "all-reduces",
        [program, idle],
        [0] * members + [1] * others,
        [("group", list(range(members)))],
        [],
        None,
        [],
    )
    (ends,) = _core.ends(workload, platform._core, backend, [0])
    return [(end - before) / 1e12 for before, end in zip([0, *ends], ends, strict=False)]
