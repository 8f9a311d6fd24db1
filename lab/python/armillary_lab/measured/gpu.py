"""The file that `lab/bench/python/measure_gpu.py` writes: kernels and steps of one GPU.

Times are us, sizes bytes, clocks MHz, power W. Here: its keys, each declared once. Not here: our
times of the same (`predict/gpu.py`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from armillary import declared, documents
from armillary.declared import Note, Source, Within

SCHEMA = "armillary.gpu/1"
_WHAT = f"a file of lab/bench/python/measure_gpu.py ({SCHEMA})"
_MOST_BYTES = 8 * 2**20

Count = Annotated[int, Within(1, 2**40)]
Size = Annotated[int, Within(0, 2**50)]
Us = Annotated[float, Within(1e-3, 1e10)]
Number = Annotated[float, Within(0, 1e9)]
Format = Literal["bf16", "fp8"]


@dataclass(frozen=True, slots=True)
class State:
    """Medians of what `nvidia-smi` said meanwhile."""

    clock_mhz: Number
    memory_clock_mhz: Number
    power_w: Number
    temperature_c: Number
    readings: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """A measured kernel. `spread` is the longest replay less the shortest, as a part of the
    median; calls take turns on `sets` of inputs."""

    kind: str
    us: Us
    spread: Number
    how: Literal["graph", "eager", "wall"]
    calls: Count
    sets: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Product(Timed):
    """A product of `m x k` and `k x n`; `converted`: with the conversion of `m x k` from bf16."""

    kind: Literal["gemm"]
    m: Count
    n: Count
    k: Count
    format: Format
    converted: bool
    cache: Literal["cold", "warm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention(Timed):
    """Attention of whole sequences."""

    kind: Literal["attention"]
    batch: Count
    length: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    causal: bool
    pass_: Literal["forward", "backward"]
    library: Literal["flash", "cudnn"]
    format: Format


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts(Timed):
    """Both products of gated experts, or the whole layer."""

    kind: Literal["experts"]
    tokens: Count
    hidden: Count
    inner: Count
    experts: Count
    top_k: Count
    spread_of_tokens: Literal["even", "zipf"]
    part: Literal["products", "layer"]
    format: Format


@dataclass(frozen=True, kw_only=True, slots=True)
class Streamed(Timed):
    """A copy or a sum in the device's memory; `bytes` are read and written."""

    kind: Literal["stream"]
    op: Literal["copy", "add"]
    bytes: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied(Timed):
    """A copy between the host and the device."""

    kind: Literal["copy"]
    way: Literal["to_device", "to_host"]
    pinned: bool
    bytes: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched(Timed):
    """The smallest kernel: in a graph, launched by the host, and with a wait after each."""

    kind: Literal["launch"]
    mode: Literal["graph", "eager", "waited"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hot:
    """A product that is repeated for seconds, `at_s` seconds after the first."""

    kind: Literal["hot"]
    m: Count
    n: Count
    k: Count
    format: Format
    at_s: Number
    us: Us
    state: State | None = None


Kernel = Product | Attention | Experts | Streamed | Copied | Launched | Hot


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of PyTorch's allocator: of tensors between steps and at the peak, and of the segments
    of its snapshot."""

    held_bytes: Size
    peak_bytes: Size
    reserved_bytes: Size
    segments: Size
    idle_bytes: Size
    largest_idle_bytes: Size


@dataclass(frozen=True, slots=True)
class Profiled:
    """Kernels of one name in a step."""

    name: Note
    count: Count
    us: Number


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of one step, as PyTorch's profiler has them."""

    count: Size
    us: Number
    longest: Annotated[tuple[Profiled, ...], Within(0, 1000)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A measured training step. `name` is free, the other keys of subclasses are the model's."""

    kind: str
    name: str
    step_us: Annotated[tuple[Us, ...], Within(1, 1000)]
    state: State | None = None
    memory: Memory | None = None
    kernels: Kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderStep(Step):
    """A step of a decoder as Llama's, with one matrix for embedding and head."""

    kind: Literal["transformer"]
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    ffn: Count
    vocabulary: Count
    sequence: Count
    micro_batch: Count


@dataclass(frozen=True, slots=True)
class TableShape:
    """An embedding table, and its lookups of a sample."""

    rows: Count
    dim: Count
    pooling: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class DlrmStep(Step):
    """A step of a recommendation model with dots of features."""

    kind: Literal["dlrm"]
    dense_features: Count
    bottom: Annotated[tuple[Count, ...], Within(1, 100)]
    top: Annotated[tuple[Count, ...], Within(1, 100)]
    tables: Annotated[tuple[TableShape, ...], Within(1, 10_000)]
    local_batch: Count


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU and its software."""

    device: str
    torch: Note
    python: Note
    cores: Count
    multiprocessors: Size
    l2_bytes: Size
    memory_bytes: Size
    cuda: Note | None = None
    driver: Note | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that could not be measured."""

    case: Note
    reason: Note


@dataclass(frozen=True, slots=True)
class PartRun:
    """A part of the measurement: rows, cases for which there was no time, and cases that
    failed."""

    name: str
    measured: Size
    no_time: Size
    failed: Annotated[tuple[Failed, ...], Within(0, 10_000)]
    seconds: Number
    state: State | None = None


@dataclass(frozen=True, slots=True)
class GpuFile:
    """All of a file."""

    schema: Literal["armillary.gpu/1"]
    date: Note
    small: bool
    complete: bool
    budget_s: Number
    spent_s: Number
    machine: Machine
    parts: Annotated[tuple[PartRun, ...], Within(0, 100)]
    kernels: Annotated[tuple[Kernel, ...], Within(0, 20_000)]
    steps: Annotated[tuple[DecoderStep | DlrmStep, ...], Within(0, 100)]


def read(path: str | os.PathLike[str]) -> GpuFile:
    """The file at `path`.

    Raises:
        InputError: every problem of the file, with its place.
    """
    name = os.fspath(path)
    values = documents.parse_json(documents.read_text(path, _WHAT, _MOST_BYTES), name, _WHAT)
    source = Source(values, name)
    found = declared.read(GpuFile, source)
    source.finish()
    assert found is not None
    return found
