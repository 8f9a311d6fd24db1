"""Predictions of what a file of one measured GPU holds: single kernels, steps, memory.

No fit reads such files, so nothing of them is in a prediction. Kernels are predicted by
`armillary.kernels`, steps by `armillary.simulate` and memory by `needed_memory` of the same
model."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from armillary.api import simulate
from armillary.errors import ArmillaryError, InputError, Problem
from armillary.kernels import KINDS, Shape, seconds
from armillary.kernels.tables import SYSTEMS, Left
from armillary.model.files import Model
from armillary.platform import Platform
from armillary.units import NS_PER_US
from armillary.workload import build, needed_memory
from armillary.workload.framework_set import nested

from ..measured import gpu
from ..measured.gpu import GpuFile
from ..measured.published.machines import gpu_of, one_node

Words = Mapping[str, object]
"""Fields of a shape."""

_SOURCES = {"flash": "flash2", "cudnn": "flash3"}
"""Libraries of attention. cuDNN's kernels have no model; FlashAttention 3 is the nearest."""
_COLD_CALLS = 100
"""Calls before weights are used again where inputs come from memory."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A measurement and our prediction, in the same unit: us, or bytes of memory."""

    group: str
    name: str
    measured: float
    ours: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A measurement without a prediction."""

    group: str
    reason: str


def preset(file: GpuFile) -> str:
    """The preset of the measured GPU.

    Raises:
        InputError: there is none.
    """
    name = gpu_of(file.machine.device)
    if name is None:
        said = f"no preset for {file.machine.device}"
        raise InputError([Problem("", "machine", said, "a platform, with -p")])
    system = SYSTEMS.get(name.lower())
    return system.preset if system is not None else one_node(name)


def predictions(file: GpuFile, platform: Platform) -> Iterator[Compared | LeftOut]:
    """Our prediction of each measurement in its order, or why there is none. The platform has one
    NPU."""
    for row in file.kernels:
        yield _kernel(row, platform)
    for step in file.steps:
        yield from _step(step, platform)


def _kernel(row: gpu.Kernel, platform: Platform) -> Compared | LeftOut:
    group, found = _SHAPES[type(row)](row)
    if isinstance(found, Left):
        return LeftOut(group, found.reason)
    shape = _shape(*found)
    if isinstance(shape, Left):
        return LeftOut(group, shape.reason)
    try:
        (time,) = seconds([shape], platform)
    except ArmillaryError as error:
        return LeftOut(group, str(error).splitlines()[0])
    words = ", ".join(f"{name} {value}" for name, value in found[1].items())
    return Compared(group, words, row.us, 1e6 * time)


def _shape(kind: str, words: Words) -> Shape | Left:
    """The kernel as `armillary.kernels` has it, or why it has none."""
    if kind not in KINDS:
        return Left(f"no model for kernels of the kind {kind}")
    known = {each.name for each in dataclasses.fields(KINDS[kind])}
    unknown = sorted(words.keys() - known)
    if unknown:
        return Left(f"the model of {kind} has no {unknown[0]}")
    return KINDS[kind](**words)


_Found = tuple[str, tuple[str, Words] | Left]


def _product(row: gpu.Product) -> _Found:
    group = f"gemm {row.format} {row.cache}"
    if row.format == "fp8" and not row.converted:
        return f"{group} alone", Left("the model of fp8 counts the conversion of activations")
    words: dict[str, object] = {"m": row.m, "n": row.n, "k": row.k, "format": row.format}
    # PyTorch and vLLM call the same library of products.
    words |= {"library": "vllm", "copies": 1 if row.cache == "warm" else _COLD_CALLS}
    return group, ("gemm", words)


def _attention(row: gpu.Attention) -> _Found:
    source = _SOURCES[row.library]
    group = f"attention {row.library} {row.pass_} as {source}"
    if not row.causal:
        return group, Left("the model of attention is causal")
    words: dict[str, object] = {"batch": row.batch, "length": row.length, "heads": row.heads}
    words |= {"kv_heads": row.kv_heads, "head_dim": row.head_dim, "format": row.format}
    return group, ("attention", words | {"source": source, "direction": row.pass_})


def _experts(row: gpu.Experts) -> _Found:
    group = f"experts {row.part} {row.spread_of_tokens}"
    if row.part != "layer" or row.spread_of_tokens != "even":
        return group, Left("the model of experts is of whole layers with even tokens")
    names = ("tokens", "hidden", "inner", "experts", "top_k", "format")
    return group, ("experts", {name: getattr(row, name) for name in names})


def _stream(row: gpu.Streamed) -> _Found:
    return f"stream {row.op}", ("stream", {"bytes": row.bytes})


def _copy(row: gpu.Copied) -> _Found:
    return f"copy {row.way}", Left("no model for single copies between host and GPU")


def _launch(row: gpu.Launched) -> _Found:
    if row.mode != "graph":
        return f"launch {row.mode}", Left("the host's time, which differs between hosts")
    return "launch graph", ("stream", {"bytes": 8})


def _hot(row: gpu.Hot) -> _Found:
    words = {"m": row.m, "n": row.n, "k": row.k, "format": row.format, "library": "vllm"}
    return "gemm hot", ("gemm", words | {"copies": 1})


_SHAPES: Mapping[type, Callable[..., _Found]] = {
    gpu.Product: _product,
    gpu.Attention: _attention,
    gpu.Experts: _experts,
    gpu.Streamed: _stream,
    gpu.Copied: _copy,
    gpu.Launched: _launch,
    gpu.Hot: _hot,
}


def _step(step: gpu.DecoderStep | gpu.DlrmStep, platform: Platform) -> Iterator[Compared | LeftOut]:
    model, options = _decoder(step) if isinstance(step, gpu.DecoderStep) else _recommendation(step)
    try:
        time = simulate(build(model, **options), platform).step_time_ns / NS_PER_US
        memory = needed_memory(model, **options)
    except ArmillaryError as error:
        yield LeftOut(f"step {step.kind}", str(error).splitlines()[0])
        return
    yield Compared(f"step {step.kind}", step.name, statistics.median(step.step_us), time)
    if step.memory is None:
        yield LeftOut(f"memory {step.kind}", "the device has no allocator that counts")
    elif memory is not None:
        yield Compared(f"memory {step.kind}", step.name, step.memory.peak_bytes, memory)


def _decoder(step: gpu.DecoderStep) -> tuple[Model, dict[str, object]]:
    """The model and options of `gpu_steps.py`: eager kernels, one matrix each for queries, keys,
    values and both inputs of the perceptron, gradients in fp32."""
    names = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "sequence")
    fields: dict[str, object] = {name: getattr(step, name) for name in names}
    fields |= {"gated": True, "norm": "rms", "bias": False, "dropout": False, "tied": True}
    options: dict[str, object] = {"micro_batch": step.micro_batch, "fp32_gradients": True}
    options |= {"kernels": "eager", "merged": False}
    return Model(step.name, "transformer", fields), nested(options)


def _recommendation(step: gpu.DlrmStep) -> tuple[Model, dict[str, object]]:
    """The model and options of `gpu_steps.py`: inputs on the GPU, one kernel for all lookups and
    one for the updates, SGD, and elementwise kernels that take time."""
    tables = [
        {"name": f"t{number}", **dataclasses.asdict(each)}
        for number, each in enumerate(step.tables)
    ]
    fields: dict[str, object] = {
        "dense_features": step.dense_features,
        "bottom": list(step.bottom),
        "interaction": {"kind": "dot"},
        "top": list(step.top),
        "precision": "fp32",
        "local_batch": step.local_batch,
        "tables": tables,
    }
    options: dict[str, object] = {"dp": 1, "flow": "hoti", "elementwise": True}
    return Model(step.name, "dlrm", fields), options | {"optimizer": "sgd"}
