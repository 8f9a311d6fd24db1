"""How a model is spread over ranks: the degrees, the batch, the schedule.

Here: `Parallelism`, in four groups of options, the range of each, and its defaults. Not here:
whether they fit together and the model (`checks.py`), what each parallelism makes a rank do
(`layer.py`, `stage.py`), the order of micro-batches (`schedule.py`).
Ranks = tp x cp x dp x pp, tp fastest, then cp, expert parallelism inside dp, dp, and pp slowest
(Megatron's order)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal

from ..declared import Allowed, Made, Within, Wrong
from ..model.decoder import Count, Zero
from . import buckets

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe"]
Recompute = Literal["none", "selective", "ops", "full"]
RecomputeMethod = Literal["block", "uniform"]
Attention = Literal["flash", "unfused"]
Width = Literal["bf16", "fp16", "fp8", "nvfp4", "fp32"]
ContextExchange = Literal["p2p", "all_gather", "a2a"]
Recipe = Literal["delayed", "tensorwise", "rowwise", "blockwise"]
Offload = Literal["none", "optimizer", "parameters"]
Kernels = Literal["fused", "eager"]
Partition = Literal["layers", "cost"]
Moments = Literal["fp32", "bf16"]
Saved = Literal["plain", "fused"]
Regathered = Literal["all", "needed"]


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes of one element."""

    weight: int
    """Also of parameter gathering."""
    activation: int
    """Also of tensor-, context-, expert- and pipeline-parallel communication."""
    gemm: int
    """Elements that matrix multiplications read. Those of 4 bits count as 1 byte, with what their
    scales take."""
    optimizer: int
    """A parameter's optimizer state: Adam's two moments and, below fp32, a master copy, 4 each."""
    four_bits: bool = False
    """Whether matrix multiplications run at the rate of 4 bits."""

    @property
    def multiplied(self) -> int:
        """Bytes of the elements of matrix multiplications as kernels have them; 0 for 4 bits."""
        return 0 if self.four_bits else self.gemm


PRECISIONS: dict[str, Precision] = {
    "bf16": Precision(2, 2, 2, 12),
    "fp16": Precision(2, 2, 2, 12),
    "fp8": Precision(2, 2, 1, 12),
    "nvfp4": Precision(2, 2, 1, 12, four_bits=True),
    "fp32": Precision(4, 4, 4, 8),
}


BF16_MOMENTS = {
    name: dataclasses.replace(width, optimizer=width.optimizer - 4)
    for name, width in PRECISIONS.items()
}
"""The same with moments of 2 bytes."""


ZeroStage = Annotated[int, Within(0, 3), Allowed("0, 1, 2, 3")]
BucketSize = Annotated[float, Within(buckets.LEAST, buckets.MOST), Allowed(buckets.ALLOWED)]
Capacity = Annotated[float, Within(math.ulp(0.0), 1e6), Allowed("a number above 0, up to 1000000")]
Imbalance = Annotated[float, Within(1, 1e6), Allowed("a number from 1 to 1000000")]
_LISTED = Allowed("values and commas")


def _text(raw: object) -> str:
    """A list as the text that says the same."""
    listed = ",".join(map(str, raw)) if isinstance(raw, list | tuple) else raw
    if not isinstance(listed, str):
        raise Wrong(f"{raw!r} is neither a text nor a list")
    return listed


def _modules(raw: object) -> str:
    """Names with commas between them."""
    return ",".join(part.strip() for part in _text(raw).split(","))


ModuleNames = Annotated[str | Sequence[str], Made(_modules), _LISTED]


LayersPerStage = Annotated[str | Sequence[int], Made(_text), _LISTED]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees of parallelism."""

    tp: Count = 1
    """Tensor parallelism: heads and perceptrons are divided by `tp`."""
    sp: bool | None = None
    """Sequence parallelism: norms and dropouts are divided along the sequence by `tp`. Default: on
    with experts and tp, else off."""
    pp: Count = 1
    """Pipeline stages."""
    cp: Count = 1
    """Context parallelism: the sequence is divided by `cp`."""
    cp_comm_type: ContextExchange | None = None
    """How its ranks see all keys and values: `p2p`, in a ring during attention; `all_gather`,
    before it; `a2a`, which exchanges heads for tokens. Default: p2p; all_gather with unfused
    attention."""
    dp: Count = 1
    """Data parallelism: replicas of the model, the expert-parallel ones included."""
    ep: Count = 1
    """Expert parallelism: experts are divided over `ep` of the `dp` replicas."""
    etp: Count | None = None
    """Expert tensor parallelism: ranks that divide each expert. Default: `tp`. With 1, experts are
    whole, and `ep` takes all tp x cp ranks of a replica before those of others (Megatron-Core's
    `expert_tensor_parallel_size`)."""
    ep_node: Count | None = None
    """Ranks of `ep` in a node. A token is then sent once to each node that it visits, and from
    there to its experts' ranks (DeepEP). Default: it is sent to each of its experts directly."""
    node_limit: Count | None = None
    """With `ep_node`: the most nodes that a token visits. Default: all."""
    zero: ZeroStage = 0
    """ZeRO: what is divided by dp x cp. 1: optimizer state; 2: also gradients; 3: also parameters
    (FSDP)."""
    zero_group: Count | None = None
    """Neighbouring ranks that share out a shard; other groups replicate it (hybrid sharding, MiCS).
    Default: all of dp x cp."""
    ranks: Count | None = None
    """The number of ranks, to be checked against the product of the degrees."""


@dataclass(frozen=True, slots=True)
class StepOrder(Degrees):
    """Batch and order of a step."""

    micro_batch: Count = 1
    """Samples of a micro-batch."""
    global_batch: Count | None = None
    """Samples of a step. Default: one micro-batch for each replica; with a pipeline, four for each
    of its stages."""
    seq: Count | None = None
    """Tokens of a sample. Default: the model's."""
    schedule: Schedule = "1f1b"
    """The order of micro-batches; 1f1b with several virtual stages is interleaved. `dualpipe` runs
    micro-batches through the pipeline from both ends; each stage holds two parts of the model."""
    virtual_stages: Count = 1
    """Model chunks of a stage."""
    overlap_passes: bool = False
    """A forward pass runs at the same time as the backward pass of another micro-batch, so that the
    kernels of each hide the communication of the other (Megatron's overlap of expert parallelism,
    DualPipe)."""
    layers_per_stage: LayersPerStage | None = None
    """Layers of each part of the pipeline in model order, pp x virtual_stages numbers such as
    4*15,1, or Megatron's layout with embedding, layers, multi-token prediction and loss, such as
    Et*3|(tt|)*29m|L. Default: as `partition` says."""
    mtp: Zero = 0
    """Multi-token-prediction modules that are trained. Each is a projection and a layer before the
    same head, in the last part unless a layout says otherwise."""
    capacity_factor: Capacity | None = None
    """Experts take this multiple of an even share of tokens, padded. Default: no token is
    dropped."""
    imbalance: Imbalance = 1.0
    """Tokens of the busiest rank's experts over an even share (without a capacity). Every rank is
    assumed to be as busy."""


@dataclass(frozen=True, slots=True)
class Numbers(StepOrder):
    """Memory and number formats."""

    recompute: Recompute = "none"
    """Recomputation before a layer's backward pass: `none`, `selective` (the attention core), `ops`
    (all but attention and every other multiplication, as torchtitan's selective op) or `full` (the
    layer)."""
    recompute_modules: ModuleNames | None = None
    """Modules to recompute by themselves (with recompute none or selective), separated by commas:
    core_attn, layernorm, mla_up_proj, activation (between a perceptron's matrices), moe_act (the
    same of routed experts), mlp (a dense perceptron), moe (an expert block with its all-to-alls),
    shared_experts."""
    recompute_layers: Zero | None = None
    """With recompute full: how many layers of each part of the pipeline are recomputed, or, with
    the method uniform, share a checkpoint. Default: all layers are recomputed, each from its own
    input."""
    recompute_method: RecomputeMethod = "block"
    """Which layers `recompute_layers` counts: with `block` the first ones of each part, and the
    others keep their activations; with `uniform` those of each group, in which all layers are
    recomputed from the input of the first (Megatron-LM's names)."""
    attention: Attention = "flash"
    """`flash` (one kernel, skips what the causal mask hides) or `unfused` (writes the whole score
    matrix)."""
    precision: Width = "bf16"
    """Format of weights, activations and multiplications; optimizer states are fp32. With fp8 and
    nvfp4 (4 bits with a scale for each 16) the head stays in bf16."""
    fp8_recipe: Recipe = "tensorwise"
    """Scales of 8-bit operands: `delayed`, from earlier steps; `tensorwise`, one for the tensor;
    `rowwise`, for rows and columns (sequence parallelism then gathers 16 bits); `blockwise`, for
    128 elements or 128 x 128 (DeepSeek-V3)."""
    fp8_param_gather: bool = False
    """Parameters are cast to 8 bits by the rank that updates them, and gathered in 8 bits."""
    fp8_weight_cache: bool = False
    """Weights are cast to 8 bits once per step, not in every micro-batch, and kept in 8 bits, both
    plain and transposed."""
    fp8_activations: bool = False
    """Inputs of 8-bit multiplications and of gated functions are kept for the backward pass in 8
    bits, except the input of attention's output matrix."""
    fp8_dispatch: bool = False
    """Tokens are sent to experts in 8 bits, with a scale of 4 bytes for each 128 elements, and so
    are the gradients of their results. What comes back has 16 bits."""
    moments: Moments = "fp32"
    """Format of Adam's moments; the master copy is fp32."""
    lora_rank: Zero = 0
    """Rank of low-rank adapters (LoRA). Only adapters are trained; the model is frozen. 0: all
    parameters are trained."""
    lora_modules: ModuleNames | None = None
    """Matrices with adapters, separated by commas: qkv, out, up, down (Megatron's linear_qkv,
    linear_proj, linear_fc1, linear_fc2). Default: all four."""
    fp32_gradients: bool = False
    """Gradients are kept and reduced in 4 bytes with any precision."""
    offload: Offload = "none"
    """State in memory outside the NPUs: optimizer states, or with ZeRO 3 also parameters and
    gradients. Parameters are loaded one layer ahead."""
    in_switch: bool = False
    """Offloaded parameters are gathered, and gradients reduced, in the switches of the memory
    instead of by the ranks."""


@dataclass(frozen=True, slots=True)
class FrameworkKeys(Numbers):
    """Behaviour of a training framework. The fields are keys of `framework_set`."""

    kernels: Kernels = "fused"
    """Which kernels hold and move data: `fused`, as Megatron's with TransformerEngine, with one
    kernel for each gated function, rotary embedding, loss and sum of gradients; or `eager`, as
    plain PyTorch's."""
    saved: Saved = "plain"
    """Tensors that layers keep for the backward pass: `plain`, those of PyTorch's own functions, or
    `fused`, those of one kernel for each gated function and for the rotary embedding. Memory only.
    `kernels` eager implies `plain`."""
    fused_norm: bool = True
    """A norm is one kernel, which keeps what it reads. Off: operations in 4 bytes, as Hugging
    Face's, each a kernel, which also keep that in 4 bytes, and the normalized values."""
    loss: Saved = "plain"
    """Tensors of the loss: `plain`, PyTorch's function on logits in 4 bytes, or `fused`, a kernel
    that computes gradients in place. Memory only."""
    gathered_logits: bool = False
    """Logits are gathered over `tp`: each rank computes the loss of the whole vocabulary."""
    keeps_gathered: bool = False
    """With sp, gathered inputs of matrices are kept for the backward pass. Off: they are gathered
    again, as in Megatron."""
    merged: bool = True
    """Queries, keys and values are one matrix, and so are a gated perceptron's inputs, as in
    Megatron. Off: one multiplication for each, as in torchtitan. Not for experts and compressed
    keys."""
    gates_inside: bool = False
    """The router's weights multiply the values between an expert's matrices, so that its results
    need not be kept. Off: they multiply what comes back from experts."""
    separate_bias: bool = False
    """Biases of experts' second matrices are weighted and added expert by expert in 4 bytes, after
    the multiplication, as Megatron-Core's `TEGroupedMLP` does. Off: within the multiplication."""
    separate_clamp: bool = False
    """Inputs of gated functions are clamped by kernels of their own, as Megatron-Core does before
    its fused function. Off: within the function."""
    separate_rotary: bool = False
    """Rotary embeddings that scale are a kernel for each operation, as in Megatron-Core, whose
    fused kernel doesn't scale. Off: one kernel."""
    loss_metrics: Zero = 0
    """Metrics of training that each compute the loss again from the logits of a micro-batch, in 4
    bytes, as Composer's cross entropy and perplexity do."""
    early_stop: bool = False
    """Full recomputation ends when all that is needed exists: before a dense layer's last matrix
    and its reduction, as PyTorch's checkpoints do. Megatron's repeat the whole layer."""
    overlap_tp: bool = False
    """Tensor-parallel collectives of dense layers overlap piece by piece with the multiplications
    before or after them (asynchronous tensor parallelism)."""
    overlap_grad_reduce: bool = True
    """Gradients of a layer are reduced as soon as they exist, not all at the end."""
    overlap_param_gather: bool = True
    """With ZeRO 1 and 2, parameters are gathered layer by layer during the forward pass, not all
    after the optimizer."""
    bucket_mb: BucketSize | None = None
    """Gradients are reduced in buckets of at most this many MB (PyTorch's DDP: 25 MiB of
    parameters). With ZeRO 0 and 1, layers share a bucket that has room for them, and parameters are
    gathered in the same buckets. When not given, a layer's gradients are one bucket, or all
    gradients where they wait for the end."""
    regather: Regathered = "all"
    """With ZeRO 3, parameters that are gathered again before a backward pass: `all`, or `needed`:
    neither the embedding's, whose gradients don't depend on them, nor those with which the forward
    pass just ended, as XLA compiles JAX."""
    overlap_p2p: bool = True
    """A stage of the pipeline computes the next pass while it sends and receives. Off: it first
    waits for what it sends, and takes a message only after the pass before, as pipelines of JAX do,
    whose rounds end with a collective-permute."""
    unflatten_us: Annotated[float, Within(0, 1e6), Allowed("microseconds from 0 to 1000000")] = 0.0
    """Microseconds in which a host copies one rank's piece of one tensor out of what ZeRO 1 or 2
    gathered after the optimizer, for every tensor and rank. 0: parameters are flat and nothing is
    copied."""
    whole_tensors: bool = False
    """With ZeRO 1 ranks own whole tensors, not a piece of each: gradients are all-reduced, and each
    owner broadcasts its parameters."""
    grad_all_reduce: bool = False
    """With ZeRO 1 gradients are all-reduced, and each rank uses its piece. Off: they are
    reduce-scattered."""
    fp32_grad_reduce: bool = False
    """Gradients are reduced in 4 bytes, whatever they are kept in."""
    scatter_gather: bool = False
    """Each rank sends a `tp`-th of the activations to the next stage, where they are gathered; with
    sp they are already divided."""
    partition: Partition = "layers"
    """How layers are divided over stages: `layers`, equal numbers, or `cost`, equal multiplications
    including the head's, as nanotron does."""


FRAMEWORK_KEYS = tuple(
    each.name
    for each in dataclasses.fields(FrameworkKeys)
    if each.name not in Numbers.__dataclass_fields__
)
"""Keys of `framework_set`."""


@dataclass(frozen=True, slots=True)
class Software(FrameworkKeys):
    """Training framework."""

    framework: str | None = None
    """The training framework whose defaults apply to options that are not given, such as
    megatron-lm or torchtitan (docs/models/frameworks.md), or a file that describes one."""
    framework_set: Mapping[str, object] | None = None
    """Behaviour of the framework that differs from its description, KEY=VALUE, such as
    overlap_tp=true; without a framework, from Megatron's (docs/models/frameworks.md)."""


@dataclass(frozen=True, slots=True)
class Parallelism(Software):
    """Everything about a training step but the model: the options of `transformer` and `moe`."""

    @property
    def data(self) -> int:
        """Ranks that hold the same weights: dp x cp."""
        return self.dp * self.cp

    @property
    def both_ways(self) -> bool:
        """Whether micro-batches enter the pipeline at both ends."""
        return self.schedule == "dualpipe"

    @property
    def copies(self) -> int:
        """Ranks that hold the same dense parameters: under DualPipe two stages do."""
        return self.data * (2 if self.both_ways else 1)

    @property
    def expert_tp(self) -> int:
        """Ranks that divide each expert."""
        return self.etp or self.tp

    @property
    def folded(self) -> int:
        """Ranks of a replica that experts are spread over first, tp x cp; 1 where they are not."""
        return self.tp * self.cp if self.etp == 1 else 1

    @property
    def expert_replicas(self) -> int:
        """Number of the `dp` replicas that experts are spread over."""
        return self.ep // self.folded

    @property
    def parts(self) -> int:
        """Parts that the pipeline cuts the model in."""
        return self.pp * self.virtual_stages

    @property
    def modules(self) -> frozenset[str]:
        """Modules that are recomputed by themselves."""
        return frozenset(str(self.recompute_modules or "").split(",")) - {""}

    @property
    def adapted(self) -> frozenset[str]:
        """Matrices with adapters of low rank."""
        if not self.lora_rank:
            return frozenset()
        given = frozenset(str(self.lora_modules or "").split(",")) - {""}
        return given or frozenset(ADAPTED)

    @property
    def repeated(self) -> str:
        """The kind of recomputation, as `step_flops` calls it."""
        if self.recompute == "ops":
            return "ops, sums kept" if self.sp and self.tp > 1 else "ops"
        return (
            "full, early stop" if self.recompute == "full" and self.early_stop else self.recompute
        )

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.pp * self.data

    @property
    def shard_ranks(self) -> int:
        """Ranks that a shard of dense parameters is split over."""
        return self.zero_group or self.copies

    @property
    def replicas(self) -> int:
        """Ranks that hold the same shard."""
        return self.copies // self.shard_ranks

    @property
    def bytes(self) -> Precision:
        """Bytes of elements."""
        return (PRECISIONS if self.moments == "fp32" else BF16_MOMENTS)[self.precision]

    @property
    def master_bytes(self) -> int:
        """Bytes of a parameter that the optimizer reads besides its state: in fp32, where the
        weights are the master copy."""
        return self.bytes.weight if self.precision == "fp32" else 0

    @property
    def optimizer_bytes(self) -> int:
        """Bytes that Adam moves for a parameter: reads gradient, moments and master copy, and
        writes moments, master copy and weight. Source: torch/optim/adam.py; with bf16 and fp32
        28 each."""
        moved = self.gradient_bytes + 2 * self.bytes.optimizer + self.bytes.weight
        return moved + self.master_bytes

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient that is kept."""
        return 4 if self.fp32_gradients else self.bytes.weight

    @property
    def reduced_bytes(self) -> int:
        """Bytes of a gradient that is reduced."""
        return 4 if self.fp32_grad_reduce else self.gradient_bytes

    @property
    def load(self) -> float:
        """Tokens of a rank's experts over an even share."""
        return self.capacity_factor if self.capacity_factor is not None else self.imbalance

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step; needs `resolved` values."""
        return (self.global_batch or 0) // (self.micro_batch * self.dp)

    @property
    def last_micro_batch(self) -> int:
        """Number of the last one that goes through a chunk."""
        return self.micro_batches // (2 if self.both_ways else 1) - 1


_NAMES = tuple(each.name for each in dataclasses.fields(Parallelism))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_values = attrgetter(*_NAMES)
_SETTERS = [getattr(Parallelism, name).__set__ for name in _NAMES]


def changed(par: Parallelism, **values: object) -> Parallelism:
    """A parallelism with other values of some options. A search makes many thousands: this is
    `dataclasses.replace` in a fourth of its time."""
    whole = [*_values(par)]
    for name, value in values.items():
        whole[_PLACES[name]] = value
    made = object.__new__(Parallelism)
    for setter, value in zip(_SETTERS, whole, strict=True):
        setter(made, value)
    return made


ADAPTED = ("qkv", "out", "up", "down")
"""Matrices of a layer that may have adapters of low rank."""

EXPERT_OPTIONS = ("ep", "etp", "ep_node", "node_limit", "capacity_factor", "imbalance")
"""Options that only mean something with experts."""
