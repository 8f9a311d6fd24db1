"""How a model is spread over ranks: the degrees, the batch, the schedule, and whether they fit together.

Here: `Parallelism` and its checks, which list every problem with its numbers and the nearest values that work.
Not here: what each parallelism makes a rank do (`layer.py`, `stage.py`), the order of micro-batches (`schedule.py`).
Ranks = tp x cp x dp x pp, tp fastest, then cp, expert parallelism inside dp, dp, and pp slowest (Megatron's order).
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict, TypeVar, get_args, get_type_hints

from ..errors import InputError, Problem
from .architecture import Decoder, local_kv, step_flops

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1"]
Recompute = Literal["none", "selective", "ops", "full"]
Attention = Literal["flash", "unfused"]
Width = Literal["bf16", "fp16", "fp8", "fp32"]
ContextExchange = Literal["p2p", "all_gather", "a2a"]
Recipe = Literal["delayed", "tensorwise", "rowwise"]
Offload = Literal["none", "optimizer", "parameters"]
Kernels = Literal["fused", "eager"]
Partition = Literal["layers", "cost"]


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes of one element."""

    weight: int
    """Also of parameter gathering."""
    activation: int
    """Also of tensor-, context-, expert- and pipeline-parallel communication."""
    gemm: int
    """Elements that matrix multiplications read."""
    optimizer: int
    """A parameter's optimizer state: Adam's two moments and, below fp32, a master copy, 4 each."""


PRECISIONS: dict[str, Precision] = {
    "bf16": Precision(2, 2, 2, 12),
    "fp16": Precision(2, 2, 2, 12),
    "fp8": Precision(2, 2, 1, 12),
    "fp32": Precision(4, 4, 4, 8),
}


class Options(TypedDict, total=False):
    """The keyword arguments of `transformer` and `moe`, which are the fields of `Parallelism`."""

    tp: int
    pp: int
    dp: int
    cp: int
    cp_comm_type: ContextExchange | None
    ep: int
    sp: bool | None
    zero: int
    zero_group: int | None
    whole_tensors: bool
    distributed_optimizer: bool
    micro_batch: int
    global_batch: int | None
    seq: int | None
    schedule: Schedule
    virtual_stages: int
    recompute: Recompute
    early_stop: bool
    merged: bool
    attention: Attention
    precision: Width
    fp8_recipe: Recipe
    fp8_param_gather: bool
    fp32_gradients: bool
    overlap_tp: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    bucket_mb: float | None
    unflatten_us: float
    scatter_gather: bool
    kernels: Kernels
    partition: Partition
    capacity_factor: float | None
    imbalance: float
    offload: Offload
    in_switch: bool
    ranks: int | None


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Everything about a training step but the model."""

    tp: int = 1
    """Tensor parallelism: heads and perceptrons cut in `tp`."""
    pp: int = 1
    """Pipeline stages."""
    dp: int = 1
    """Data parallelism: replicas of the model, the expert-parallel ones included."""
    cp: int = 1
    """Context parallelism: the sequence cut in `cp`."""
    cp_comm_type: ContextExchange | None = None
    """How its ranks see all keys and values: `p2p`, in a ring beside attention; `all_gather`, before it; `a2a`, heads
    for tokens. When not given p2p, with unfused attention all_gather."""
    ep: int = 1
    """Expert parallelism: experts dealt to `ep` of the `dp` replicas."""
    sp: bool | None = None
    """Sequence parallelism: norms and dropouts cut along the sequence by `tp`. With experts and tp, on when not
    given."""
    zero: int = 0
    """ZeRO: what is cut by dp x cp. 1 optimizer, 2 and gradients, 3 and parameters (FSDP)."""
    zero_group: int | None = None
    """Neighbouring ranks that a shard is split over, all of dp x cp when not given; other groups replicate it (hybrid
    sharding, MiCS)."""
    whole_tensors: bool = False
    """With ZeRO 1 whole tensors are dealt to ranks, not a piece of each: gradients are all-reduced, and each owner
    broadcasts its parameters."""
    distributed_optimizer: bool = False
    """The same as `zero=1`."""
    micro_batch: int = 1
    """Samples of a micro-batch."""
    global_batch: int | None = None
    """Samples of a step; when not given one micro-batch a replica, four times the stages with a pipeline."""
    seq: int | None = None
    """Tokens of a sample; the model's when not given."""
    schedule: Schedule = "1f1b"
    """The order of micro-batches; 1f1b with several virtual stages is interleaved."""
    virtual_stages: int = 1
    """Model chunks of a stage."""
    recompute: Recompute = "none"
    """Before a layer's backward pass: `none`, `selective` (the attention core), `ops` (all but attention and every
    other multiplication, as torchtitan's selective op) or `full` (the layer)."""
    early_stop: bool = False
    """Full recomputation ends where nothing more is asked for: without a dense layer's last matrix and its reduction,
    as PyTorch's checkpoints. Megatron's play the whole layer."""
    merged: bool = True
    """Queries, keys and values are one matrix, and so are a gated perceptron's inputs, as in Megatron; off: a
    multiplication each, as in torchtitan. Not for experts and compressed keys."""
    attention: Attention = "flash"
    """`flash` (one kernel, skips what the causal mask hides) or `unfused` (writes the whole score matrix)."""
    precision: Width = "bf16"
    """Of weights, activations and multiplications; optimizer states are fp32. With fp8 the head stays in bf16."""
    fp8_recipe: Recipe = "tensorwise"
    """Scales of 8-bit operands: `delayed`, of earlier steps; `tensorwise`, of the tensor; `rowwise`, of rows and of
    columns, for which sequence parallelism gathers 16 bits."""
    fp8_param_gather: bool = False
    """Parameters are cast to 8 bits by the rank that updates them, and gathered so."""
    fp32_gradients: bool = False
    """Gradients are kept and reduced in 4 bytes, whatever the precision."""
    overlap_tp: bool = False
    """Tensor-parallel collectives of dense layers run beside the multiplications they feed or follow, piece by
    piece (asynchronous tensor parallelism)."""
    overlap_grad_reduce: bool = True
    """Gradients of a layer are reduced as soon as they are there, not all at the end."""
    overlap_param_gather: bool = True
    """With ZeRO 1 and 2 parameters are gathered by layer while the forward pass runs, not all after the optimizer."""
    bucket_mb: float | None = None
    """Gradients are reduced in buckets of at most as many MB (PyTorch's DDP: 25 MiB of parameters); a layer's, or all
    where they wait for the end, at once when not given."""
    unflatten_us: float = 0.0
    """Microseconds a host takes to copy one rank's piece of one tensor out of what ZeRO 1 or 2 gathered after the
    optimizer, for every tensor and rank; 0 where parameters lie flat and nothing is copied."""
    scatter_gather: bool = False
    """Stages send each other a `tp`-th of the activations a rank, gathered on arrival; with sp it is cut already."""
    kernels: Kernels = "fused"
    """What is held and moved: `fused` as by Megatron with TransformerEngine, where gated functions, rotary embedding,
    loss and sums of gradients are a kernel each, or `eager` as by plain PyTorch."""
    partition: Partition = "layers"
    """How layers are dealt to stages: `layers`, as many to each, or `cost`, by multiplications with the head's counted,
    as nanotron does."""
    capacity_factor: float | None = None
    """Experts take this multiple of an even share of tokens, padded; none are dropped when not given."""
    imbalance: float = 1.0
    """Tokens of the busiest rank's experts over an even share (without a capacity). Every rank is taken to be it."""
    offload: Offload = "none"
    """What lies in memory outside the NPUs: optimizer states, or with ZeRO 3 parameters and gradients, too. Parameters
    are loaded a layer ahead."""
    in_switch: bool = False
    """Offloaded parameters are gathered, and gradients reduced, in the switches of the memory instead of by the
    ranks."""
    ranks: int | None = None
    """Ranks there are, to be checked against the product."""

    @property
    def data(self) -> int:
        """Ranks that hold the same weights: dp x cp."""
        return self.dp * self.cp

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.data

    @property
    def shards(self) -> int:
        """ZeRO stage in force."""
        return max(self.zero, int(self.distributed_optimizer))

    @property
    def shard_ranks(self) -> int:
        """Ranks that a shard of dense parameters is split over."""
        return self.zero_group or self.data

    @property
    def replicas(self) -> int:
        """Ranks that hold the same shard."""
        return self.data // self.shard_ranks

    @property
    def bytes(self) -> Precision:
        """Bytes of elements."""
        return PRECISIONS[self.precision]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient, kept and reduced."""
        return 4 if self.fp32_gradients else self.bytes.weight

    @property
    def load(self) -> float:
        """Tokens of a rank's experts over an even share."""
        return self.capacity_factor if self.capacity_factor is not None else self.imbalance

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step; needs `resolved` values."""
        return (self.global_batch or 0) // (self.micro_batch * self.dp)


EXPERT_OPTIONS = ("ep", "capacity_factor", "imbalance")
"""Options that only mean something with experts."""

F = TypeVar("F", bound=Callable[..., object])


def takes_options(*without: str) -> Callable[[F], F]:
    """Gives a function of `model` and `**options` the signature that says what they are, all fields but `without`."""
    hints = get_type_hints(Parallelism)
    named = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in dataclasses.fields(Parallelism)
        if each.name not in without
    ]
    first = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def decorate(function: F) -> F:
        function.__signature__ = inspect.Signature([first, *named])  # type: ignore[attr-defined]
        return function

    return decorate


def parallelism(model: Decoder, name: str, options: Options) -> Parallelism:
    """The options with defaults filled in, checked against the model.

    Raises `InputError` listing every problem: degrees that don't divide what they cut, a product that is not `ranks`,
    a batch that is not whole micro-batches or is smaller than the pipeline, a choice that isn't one.
    """
    known = [field.name for field in dataclasses.fields(Parallelism)]
    unknown = [key for key in options if key not in known]
    if unknown:
        raise InputError([_problem(name, key, "is no option", _near(key, known)) for key in unknown])
    given = Parallelism(**options)
    problems = [_problem(name, *parts) for parts in _kinds(given)]
    if not problems:
        given = _resolved(model, given)
        problems = [_problem(name, *parts) for check in _CHECKS for parts in check(model, given)]
    if problems:
        raise InputError(problems)
    return given


Fault = tuple[str, str, str]
"""Option, what is wrong, what is allowed."""


def _problem(name: str, option: str, message: str, allowed: str) -> Problem:
    return Problem(name, option, message, allowed)


def _near(key: str, known: list[str]) -> str:
    return ", ".join(difflib.get_close_matches(key, known, n=3, cutoff=0.5) or known)


def _resolved(model: Decoder, given: Parallelism) -> Parallelism:
    """Fills in what was not given."""
    waves = 1 if given.pp == 1 else 4 * given.pp
    batch = given.global_batch if given.global_batch is not None else given.micro_batch * given.dp * waves
    interleaved = given.schedule == "1f1b" and given.virtual_stages > 1
    exchange: ContextExchange | None = given.cp_comm_type
    if given.cp > 1 and exchange is None:
        exchange = "p2p" if given.attention == "flash" else "all_gather"
    return dataclasses.replace(
        given,
        cp_comm_type=exchange,
        global_batch=batch,
        seq=given.seq if given.seq is not None else model.sequence,
        sp=given.sp if given.sp is not None else bool(model.experts) and given.tp > 1,
        schedule="interleaved" if interleaved else given.schedule,
    )


def _kinds(given: Parallelism) -> list[Fault]:
    """Values that are out of range whatever the model."""
    faults = []
    for key in (
        "tp",
        "pp",
        "dp",
        "cp",
        "ep",
        "micro_batch",
        "virtual_stages",
        "zero_group",
        "global_batch",
        "seq",
        "ranks",
    ):
        value = getattr(given, key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2**24):
            faults.append((key, f"{value!r} is no count", "a whole number from 1 to 16,777,216"))
    for key, allowed in (
        ("schedule", get_args(Schedule)),
        ("recompute", get_args(Recompute)),
        ("attention", get_args(Attention)),
        ("precision", tuple(PRECISIONS)),
        ("fp8_recipe", get_args(Recipe)),
        ("cp_comm_type", (None, *get_args(ContextExchange))),
        ("offload", get_args(Offload)),
        ("kernels", get_args(Kernels)),
        ("partition", get_args(Partition)),
        ("zero", (0, 1, 2, 3)),
    ):
        if getattr(given, key) not in allowed:
            choices = ", ".join(str(choice) for choice in allowed if choice is not None)
            faults.append((key, f"{getattr(given, key)!r} is not one of them", choices))
    for key in (
        "sp",
        "whole_tensors",
        "distributed_optimizer",
        "early_stop",
        "merged",
        "fp8_param_gather",
        "fp32_gradients",
        "overlap_tp",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "scatter_gather",
        "in_switch",
    ):
        value = getattr(given, key)
        if not isinstance(value, bool) and not (key == "sp" and value is None):
            faults.append((key, f"{value!r} is neither on nor off", "true or false"))
    value = given.unflatten_us
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e6:
        faults.append(("unflatten_us", f"{value!r} is out of range", "microseconds from 0 to 1000000"))
    value = given.bucket_mb
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.1 <= value <= 1e9
    ):
        faults.append(("bucket_mb", f"{value!r} is out of range", "MB from 0.1 to 1e9, or none"))
    for key, least in (("capacity_factor", 0.0), ("imbalance", 1.0)):
        value = getattr(given, key)
        if value is not None and not (isinstance(value, (int, float)) and least <= value <= 1e6 and value > 0):
            faults.append((key, f"{value!r} is out of range", f"a number from {least:g}" + (" (not 0)" * (least == 0))))
    return faults


def nearest(wanted: int, most: int, fits: Callable[[int], bool]) -> str:
    """The values up to `most` next to `wanted` that fit: `12 or 16`."""
    below = next((value for value in range(min(wanted, most), 0, -1) if fits(value)), None)
    above = next((value for value in range(wanted + 1, most + 1) if fits(value)), None)
    return " or ".join(str(value) for value in (below, above) if value) or "none"


def _multiples(unit: int, value: int, least: int = 1) -> str:
    """The multiples of `unit` next to `value`, from `least` on."""
    below, first = value // unit * unit, -(-least // unit) * unit
    return f"{below} or {below + unit}" if below >= first else str(first)


def _tensor(model: Decoder, given: Parallelism) -> list[Fault]:
    def fits(tp: int) -> bool:
        return not _tensor_faults(model, tp)

    faults = _tensor_faults(model, given.tp)
    allowed = nearest(given.tp, model.heads, fits) if faults else ""
    return [("tp", fault, allowed) for fault in faults]


def _tensor_faults(model: Decoder, tp: int) -> list[str]:
    """What doesn't divide by `tp`."""
    kv = model.kv
    faults = [f"{model.heads} heads don't divide by {tp}"] if model.heads % tp else []
    if not model.kv_rank and kv % tp and tp % kv:
        faults.append(f"{kv} heads of keys and values neither divide by {tp} nor divide it")
    widths = {"perceptron": model.ffn, "expert": model.expert_ffn if model.experts else 0}
    faults += [f"the {what}'s inner width of {n} doesn't divide by {tp}" for what, n in widths.items() if n % tp]
    return faults


def _pipeline(model: Decoder, given: Parallelism) -> list[Fault]:
    pp, chunks = given.pp, given.virtual_stages
    faults = []
    if given.partition == "cost" and model.layers < pp * chunks - 1:
        said = f"{model.layers} layers for {pp * chunks} = pp {pp} x virtual_stages {chunks} parts"
        faults.append(("pp", said, f"up to {(model.layers + 1) // chunks}, the last with the head alone"))
    elif given.partition == "layers" and not layers_fit(model.layers, pp * chunks):
        said = f"{model.layers} layers don't divide by {pp * chunks} = pp {pp} x virtual_stages {chunks}"
        allowed = nearest(pp, model.layers, lambda value: layers_fit(model.layers, value * chunks))
        help_ = f"{allowed} ({model.layers + 2} is divided too, embedding and head as a layer each)"
        faults.append(("pp", said, help_))
    if given.schedule == "interleaved" and chunks < 2:
        faults.append(("virtual_stages", "an interleaved schedule of 1 chunk a stage", "2 or more"))
    if given.schedule != "interleaved" and chunks > 1:
        said = f"{chunks} chunks a stage under {given.schedule}"
        faults.append(("virtual_stages", said, "1, or the schedules interleaved and 1f1b"))
    if chunks > 1 and pp == 1:
        faults.append(("virtual_stages", f"{chunks} chunks of a single stage", "1, or pp of 2 or more"))
    return faults


def layers_fit(layers: int, chunks: int) -> bool:
    """Whether layers, or layers with embedding and head as one each, divide into `chunks`."""
    return layers % chunks == 0 or (chunks > 1 and (layers + 2) % chunks == 0)


MOST_PASSES = 500_000
"""Layers x micro-batches of a step that are generated: about 15 million operations, 4 GB."""

MOST_WORK = 2**63
"""Floating-point operations of a rank in a step: more than an hour at a petaflop a second."""


def _batch(model: Decoder, given: Parallelism) -> list[Fault]:
    unit, batch = given.micro_batch * given.dp, given.global_batch or 0
    product = f"micro_batch {given.micro_batch} x dp {given.dp} = {unit}"
    if batch % unit:
        said = f"{batch} samples are no multiple of {product}"
        step = unit * given.pp if given.schedule == "interleaved" else unit
        return [("global_batch", said, _multiples(step, batch, unit * given.pp))]
    count = batch // unit
    if count * model.layers > MOST_PASSES:
        most = MOST_PASSES // model.layers
        said = f"{count} micro-batches of {model.layers} layers are more than is generated of one step"
        allowed = f"up to {unit * most}, {most} micro-batches" if most else f"up to {MOST_PASSES} layers"
        return [("global_batch", said, allowed)]
    if given.schedule == "interleaved" and count % given.pp:
        said = f"{count} micro-batches are no multiple of the pipeline's {given.pp} stages, as interleaving needs"
        return [("global_batch", said, _multiples(unit * given.pp, batch))]
    return []


def _sequence(model: Decoder, given: Parallelism) -> list[Fault]:
    seq, cp, tp = given.seq or 0, given.cp, given.tp
    faults = []
    parts = 2 * cp if cp > 1 else 1
    if seq % parts:
        said = f"{seq} tokens don't divide by 2 x cp = {parts} (two pieces a rank keep causal attention even)"
        faults.append(("cp", said, f"a sequence of {_multiples(parts, seq)}"))
    elif given.sp and seq // cp % tp:
        said = f"{seq // cp} tokens of a context-parallel rank don't divide by tp {tp}, as sequence parallelism needs"
        faults.append(("sp", said, f"tp {nearest(tp, seq // cp, lambda value: seq // cp % value == 0)}"))
    tokens = given.micro_batch * seq // cp
    if tokens >= 2**31:
        faults.append(("micro_batch", f"{tokens} tokens of a rank at once", "up to 2,147,483,647"))
    work = 2 * step_flops(model, given.global_batch or 0, seq).model // given.world
    if work > MOST_WORK:
        faults.append(("global_batch", f"{work:.1e} operations of a rank in a step", f"up to {MOST_WORK:.1e}"))
    if model.positions and seq > model.positions:
        faults.append(("seq", f"{seq} tokens, but {model.positions} learned positions", f"1 to {model.positions}"))
    return faults


def _context(model: Decoder, given: Parallelism) -> list[Fault]:
    """Whether heads divide where they are exchanged for tokens, and rings have their kernels."""
    if given.cp == 1:
        return []
    if given.cp_comm_type == "p2p" and given.attention == "unfused":
        return [("cp_comm_type", "p2p with unfused attention, which writes no sums of its rows", "all_gather, a2a")]
    if given.cp_comm_type != "a2a":
        return []

    def fits(cp: int) -> bool:
        return not _context_faults(model, given.tp, cp)

    faults = _context_faults(model, given.tp, given.cp)
    allowed = f"cp {nearest(given.cp, model.heads, fits)}, or another cp_comm_type" if faults else ""
    return [("cp_comm_type", fault, allowed) for fault in faults]


def _context_faults(model: Decoder, tp: int, cp: int) -> list[str]:
    """Heads of a tensor-parallel rank that don't divide by `cp`."""
    kinds = {"heads": model.heads // tp}
    if not model.kv_rank:
        kinds["heads of keys and values"] = local_kv(model, tp)
    return [f"a2a, but {count} {kind} of a rank don't divide by cp {cp}" for kind, count in kinds.items() if count % cp]


def _recomputed(model: Decoder, given: Parallelism) -> list[Fault]:
    """`ops` counts a dense layer's multiplications."""
    if given.recompute != "ops" or not (model.experts or model.kv_rank):
        return []
    said = "ops of a model with " + ("experts" if model.experts else "compressed keys and values")
    return [("recompute", said, "none, selective, full")]


def _experts(model: Decoder, given: Parallelism) -> list[Fault]:
    if not model.experts:
        used = [
            ("ep", given.ep, 1),
            ("capacity_factor", given.capacity_factor, None),
            ("imbalance", given.imbalance, 1),
        ]
        return [
            (key, f"{value} for a model without experts", "leave it out") for key, value, idle in used if value != idle
        ]
    allowed = nearest(given.ep, given.dp, lambda value: model.experts % value == 0 and given.dp % value == 0)
    faults = []
    if model.experts % given.ep:
        faults.append(("ep", f"{model.experts} experts don't divide by {given.ep}", allowed))
    if given.dp % given.ep:
        said = f"expert parallelism of {given.ep} lies inside data parallelism of {given.dp}, which it doesn't divide"
        faults.append(("ep", said, allowed))
    if given.tp > 1 and not given.sp:
        faults.append(
            ("sp", f"off, with experts and tp {given.tp}", "on: tokens are sent to experts from where they are")
        )
    return faults


def _world(model: Decoder, given: Parallelism) -> list[Fault]:
    del model
    product = f"tp {given.tp} x cp {given.cp} x dp {given.dp} x pp {given.pp} = {given.world}"
    if given.world > 2**24:
        return [("dp", f"{product} ranks", "up to 16,777,216")]
    if given.ranks is None or given.ranks == given.world:
        return []
    inner = given.tp * given.cp * given.pp
    if given.ranks % inner == 0:
        return [("ranks", f"{given.ranks} ranks, but {product}", f"dp {given.ranks // inner}")]
    return [
        ("ranks", f"{given.ranks} ranks, but {product}", f"ranks {_multiples(inner, given.ranks)} with dp as needed")
    ]


def _shards(model: Decoder, given: Parallelism) -> list[Fault]:
    del model
    faults = []
    group, inner = given.zero_group, given.cp * given.ep
    if group is not None and not given.shards:
        faults.append(("zero_group", f"{group} with ZeRO 0, which cuts nothing", "zero 1, 2 or 3"))
    elif group is not None and (group % inner or given.data % group):
        product = f"dp x cp = {given.data}"
        kind = "" if inner == 1 else f", or is no multiple of cp {given.cp} x ep {given.ep}"
        allowed = nearest(group, given.data, lambda value: given.data % value == 0 and value % inner == 0)
        faults.append(("zero_group", f"{group} doesn't divide {product}{kind}", allowed))
    if given.whole_tensors and given.shards != 1:
        said = f"on with ZeRO {given.shards}, which " + ("cuts gradients too" if given.shards else "deals out nothing")
        faults.append(("whole_tensors", said, "zero 1"))
    if given.whole_tensors and given.offload != "none":
        faults.append(("whole_tensors", f"on with offload {given.offload}", "offload none"))
    return faults


def _offloaded(model: Decoder, given: Parallelism) -> list[Fault]:
    del model
    faults = []
    if given.in_switch and given.zero_group not in (None, given.data):
        said = f"{given.zero_group}, but switches of the memory reduce over all {given.data} ranks"
        faults.append(("zero_group", said, "none, or in_switch off"))
    if given.offload == "parameters" and given.shards < 3:
        faults.append(("offload", f"parameters, which ZeRO {given.shards} keeps on every NPU", "zero 3, or optimizer"))
    if given.in_switch and given.offload != "parameters":
        faults.append(("in_switch", f"on with offload {given.offload}", "offload parameters"))
    if given.in_switch and given.tp * given.pp > 1:
        said = f"on with tp {given.tp} x pp {given.pp}: switches gather over all NPUs, which hold different parameters"
        faults.append(("in_switch", said, "tp 1 and pp 1"))
    return faults


def _unflattened(model: Decoder, given: Parallelism) -> list[Fault]:
    gathered = given.shards in (1, 2) and not given.overlap_param_gather and not given.whole_tensors
    if gathered or not given.unflatten_us:
        return []
    said = "copies out of what is gathered after the optimizer, and nothing is"
    return [("unflatten_us", said, "0, or zero 1 or 2 with overlap_param_gather and whole_tensors off")]


_CHECKS = (
    _tensor,
    _pipeline,
    _batch,
    _sequence,
    _context,
    _recomputed,
    _experts,
    _shards,
    _unflattened,
    _offloaded,
    _world,
)
