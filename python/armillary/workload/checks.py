"""Whether the options of a parallelism fit together, and the model.

Here: each check. Its message has the numbers and the nearest values that work. Not here: the
options, their defaults (`parallelism.py`) and ranges (`parallelism_reader.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..model.decoder import Decoder
from ..model.flops import step_flops
from ..model.weights import local_kv
from ..units import counted
from .indexer import sparse_faults
from .parallelism import ADAPTED, Parallelism
from .placement import LayoutFault, layout_of, read_layout

Fault = tuple[str, str, str]
"""Option, what is wrong, what is allowed."""

KNOWN_MODULES = (
    "core_attn",
    "layernorm",
    "mla_up_proj",
    "activation",
    "moe_act",
    "mlp",
    "moe",
    "shared_experts",
)
"""Modules that can be recomputed by themselves."""


class Layered(Protocol):
    """A model of layers."""

    @property
    def layers(self) -> int:
        """Number of its layers."""


class Mixed(Protocol):
    """A model that may have experts."""

    @property
    def experts(self) -> int:
        """Number of the routed experts of a layer; 0 for none."""

    @property
    def top_k(self) -> int:
        """Experts that a token goes to."""


def layout_faults(model: Layered, given: Parallelism) -> list[Fault]:
    """Faults of layers over stages, the batch, shards and the number of ranks."""
    return [fault for check in _LAYOUT for fault in check(model, given)]


def combination_faults(model: Decoder, given: Parallelism) -> list[Fault]:
    """Faults among values that are in range and filled in: those that do not fit together, or do
    not fit the model."""
    return [fault for check in _CHECKS for fault in check(model, given)]


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
    """Sizes that are not divisible by `tp`."""
    kv = model.kv
    faults = [f"{model.heads} heads are not divisible by {tp}"] if model.heads % tp else []
    if not model.kv_rank and kv % tp and tp % kv:
        faults.append(f"{kv} heads of keys and values are neither a multiple nor a divisor of {tp}")
    linear = (model.linear_key_heads, model.linear_value_heads)
    faults += [
        f"{heads} heads of linear attention are not divisible by {tp}"
        for heads in linear
        if heads % tp
    ]
    widths = {"perceptron": model.ffn, "expert": model.expert_ffn if model.experts else 0}
    faults += [
        f"the {what}'s inner width of {n} is not divisible by {tp}"
        for what, n in widths.items()
        if n % tp
    ]
    return faults


def _pipeline(model: Layered, given: Parallelism) -> list[Fault]:
    pp, chunks = given.pp, given.virtual_stages
    faults = _layers(model, given)
    if given.schedule == "interleaved" and chunks < 2:
        faults.append(
            ("virtual_stages", "an interleaved schedule of 1 chunk per stage", "2 or more")
        )
    if given.schedule != "interleaved" and chunks > 1:
        said = f"{chunks} chunks per stage under {given.schedule}"
        faults.append(("virtual_stages", said, "1, or the schedules interleaved and 1f1b"))
    if chunks > 1 and pp == 1:
        faults.append(
            ("virtual_stages", f"{chunks} chunks of a single stage", "1, or pp of 2 or more")
        )
    if given.overlap_passes and given.schedule not in ("1f1b", "interleaved", "dualpipe"):
        said = f"on under {given.schedule}, which runs no forward pass next to a backward one"
        faults.append(
            ("overlap_passes", said, "off, or the schedules 1f1b, interleaved and dualpipe")
        )
    if given.overlap_passes and given.zero == 3:
        faults.append(
            ("overlap_passes", "on with ZeRO 3, which gathers one layer ahead", "zero 0, 1 or 2")
        )
    return faults + (_both_ways(given) if given.both_ways else [])


def _both_ways(given: Parallelism) -> list[Fault]:
    """Requirements of DualPipe: an even number of stages, and micro-batches from both ends."""
    pp, count = given.pp, given.micro_batches
    faults: list[Fault] = []
    if pp % 2:
        faults.append(
            ("pp", f"{pp} stages under dualpipe, which pairs them", f"{_multiples(2, pp, 2)}")
        )
    unit = given.micro_batch * given.dp
    if (given.global_batch or 0) % unit == 0 and (count % 2 or count < 2 * pp):
        said = (
            f"{count} micro-batches under dualpipe, which takes an even number of at least 2 "
            f"pp = {2 * pp}"
        )
        faults.append(
            ("global_batch", said, _multiples(2 * unit, given.global_batch or 0, 2 * pp * unit))
        )
    if given.zero_group is not None:
        faults.append(("zero_group", f"{given.zero_group} under dualpipe", "none"))
    return faults


def _layers(model: Layered, given: Parallelism) -> list[Fault]:
    """Whether layers can be dealt to the parts of the pipeline as asked."""
    if given.layers_per_stage is not None:
        return _laid_out(model, given)
    pp, chunks = given.pp, given.virtual_stages
    parts = f"{given.parts} = pp {pp} x virtual_stages {chunks}"
    if given.partition == "cost" and model.layers < given.parts - 1:
        said = f"{counted(model.layers, 'layer')} for {parts} parts"
        return [("pp", said, f"up to {(model.layers + 1) // chunks}, the last with the head alone")]
    # With two parts more than layers, embedding and head have parts of their own.
    enough = model.layers >= given.parts or given.parts in (1, model.layers + 2)
    if given.partition == "cost" or enough:
        return []
    said = f"{counted(model.layers, 'layer')} for {parts} parts"
    if chunks > 1 and model.layers >= pp:
        return [("virtual_stages", said, f"up to {model.layers // pp}")]
    return [("pp", said, f"up to {model.layers // chunks}" if model.layers >= chunks else "none")]


def _laid_out(model: Layered, given: Parallelism) -> list[Fault]:
    if given.partition == "cost":
        return [
            (
                "layers_per_stage",
                "given with partition cost, which divides layers itself",
                "one of the two",
            )
        ]
    try:
        read_layout(str(given.layers_per_stage), model.layers, given.parts, given.mtp)
    except LayoutFault as fault:
        return [("layers_per_stage", fault.message, fault.allowed)]
    return []


_MOST_PASSES = 500_000
"""Layers x micro-batches of a step that are generated: about 15 million operations, 4 GB."""

_MOST_WORK = 2**63
"""Floating-point operations of a rank in a step: more than an hour at a petaflop a second."""


def _batch(model: Layered, given: Parallelism) -> list[Fault]:
    unit, batch = given.micro_batch * given.dp, given.global_batch or 0
    product = f"micro_batch {given.micro_batch} x dp {given.dp} = {unit}"
    if batch % unit:
        said = f"{batch} samples are not a multiple of {product}"
        step = unit * given.pp if given.schedule == "interleaved" else unit
        return [("global_batch", said, _multiples(step, batch, unit * given.pp))]
    count = batch // unit
    if count * model.layers > _MOST_PASSES:
        most = _MOST_PASSES // model.layers
        said = (
            f"{count} micro-batches of {model.layers} layers are more than is generated of one step"
        )
        allowed = (
            f"up to {unit * most}, {most} micro-batches" if most else f"up to {_MOST_PASSES} layers"
        )
        return [("global_batch", said, allowed)]
    if given.schedule == "interleaved" and count % given.pp:
        said = (
            f"{count} micro-batches are not a multiple of the pipeline's {given.pp} stages, as "
            "interleaving needs"
        )
        return [("global_batch", said, _multiples(unit * given.pp, batch))]
    return []


def token_faults(given: Parallelism) -> list[Fault]:
    """Faults of tokens that sequence and context parallelism divide."""
    seq, cp, tp = given.seq or 0, given.cp, given.tp
    faults = []
    parts = 2 * cp if cp > 1 else 1
    if seq % parts:
        said = (
            f"{seq} tokens are not divisible by 2 x cp = {parts} (two pieces a rank keep causal "
            "attention even)"
        )
        faults.append(("cp", said, f"a sequence of {_multiples(parts, seq)}"))
    elif given.sp and seq // cp % tp:
        said = (
            f"{seq // cp} tokens of a context-parallel rank are not divisible by tp {tp}, as "
            "sequence parallelism needs"
        )
        faults.append(
            ("sp", said, f"tp {nearest(tp, seq // cp, lambda value: seq // cp % value == 0)}")
        )
    tokens = given.micro_batch * seq // cp
    if tokens >= 2**31:
        faults.append(("micro_batch", f"{tokens} tokens of a rank at once", "up to 2,147,483,647"))
    return faults


def _sequence(model: Decoder, given: Parallelism) -> list[Fault]:
    seq, faults = given.seq or 0, token_faults(given)
    work = 2 * step_flops(model, given.global_batch or 0, seq).model // given.world
    if work > _MOST_WORK:
        faults.append(
            (
                "global_batch",
                f"{work:.1e} operations of a rank in a step",
                f"up to {_MOST_WORK:.1e}",
            )
        )
    if model.positions and seq > model.positions:
        faults.append(
            (
                "seq",
                f"{seq} tokens, but {model.positions} learned positions",
                f"1 to {model.positions}",
            )
        )
    return faults


def _context(model: Decoder, given: Parallelism) -> list[Fault]:
    """Whether heads divide where they are exchanged for tokens, and rings have their kernels."""
    if given.cp == 1:
        return []
    if given.cp_comm_type == "p2p" and given.attention == "unfused":
        said = "p2p with unfused attention, which writes no sums of its rows"
        return [("cp_comm_type", said, "all_gather, a2a")]
    if given.cp_comm_type != "a2a":
        return []

    def fits(cp: int) -> bool:
        return not _context_faults(model, given.tp, cp)

    faults = _context_faults(model, given.tp, given.cp)
    allowed = (
        f"cp {nearest(given.cp, model.heads, fits)}, or another cp_comm_type" if faults else ""
    )
    return [("cp_comm_type", fault, allowed) for fault in faults]


def _context_faults(model: Decoder, tp: int, cp: int) -> list[str]:
    """Heads of a tensor-parallel rank that are not divisible by `cp`."""
    kinds = {"heads": model.heads // tp}
    if not model.kv_rank:
        kinds["heads of keys and values"] = local_kv(model, tp)
    return [
        f"a2a, but {count} {kind} of a rank are not divisible by cp {cp}"
        for kind, count in kinds.items()
        if count % cp
    ]


def _recomputed(model: Decoder, given: Parallelism) -> list[Fault]:
    """`ops` counts a dense layer's multiplications; modules must be known, and the model have
    them."""
    faults: list[Fault] = []
    if given.recompute == "ops" and model.linear_key_heads:
        said = "ops of a model with linear attention"
        faults.append(("recompute", said, "none, selective, full"))
    if given.modules and given.recompute in ("ops", "full"):
        faults.append(
            (
                "recompute_modules",
                f"given with recompute {given.recompute}",
                "recompute none or selective",
            )
        )
    missing = {
        "mla_up_proj": not model.kv_rank,
        "mlp": bool(model.experts) and not model.first_dense and model.every == 1,
        **dict.fromkeys(("moe_act", "moe"), not model.experts),
        "shared_experts": not model.shared_experts,
    }
    there = [name for name in KNOWN_MODULES if not missing.get(name)]
    wrong = sorted(given.modules - set(there))
    if wrong:
        words = ", ".join(wrong)
        faults.append(
            ("recompute_modules", f"{words}: unknown, or not in this model", ", ".join(there))
        )
    return faults


def _counted_layers(model: Decoder, given: Parallelism) -> list[Fault]:
    """A number of recomputed layers counts those of a part, with full recomputation."""
    count, uniform = given.recompute_layers, given.recompute_method == "uniform"
    if count is None:
        said = "uniform without recompute_layers, the layers of a checkpoint"
        return [("recompute_method", said, "recompute_layers, 1 or more")] if uniform else []
    if given.recompute != "full":
        said = f"{count} with recompute {given.recompute}"
        return [("recompute_layers", said, "recompute full")]
    try:
        most = max(layout_of(model, given).layers)
    except LayoutFault:
        return []
    if count > most:
        words = f"no part of the pipeline has more than {most}"
        said = f"{counted(count, 'layer')} of each part, but {words}"
        return [("recompute_layers", said, f"{int(uniform)} to {most}")]
    return _groups(given, count, most) if uniform else []


def _groups(given: Parallelism, count: int, most: int) -> list[Fault]:
    """Layers that share a checkpoint."""
    if count == 0:
        said = "0 layers of each checkpoint with recompute_method uniform"
        return [("recompute_layers", said, f"1 to {most}, or recompute none")]
    if count == 1:
        return []
    faults: list[Fault] = []
    said = f"checkpoints of {count} layers with "
    if given.zero == 3:
        allowed = "1, zero 0, 1 or 2, or recompute_method block"
        faults.append(("recompute_layers", said + "ZeRO 3, which gathers one layer ahead", allowed))
    if given.mtp:
        modules = counted(given.mtp, "module")
        words = f"{modules} of multi-token prediction, which are recomputed one by one"
        faults.append(("recompute_layers", said + words, "1, mtp 0, or recompute_method block"))
    return faults


def expert_faults(model: Mixed, given: Parallelism) -> list[Fault]:
    """Faults of expert parallelism."""
    if not model.experts:
        used = [
            ("ep", given.ep, 1),
            ("etp", given.etp, None),
            ("capacity_factor", given.capacity_factor, None),
            ("imbalance", given.imbalance, 1),
            ("ep_node", given.ep_node, None),
            ("node_limit", given.node_limit, None),
            ("fp8_dispatch", given.fp8_dispatch, False),
            ("gates_inside", given.gates_inside, False),
        ]
        return [
            (key, f"{value} for a model without experts", "leave it out")
            for key, value, idle in used
            if value != idle
        ]
    if given.etp not in (None, 1, given.tp):
        return [
            ("etp", f"{given.etp} ranks for each expert, with tp {given.tp}", f"1 or {given.tp}")
        ]
    inner, outer = given.folded, given.folded * given.dp
    allowed = nearest(
        given.ep,
        outer,
        lambda value: model.experts % value == 0 and outer % value == 0 and value % inner == 0,
    )
    faults = []
    if model.experts % given.ep:
        faults.append(("ep", f"{model.experts} experts are not divisible by {given.ep}", allowed))
    if outer % given.ep:
        said = (
            f"expert parallelism of {given.ep} lies inside data parallelism of {given.dp}, "
            if inner == 1
            else f"expert parallelism of {given.ep} lies inside tp x cp x dp {outer}, "
        )
        faults.append(("ep", said + "which it doesn't divide", allowed))
    if given.ep % inner:
        said = f"{given.ep} with etp 1 is not a multiple of tp x cp {inner}"
        faults.append(("ep", said, allowed))
    if inner > 1 and given.zero_group is not None:
        faults.append(("zero_group", "given with etp 1", "leave it out"))
    if given.tp > 1 and not given.sp:
        faults.append(
            (
                "sp",
                f"off, with experts and tp {given.tp}",
                "on: tokens are sent to experts from where they are",
            )
        )
    return faults + _nodes(model, given)


def _nodes(model: Mixed, given: Parallelism) -> list[Fault]:
    """Whether the ranks of experts fill nodes, and a token may visit enough of these for its
    experts."""
    near, limit = given.ep_node, given.node_limit
    if near is None:
        return (
            [("node_limit", f"{limit} without ep_node", "ep_node, ranks of ep in a node")]
            if limit
            else []
        )
    if given.ep % near or near % given.folded:
        allowed = nearest(
            near, given.ep, lambda value: given.ep % value == 0 and value % given.folded == 0
        )
        said = f"{near} ranks in a node don't divide ep {given.ep}"
        if near % given.folded:
            said = f"{near} with etp 1 is not a multiple of tp x cp {given.folded}"
        return [("ep_node", said, allowed)]
    nodes = given.ep // near
    least = -(-model.top_k * nodes // model.experts)
    if limit is None or least <= limit <= nodes:
        return []
    said = f"{limit} of {nodes} nodes, for {model.top_k} of {model.experts} experts"
    return [("node_limit", said, f"{least} to {nodes}")]


def _modules(model: Decoder, given: Parallelism) -> list[Fault]:
    """Multi-token prediction, which needs the embedding in the last part; switches of 8 bits."""
    faults: list[Fault] = []
    if given.mtp > 8:
        faults.append(("mtp", f"{given.mtp} modules", "0 to 8"))
    narrow = given.bytes.gemm < given.bytes.activation
    for key in ("fp8_weight_cache", "fp8_activations"):
        if getattr(given, key) and not narrow:
            faults.append((key, f"on with precision {given.precision}", "precision fp8 or nvfp4"))
    if given.fp8_weight_cache and given.zero == 3:
        faults.append(
            ("fp8_weight_cache", "on with ZeRO 3, which keeps no whole weights", "zero 0, 1 or 2")
        )
    return faults


def _adapters(model: Decoder, given: Parallelism) -> list[Fault]:
    """Low-rank adapters: of dense layers, on matrices that there are."""
    if not given.lora_rank:
        said = f"{given.lora_modules} without lora_rank"
        return [("lora_modules", said, "lora_rank, 1 or more")] if given.lora_modules else []
    faults: list[Fault] = []
    kinds = {
        "experts": model.experts,
        "compressed keys": model.kv_rank,
        "linear attention": model.linear_key_heads,
    }
    if found := [name for name, there in kinds.items() if there]:
        said = f"adapters of a model with {' and '.join(found)}"
        allowed = "capture: of a module that has its adapters (docs/models/capture.md)"
        faults.append(("lora_rank", said, allowed))
    if given.lora_rank > model.hidden:
        said = f"{given.lora_rank}, above the hidden width"
        faults.append(("lora_rank", said, f"1 to {model.hidden}"))
    if wrong := sorted(given.adapted - set(ADAPTED)):
        faults.append(("lora_modules", f"unknown: {', '.join(wrong)}", ", ".join(ADAPTED)))
    if given.recompute == "ops":
        faults.append(("recompute", "ops with lora_rank", "none, selective, full"))
    if given.mtp:
        said = f"{counted(given.mtp, 'module')} with lora_rank, which trains nothing of them"
        faults.append(("mtp", said, "0"))
    return faults


def _world(model: Layered, given: Parallelism) -> list[Fault]:
    del model
    product = f"tp {given.tp} x cp {given.cp} x dp {given.dp} x pp {given.pp} = {given.world}"
    if given.world > 2**24:
        return [("dp", f"{product} ranks", "up to 16,777,216")]
    if given.ranks is None or given.ranks == given.world:
        return []
    inner = given.tp * given.cp * given.pp
    if given.ranks % inner == 0:
        return [
            (
                "ranks",
                f"{counted(given.ranks, 'rank')}, but {product}",
                f"dp {given.ranks // inner}",
            )
        ]
    return [
        (
            "ranks",
            f"{counted(given.ranks, 'rank')}, but {product}",
            f"ranks {_multiples(inner, given.ranks)} with dp as needed",
        )
    ]


def _shards(model: Layered, given: Parallelism) -> list[Fault]:
    del model
    faults = []
    group, inner = given.zero_group, given.cp * given.ep
    if group is not None and not given.zero:
        faults.append(
            ("zero_group", f"{group} with ZeRO 0, which shards nothing", "zero 1, 2 or 3")
        )
    elif group is not None and (group % inner or given.data % group):
        product = f"dp x cp = {given.data}"
        kind = "" if inner == 1 else f", or is not a multiple of cp {given.cp} x ep {given.ep}"
        allowed = nearest(
            group, given.data, lambda value: given.data % value == 0 and value % inner == 0
        )
        faults.append(("zero_group", f"{group} doesn't divide {product}{kind}", allowed))
    whole = {"whole_tensors": given.whole_tensors, "grad_all_reduce": given.grad_all_reduce}
    for key in (key for key, on in whole.items() if on):
        if given.zero != 1:
            said = f"on with ZeRO {given.zero}, which " + (
                "cuts gradients too" if given.zero else "deals out nothing"
            )
            faults.append((key, said, "zero 1"))
        if given.offload != "none":
            faults.append((key, f"on with offload {given.offload}", "offload none"))
    return faults


def _offloaded(model: Layered, given: Parallelism) -> list[Fault]:
    del model
    faults = []
    if given.in_switch and given.zero_group not in (None, given.data):
        said = f"{given.zero_group}, but switches of the memory reduce over all {given.data} ranks"
        faults.append(("zero_group", said, "none, or in_switch off"))
    if given.offload == "parameters" and given.zero < 3:
        faults.append(
            (
                "offload",
                f"parameters, which ZeRO {given.zero} keeps on every NPU",
                "zero 3, or optimizer",
            )
        )
    if given.in_switch and given.offload != "parameters":
        faults.append(("in_switch", f"on with offload {given.offload}", "offload parameters"))
    return faults


def _unflattened(model: Layered, given: Parallelism) -> list[Fault]:
    gathered = given.zero in (1, 2) and not given.overlap_param_gather and not given.whole_tensors
    if gathered or not given.unflatten_us:
        return []
    said = "copies out of what is gathered after the optimizer, and nothing is"
    return [
        ("unflatten_us", said, "0, or zero 1 or 2 with overlap_param_gather and whole_tensors off")
    ]


_CHECKS = (
    _tensor,
    _pipeline,
    _batch,
    _sequence,
    _context,
    sparse_faults,
    _recomputed,
    _counted_layers,
    expert_faults,
    _modules,
    _adapters,
    _shards,
    _unflattened,
    _offloaded,
    _world,
)
_LAYOUT = (_pipeline, _batch, _shards, _unflattened, _offloaded, _world)
"""Checks that any model of layers needs."""
