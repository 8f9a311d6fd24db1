"""Training loops that go layer by layer: forward, then backward with overlapped reductions of
weight gradients.

Not here: what a layer computes (`cnn`), embeddings (`dlrm`), pipelines and micro-batches
(`transformer`).

Model, for the layers 1 ... L of one pass (an iteration), compute in this order, each after the one
before:

    forward          l = 1 ... L   after the weights of l are updated (its reduction in the
                                   previous pass has ended)
    weight gradient  l = L ... 1   its exchange starts at once and overlaps with what follows
    input gradient   l = L ... 2   layer 1 needs none

An exchange after `forward` or `input_gradient` blocks: the next compute waits for it. So data
parallelism exchanges weight gradients only, model parallelism activations and input gradients,
hybrids all three (ASTRA-SIM, ISPASS 2020, Table I and section IV-A). Residual branches run one
after another, as one NPU does. With buckets, weight gradients are exchanged once the last of a
bucket exists (`buckets.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Annotated

from ..declared import Allowed, Made, Within, Wrong, shown
from ..errors import ImpossibleError, InputError, Problem
from ..model.files import Model, load_model, parse_family
from ..model.gemm import Gemm
from ..model.limits import LARGEST, NPUS, Size, Zero, check_counts
from ..option_fields import read, takes_options
from . import buckets
from .program import Program
from .summary import Memory, RankClass, Summary
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Touch:
    """A kernel of `operations` over `bytes` read and written."""

    operations: int
    bytes: int
    kernel: str


@dataclass(frozen=True, slots=True)
class LayerExchange:
    """A collective: `bytes` per NPU among the ranks of `group` (empty: all)."""

    kind: str
    bytes: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class LayerWork:
    """One pass of one layer: what is computed, by shape or as a recorded time, and what is
    exchanged after it."""

    gemm: Gemm | None = None
    duration_ps: int = 0
    kernel: Touch | None = None
    """Kernel that is not a plain matrix multiplication."""
    before: tuple[Touch, ...] = ()
    """Kernels ahead of it, one after the other."""
    touches: tuple[Touch, ...] = ()
    """Kernels behind it, likewise."""
    exchange: LayerExchange | None = None


@dataclass(frozen=True, slots=True)
class TrainedLayer:
    """One layer of the loop. A missing gradient takes no time and exchanges nothing."""

    name: str
    forward: LayerWork
    input_gradient: LayerWork | None = None
    weight_gradient: LayerWork | None = None
    update_ps: int = 0
    """Time from the end of the weight gradient's exchange until the new weights are there; off the
    NPU."""
    update: Touch | None = None
    """The optimizer's kernel, between that exchange and the next forward pass; on the NPU."""
    width: int = 2
    """Bytes of an element of the matrices."""
    kept: int = 0
    """Bytes that stay in the NPU's memory from the forward to the backward pass."""


def train(
    program: Program,
    layers: Sequence[TrainedLayer],
    passes: int,
    overlap: bool = True,
    bucket_mb: float | None = None,
) -> None:
    """Adds `passes` iterations over `layers` to `program`. Without `overlap` the next compute waits
    for the exchange of weight gradients and for the update. With `bucket_mb`, weight gradients are
    exchanged in buckets of that size."""
    loop = _Loop(program, layers, overlap, bucket_mb)
    for _ in range(passes):
        for index, layer in enumerate(layers):
            with program.layer(loop.labels[index]), program.holding(allocates=layer.kept):
                loop.forward(index, layer)
        for index in range(len(layers) - 1, -1, -1):
            with program.layer(loop.labels[index]):
                loop.backward(index, layers[index])
                program.hold(loop.at[0], frees=layers[index].kept)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers whose weight gradients are exchanged together, and the exchange."""

    layers: tuple[int, ...]
    exchange: LayerExchange | None = None


def _buckets(layers: Sequence[TrainedLayer], bucket_mb: float | None) -> dict[int, _Bucket]:
    """The buckets by the layer whose gradient is the last one. Gradients that are exchanged in
    another way, or not at all, are in no bucket of others."""
    backward = [(index, layers[index].weight_gradient) for index in reversed(range(len(layers)))]
    wanted = [(index, work.exchange) for index, work in backward if work is not None]
    found = {index: _Bucket((index,)) for index, exchange in wanted if exchange is None}
    exchanged = [(index, exchange) for index, exchange in wanted if exchange is not None]
    for (kind, group), run in groupby(exchanged, lambda each: (each[1].kind, each[1].group)):
        for held in buckets.fill(list(run), _bytes, bucket_mb):
            bucket = _Bucket(
                tuple(index for index, _ in held), LayerExchange(kind, _bytes(held), group)
            )
            found[held[-1][0]] = bucket
    return found


def _labels(names: Sequence[str]) -> list[str]:
    """Names of layers in reports: a number is added where a name repeats, as in texts
    (`crates/trace/src/text/loops.rs`)."""
    found: list[str] = []
    used: set[str] = set()
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        free = (each for each in numbered if each not in used and each not in names)
        found.append(next(free) if name in used else name)
        used.add(found[-1])
    return found


def _bytes(held: Sequence[tuple[int, LayerExchange]]) -> int:
    return sum(exchange.bytes for _, exchange in held)


class _Loop:
    """Where the loop stands: the node that the next compute follows, and the last update of each
    layer's weights."""

    def __init__(
        self,
        program: Program,
        layers: Sequence[TrainedLayer],
        overlap: bool,
        bucket_mb: float | None,
    ) -> None:
        self.program = program
        self.layers = layers
        self.overlap = overlap
        self.bucket_mb = bucket_mb
        self.buckets = _buckets(layers, bucket_mb)
        self.labels = _labels([layer.name for layer in layers])
        self.at: list[int] = []
        self.updated: dict[int, list[int]] = {}

    def forward(self, index: int, layer: TrainedLayer) -> None:
        waits = self.updated.get(index, [])
        self._compute(layer, "forward", layer.forward, waits)
        self._block(layer, "forward", layer.forward)

    def backward(self, index: int, layer: TrainedLayer) -> None:
        if layer.weight_gradient is not None:
            self._compute(layer, "weight_gradient", layer.weight_gradient, [])
            self._reduce(index)
        if layer.input_gradient is not None and index > 0:
            self._compute(layer, "input_gradient", layer.input_gradient, [])
            self._block(layer, "input_gradient", layer.input_gradient)

    def _compute(self, layer: TrainedLayer, step: str, work: LayerWork, waits: list[int]) -> None:
        name = f"{layer.name}.{step}"
        for touch in work.before:
            self.at = [self._touch(f"{name}.{touch.kernel}", self.at, touch)]
        deps = self.at + waits
        if work.kernel is not None:
            self.at = [self._touch(name, deps, work.kernel)]
        elif work.gemm is not None:
            shape = work.gemm
            self.at = [
                self.program.gemm(
                    name,
                    deps,
                    m=shape.m,
                    n=shape.n,
                    k=shape.k,
                    batch=shape.batch,
                    width=layer.width,
                )
            ]
        else:
            self.at = [self.program.compute(name, deps, duration_ps=work.duration_ps)]
        for touch in work.touches:
            self.at = [self._touch(f"{name}.{touch.kernel}", self.at, touch)]

    def _touch(self, name: str, deps: list[int], work: Touch) -> int:
        add = self.program.compute
        return add(name, deps, operations=work.operations, bytes=work.bytes, kernel=work.kernel)

    def _block(self, layer: TrainedLayer, step: str, work: LayerWork) -> None:
        if work.exchange is not None:
            self.at = [self._exchange(f"{layer.name}.{step}", work.exchange)]

    def _exchange(self, name: str, wanted: LayerExchange) -> int:
        add, kind = self.program.collective, wanted.kind
        return add(f"{name}.{kind}", self.at, kind, wanted.bytes, wanted.group)

    def _reduce(self, index: int) -> None:
        """The exchange of a bucket and the update of its layers, after the bucket's last
        gradient."""
        bucket = self.buckets.get(index)
        if bucket is None:
            return
        summed = self._summed(f"{self.layers[index].name}.weight_gradient", bucket.exchange)
        for each in bucket.layers:
            with self.program.layer(self.labels[each]):
                self.updated[each] = self._update(self.layers[each], summed)
        done = [node for each in bucket.layers for node in self.updated[each]]
        self.at = self.at if self.overlap or not done else sorted(set(done))

    def _summed(self, name: str, wanted: LayerExchange | None) -> list[int]:
        """The exchange of a bucket, in pieces where it is larger than one may be."""
        if wanted is None:
            return []
        return [
            self._exchange(each, replace(wanted, bytes=part))
            for each, part in buckets.pieces(name, wanted.bytes, self.bucket_mb)
        ]

    def _update(self, layer: TrainedLayer, after: list[int]) -> list[int]:
        """The nodes that the next forward pass of a layer waits for."""
        name = f"{layer.name}.weight_gradient"
        if after and layer.update_ps:
            update, length = f"{name}.update", layer.update_ps
            after = [self.program.compute(update, after, duration_ps=length, host=True)]
        if layer.update is not None:
            after = [self._touch(f"{name}.optimizer", after or self.at, layer.update)]
        return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `layerwise`."""

    dp: int
    """NPUs that each take a part of the batch."""
    mp: int = 1
    """NPUs that share a layer and exchange activations."""
    inner_dp: int = 1
    """NPUs of a data-parallel group that are next to one another."""
    passes: int = 1
    """Iterations."""
    overlap: bool = True
    """Computation goes on while weight gradients are exchanged."""
    bucket_mb: float | None = None
    """Weight gradients are exchanged in buckets of at most this many MB, which layers share.
    Default: each layer's on their own."""


@takes_options(Options)
def layerwise(model: str | Model, **options: object) -> Workload:
    """Iterations of a list of layers with recorded times, as in ASTRA-sim 1.0's text files.

    The options are the fields of `Options`. Ranks are a mesh of `inner_dp` x `mp` x `dp /
    inner_dp`, the first fastest. Activations and input gradients are exchanged along the middle
    axis (group `model`), weight gradients along the other two (`data`). The platform's
    `npu.compute.speedup` multiplies the compute power. Raises `InputError` listing every
    problem."""
    found = load_model(model)
    chosen = read(Options, found.name, options)
    layers = recorded(found, chosen)
    _check(chosen)
    program = Program()
    train(program, layers, chosen.passes, chosen.overlap, chosen.bucket_mb)
    inner = chosen.inner_dp
    axes = [("inner", inner), ("model", chosen.mp), ("outer", chosen.dp // inner)]
    groups = {"model": ["model"], "data": ["inner", "outer"]}
    summary = _summary(found.name, program, chosen)
    return Workload.mesh(found.name, axes, groups, [], [program], summary, summary.notes)


def _summary(name: str, program: Program, options: Options) -> Summary:
    """Volumes of one iteration; a list of recorded times says neither operations nor memory."""
    volumes = tuple(
        replace(volume, count=volume.count // options.passes, bytes=volume.bytes // options.passes)
        for volume in program.volumes
    )
    ranks = options.dp * options.mp
    entry = RankClass("all", ranks, 0, volumes, Memory())
    note = "times are recorded: parameters, operations, batch and memory are not in the file"
    return Summary(name, "layerwise", ranks, 0, 0, 0, 0, 0, 0.0, (entry,), (note,))


_MOST_BYTES = 2**50
_MOST_LAYERS = 1_000_000
_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)


def _pass(raw: object) -> tuple[int, str, int]:
    """Cycles, and the collective after them with its bytes."""
    whole = raw if isinstance(raw, list) else []
    if [type(each) for each in whole] not in ([int], [int, str, int]):
        raise Wrong(f"{shown(raw)} is not {_PASS}")
    cycles, kind, size = whole if len(whole) == 3 else (*whole, "", 0)
    known = kind in _COLLECTIVES or len(whole) == 1
    if not (known and 0 <= cycles <= LARGEST and 0 <= size <= _MOST_BYTES):
        kinds = ", ".join(_COLLECTIVES)
        allowed = f"cycles and bytes from 0 to {LARGEST} and {_MOST_BYTES}, and one of {kinds}"
        raise Wrong(f"{shown(raw)} is out of range", allowed)
    return cycles, kind, size


_PASS = "[cycles] or [cycles, collective, bytes]"
_Pass = Annotated[tuple[int, str, int], Made(_pass), Allowed(_PASS)]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of a model file."""

    name: str
    forward: _Pass
    input_: _Pass
    weight: _Pass
    update: Zero = 0


@dataclass(frozen=True, slots=True)
class _File:
    layers: Annotated[tuple[_Layer, ...], Within(1, _MOST_LAYERS), Allowed("a list of mappings")]
    period_ps: Size = 1000


def recorded(model: Model, options: Options) -> list[TrainedLayer]:
    """The layers of a model file of the family `layerwise`. Raises `InputError` listing every
    problem."""
    file = parse_family(model, "layerwise", _File)

    def work(said: tuple[int, str, int], group: str, members: int) -> LayerWork:
        cycles, kind, amount = said
        exchange = LayerExchange(kind, amount, group) if kind and members > 1 else None
        return LayerWork(duration_ps=cycles * file.period_ps, exchange=exchange)

    return [
        TrainedLayer(
            each.name,
            work(each.forward, "model", options.mp),
            work(each.input_, "model", options.mp),
            work(each.weight, "data", options.dp),
            each.update * file.period_ps,
        )
        for each in file.layers
    ]


def mesh_problems(dp: int, mp: int) -> list[Problem]:
    """Faults of a mesh of `dp` x `mp` NPUs."""
    if dp * mp <= NPUS:
        return []
    return [Problem("", "dp", f"dp {dp} x mp {mp} NPUs are too many", f"{NPUS} in all")]


def _check(options: Options) -> None:
    problems = check_counts(
        {name: getattr(options, name) for name in ("dp", "mp", "inner_dp", "passes")}
    ) + buckets.check(options.bucket_mb)
    if problems:
        raise InputError(problems)
    problems += mesh_problems(options.dp, options.mp)
    if not problems and options.dp % options.inner_dp:
        ways = [each for each in range(1, options.dp + 1) if options.dp % each == 0]
        near = sorted(sorted(ways, key=lambda each: abs(each - options.inner_dp))[:3])
        message = f"{options.inner_dp} does not divide dp {options.dp}"
        problems.append(Problem("", "inner_dp", message, ", ".join(map(str, near))))
    if problems:
        raise ImpossibleError(problems)
