"""Training steps of captured models, with any parallelism, ZeRO and recomputation.

Here: from a capture and its options to a workload. Not here: how a model is captured (`capture/`),
what a rank has of it (`captured_parallel.py`), kernels (`captured_kernels.py`), the program of a
stage (`stage.py`). Each repeated module is a layer. Operations before the first of them are a unit
of the first stage, all others outside of them a unit of the last one.

- A micro-batch is what was captured. Its kernels run in the order in which PyTorch ran them.
- Gradients are accumulated as PyTorch does: the first micro-batch's is kept, others are added.
- Memory: parameters, gradients and optimizer state as of any model; tensors that autograd keeps;
  and the most that the passes of one unit hold at once next to these (`_passing`).
- Parameters of the embedding that the head uses, too, are on both of their stages.

Source: PyTorch's autograd and caching of tensors."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ..capture.parameter_counts import Parameter
from ..capture.records import ONCE, Block, Buffer, Operation
from ..capture.result import Capture
from ..errors import ImpossibleError, InputError, Problem
from ..model.decoder import Count, Zero
from ..model.files import Model, load_model
from ..model.huggingface_names import CAPTURED
from ..model.weights import Tensors, Weights
from ..option_fields import takes_options
from ..units import counted
from .captured_kernels import script_again, scripts
from .captured_parallel import Division, LocalBlock, divide
from .captured_recompute import by_names, recomputation
from .checks import Fault, expert_faults, layout_faults, nearest, token_faults
from .memory import Rules
from .mesh import spread, stage_programs
from .parallelism import (
    PRECISIONS,
    BucketSize,
    Capacity,
    ContextExchange,
    Imbalance,
    LayersPerStage,
    ModuleNames,
    Moments,
    Parallelism,
    Recipe,
    Width,
    ZeroStage,
)
from .parallelism_reader import in_range
from .placement import Layout, dealt, read_layout, split
from .plan import Chunk, StagePlan, Unit, placement
from .schedule import bubble_share
from .stage import rings
from .summary import RankClass, Summary
from .workload import Workload

_PRECISIONS: dict[str, Width] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `captured`."""

    micro_batch: Count | None = None
    """Samples of a micro-batch of a configuration. Default: 1. A capture has its own."""
    seq: Count | None = None
    """Tokens of a sample of a configuration. Default: 4096. A capture has its own."""
    images: Zero = 0
    """Images of a sample of a configuration, next to its tokens."""
    image_size: Zero = 0
    """Their height and width in pixels; 0: as the configuration says."""
    treat: ModuleNames | None = None
    """Stands for classes of modules of a configuration that cannot be captured, CLASS=RULE, such as
    Router=linear: `skip`, `linear`, `linear:WIDTH` or `experts:COUNT`. Separated by commas."""
    tp: Count = 1
    """Tensor parallelism: parameters with a rule are divided by `tp`; others are replicated."""
    sp: bool | None = None
    """Sequence parallelism: what tensor parallelism does not divide is divided by tokens. Default:
    on with experts and tp, else off."""
    cp: Count = 1
    """Context parallelism: the sequence is divided by `cp`."""
    cp_comm_type: ContextExchange | None = None
    """How its ranks see all keys and values: `p2p`, in a ring during attention; `all_gather`,
    before it; `a2a`, which exchanges heads for tokens. Default: p2p."""
    dp: Count = 1
    """Data parallelism: replicas of the model, the expert-parallel ones included."""
    ep: Count = 1
    """Expert parallelism: experts are divided over `ep` of the `dp` replicas."""
    etp: Count | None = None
    """Expert tensor parallelism: ranks that divide each expert. Default: `tp`. With 1, experts are
    whole, and `ep` takes all tp x cp ranks of a replica before those of others."""
    capacity_factor: Capacity | None = None
    """Experts take this multiple of an even share of tokens, padded. Default: no token is
    dropped."""
    imbalance: Imbalance = 1.0
    """Tokens of the busiest rank's experts over an even share (without a capacity). Every rank is
    assumed to be as busy."""
    pp: Count = 1
    """Pipeline stages."""
    ranks: Count | None = None
    """The number of ranks, to be checked against tp x cp x dp x pp."""
    global_batch: Count | None = None
    """Samples of a step. Default: one micro-batch for each replica; with a pipeline, four for each
    of its stages. A micro-batch is what was captured."""
    schedule: Literal["gpipe", "1f1b", "interleaved"] = "1f1b"
    """The order of micro-batches; 1f1b with several virtual stages is interleaved."""
    virtual_stages: Count = 1
    """Model chunks of a stage."""
    layers_per_stage: LayersPerStage | None = None
    """Layers of each part of the pipeline in model order, pp x virtual_stages numbers such as
    4*15,1. Default: equal numbers."""
    zero: ZeroStage = 0
    """ZeRO: what is divided by dp x cp. 1: optimizer state; 2: also gradients; 3: also parameters
    (FSDP)."""
    zero_group: Count | None = None
    """Neighbouring ranks that share out a shard; other groups replicate it. Default: all of dp x
    cp."""
    recompute: Literal["none", "ops", "full"] = "none"
    """Recomputation before a layer's backward pass: `none`; `full` (the layer); or `ops`: all but
    results of attention and of every other matrix product, as torchtitan does."""
    recompute_modules: ModuleNames | None = None
    """Modules to recompute by themselves, by the ends of their names: `mlp`, `layers.*.mlp`. They
    keep their inputs. Separated by commas, with recompute none."""
    early_stop: bool = False
    """Recomputation ends when all that is needed exists, as PyTorch's checkpoints do by default.
    Off: the whole module or layer is computed again, as torchtitan and Megatron do."""
    precision: Width | None = None
    """Format of matrix products of parameters in repeated modules. Default: the capture's format;
    `fp8` and `nvfp4` are narrower ones. Routers and matrices whose sizes are not multiples of 16
    keep their format."""
    fp8_recipe: Recipe = "tensorwise"
    """Scales of 8-bit operands: `delayed`, from earlier steps; `tensorwise`, one for the tensor;
    `rowwise`, for rows and columns; `blockwise`, for 128 elements or 128 x 128 (DeepSeek-V3)."""
    moments: Moments = "fp32"
    """Format of Adam's moments; the master copy is fp32."""
    fp32_gradients: bool = False
    """Gradients are kept and reduced in 4 bytes."""
    kernels: Literal["fused", "eager"] = "fused"
    """`fused`: kernels that only pass over tensors are merged, as `torch.compile` does. `eager`:
    each is a kernel of its own."""
    overlap_grad_reduce: bool = True
    """Gradients of a layer are reduced as soon as they exist, not all at the end."""
    overlap_param_gather: bool = True
    """With ZeRO 1 and 2, parameters are gathered layer by layer during the forward pass, not all
    after the optimizer."""
    bucket_mb: BucketSize | None = None
    """Gradients are reduced in buckets of at most this many MB."""


@takes_options(Options)
def captured(model: Capture | Model | str | os.PathLike[str], **options: object) -> Workload:
    """One training step of a captured model: `captured(arm.capture(module, inputs), dp=8)`, or
    `captured("capture:config.json", dp=8)` of a Hugging Face configuration.

    The options are the fields of `Options`. There are tp x cp x dp x pp ranks, tp
    fastest. Raises
    `InputError` listing every problem."""
    named = model if isinstance(model, Capture) else load_model(model)
    given = in_range(Options, named.name, options)
    found = _found(named, given)
    par = _parallelism(found, given)
    plan = CapturedPlan(_Setting(by_names(found, sorted(par.modules)), par))
    programs, memories = stage_programs(plan)
    warnings = _warnings(plan)
    around = len(rings(plan.at.par))
    classes = tuple(
        RankClass(
            f"stage {stage}",
            plan.at.par.world // plan.at.par.pp,
            each.operations,
            each.volumes,
            memory,
        )
        for stage, each, memory in zip(plan.place.stages, programs[::around], memories, strict=True)
    )
    return spread(found.name, plan.at.par, programs, _summary(plan, classes, warnings), warnings)


_OF_INPUTS = ("images", "image_size", "treat")
"""Options of how a configuration is captured."""


def _found(model: Capture | Model, given: Options) -> Capture:
    """The capture. Raises `InputError` where the options ask for another one."""
    if isinstance(model, Capture):
        for name in _OF_INPUTS:
            if value := getattr(given, name):
                said = f"{value}, but the capture has been made"
                raise InputError([Problem(model.name, name, said, f"arm.capture(..., {name}=...)")])
        had = {"micro_batch": model.samples, "seq": model.tokens // model.samples}
        for name, size in had.items():
            if getattr(given, name) not in (None, size):
                said = f"{getattr(given, name)}, but {size} were captured"
                raise InputError([Problem(model.name, name, said, "another capture")])
        return model
    if model.family != "captured":
        said = f"a model of the family {model.family!r}"
        raise InputError([model.problem("family", said, f"{CAPTURED}{model.file or 'PATH'}")])
    sizes = given.micro_batch or 1, given.seq or 4096, given.images, given.image_size
    fields = json.dumps(model.fields)
    return _recorded(fields, model.file, model.name, sizes, str(given.treat or ""))


@functools.lru_cache(maxsize=8)
def _recorded(
    fields: str, file: str, name: str, sizes: tuple[int, int, int, int], treat: str
) -> Capture:
    """The capture of a configuration; sweeps ask for it again and again."""
    from ..capture import of_configuration
    from ..capture.kept import capture

    values = json.loads(fields)

    def make() -> Capture:
        return of_configuration(values, file, *sizes, name=name, treat=treat)

    batch, sequence, *more = sizes
    return replace(capture(values, batch, sequence, make, *more, treat), name=name)


@dataclass(frozen=True)
class _Setting:
    """A captured model and its parallelism."""

    found: Capture
    par: Parallelism

    @property
    def full(self) -> int:
        """Bytes between two stages: what enters a repeated module, all tokens of the rank."""
        return -(-max((block.entering for block in self.found.blocks), default=0) // self.par.cp)

    @property
    def cut(self) -> int:
        """The same, cut where sequence parallelism cuts it."""
        return -(-self.full // (self.par.tp if self.par.sp else 1))

    @property
    def eager(self) -> bool:
        """Gradients are accumulated by kernels of their own, as PyTorch does."""
        return True


_OWN = (
    *("global_batch", "schedule", "micro_batch", "seq", "sp", "cp_comm_type", "precision"),
    *_OF_INPUTS,
)
"""Options that are not those of any model as they are."""


def _parallelism(found: Capture, given: Options) -> Parallelism:
    """The options as those of any model. Raises `InputError`."""
    waves = 1 if given.pp == 1 else 4 * given.pp
    batch = given.global_batch
    par = Parallelism(
        **{name: getattr(given, name) for name in Options.__dataclass_fields__ if name not in _OWN},
        micro_batch=found.samples,
        global_batch=found.samples * given.dp * waves if batch is None else batch,
        seq=max(found.tokens // found.samples, 1),
        schedule="interleaved" if given.virtual_stages > 1 else given.schedule,
        precision=_precision(found, given.precision),
        cp_comm_type=given.cp_comm_type or ("p2p" if given.cp > 1 else None),
        sp=bool(found.rules.experts) and given.tp > 1 if given.sp is None else given.sp,
    )
    if given.pp > 1 and not found.order:
        said = "no module repeats, so that there is nothing to cut into stages"
        raise ImpossibleError([Problem(found.name, "pp", said, "1")])
    if par.modules and par.recompute != "none":
        said = f"modules by themselves, and {par.recompute} recomputation of layers"
        raise InputError([Problem(found.name, "recompute_modules", said, "one of them")])
    experts = {
        each.shape[0] for each in found.parameters.tensors if each.name in found.rules.experts
    }
    faults = layout_faults(_Shape(len(found.order)), par) + _token_faults(found, par)
    for count in sorted(experts) or [0]:
        faults += expert_faults(_Shape(len(found.order), count), par)
    if faults:
        raise ImpossibleError([Problem(found.name, *fault) for fault in faults])
    return par


@dataclass(frozen=True)
class _Shape:
    """Sizes of a model for checks."""

    layers: int
    experts: int = 0
    top_k: int = 1


def _token_faults(found: Capture, par: Parallelism) -> list[Fault]:
    if found.tokens:
        return token_faults(par)
    used = [("sp", par.sp and par.tp > 1, "off"), ("cp", par.cp > 1, "1")]
    return [(key, "on, but no tokens were captured", way) for key, on, way in used if on]


def _degree_faults(par: Parallelism, local: Division) -> Iterator[Fault]:
    """Where tensor and context parallelism do not divide what they cut."""

    def all_fit(tp: int) -> bool:
        return all(fit.divides(tp) for fit in local.fits)

    most = max((fit.parts for fit in local.fits), default=1)
    if not all_fit(par.tp):
        fit = next(fit for fit in local.fits if not fit.divides(par.tp))
        said = f"{fit.root} has {fit.parts} parts, which {par.tp} does not divide"
        yield "tp", said, nearest(par.tp, most, all_fit)
    if par.cp == 1:
        return
    for kernel, module in local.mixed.items():
        said = f"{module} has {kernel} between tokens of a sequence, which only attention divides"
        yield "cp", said, "1, or scaled_dot_product_attention where it is attention"
    odd = sorted(heads for heads in local.heads if heads % par.cp)
    if par.cp_comm_type == "a2a" and odd:
        said = f"a2a, but {odd[0]} heads of a rank are not divisible by cp {par.cp}"
        yield "cp_comm_type", said, "p2p, all_gather"


def _precision(found: Capture, wanted: Width | None) -> Width:
    """The format of matrix products of parameters: that of most parameters, or a narrower one that
    is `wanted`."""
    counts: dict[str, int] = {}
    for each in found.parameters.tensors:
        counts[each.dtype] = counts.get(each.dtype, 0) + each.count
    most = max(counts, key=lambda each: counts[each], default="bfloat16")
    if most not in _PRECISIONS:
        said = f"parameters of {most} are not trained"
        raise InputError([Problem(found.name, "precision", said, ", ".join(_PRECISIONS))])
    own = _PRECISIONS[most]
    allowed = (own, "fp8", "nvfp4") if PRECISIONS[own].activation == 2 else (own,)
    if wanted is not None and wanted not in allowed:
        said = f"{wanted}, but parameters were captured in {own}"
        raise InputError([Problem(found.name, "precision", said, ", ".join(allowed))])
    return wanted or own


class CapturedPlan(StagePlan):
    """The units of every stage of a captured model; modules that are alike share their scripts."""

    at: _Setting

    def __init__(self, at: _Setting) -> None:
        found = at.found
        self.at = at
        self.local = divide(found, at.par)
        if faults := list(_degree_faults(at.par, self.local)):
            raise ImpossibleError([Problem(found.name, *fault) for fault in faults])
        self._early = {each.parameter for each in _reads(found.before)} - {""}
        self._late = {each.parameter for each in _reads(found.after)} - {""}
        self._blocks = [self._unit(at, each, each.block.modules[0]) for each in self.local.blocks]
        self._ends = self._end_units(at)
        parts = placement(at).parts
        count, asked = len(found.order), at.par.layers_per_stage
        layout = Layout(tuple(split(count, parts)), (0,) * parts)
        super().__init__(at, read_layout(str(asked), count, parts, 0) if asked else layout)

    def _unit(self, at: _Setting, local: LocalBlock, path: str) -> tuple[Unit, int]:
        """A repeated module, and the bytes that its passes hold next to what autograd keeps."""
        tensors = [
            each
            for each in at.found.parameters.tensors
            if each.name == path or each.name.startswith(f"{path}.")
        ]
        again = recomputation(local.block, at.par, summed=local.summed)
        unit = Unit(
            path,
            scripts(local, path, at.par),
            script_again(local, again, path, at.par),
            *self._held(tensors),
            again.kept,
            at.par.bytes.weight,
            frozen=self._frozen(tensors),
        )
        return unit, _passing(local.block) + again.back

    def _held(self, parameters: Iterable[Parameter]) -> tuple[Weights, Tensors]:
        """Parameters that a rank holds, and the tensors of those that are trained."""
        every = tuple(parameters)
        parts = [self._parts(each for each in every if which or each.trained) for which in (1, 0)]
        whole, trained = parts
        return Weights(*map(sum, whole)), Tensors(*trained)

    def _frozen(self, parameters: Iterable[Parameter]) -> Weights:
        return Weights(*map(sum, self._parts(each for each in parameters if not each.trained)))

    def _parts(self, parameters: Iterable[Parameter]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of parameters on a rank: of all but experts, and of experts."""
        dense: list[int] = []
        expert: list[int] = []
        for each in parameters:
            own = expert if each.name in self.at.found.rules.experts else dense
            own.append(self.local.held(each))
        return tuple(dense), tuple(expert)

    def _end_units(self, at: _Setting) -> tuple[tuple[Unit, int], tuple[Unit, int]]:
        """Units of the operations before the first layer, and of those after the last one."""
        found = at.found
        inside = tuple(path for block in found.blocks for path in block.modules)
        rest = [
            each
            for each in found.parameters.tensors
            if not any(each.name == path or each.name.startswith(f"{path}.") for path in inside)
        ]
        late = [
            each
            for each in rest
            if each.name in self._late and (at.par.pp > 1 or each.name not in self._early)
        ]
        early = [each for each in rest if each.name in self._early or each.name not in self._late]

        def unit(name: str, local: LocalBlock, parameters: list[Parameter]) -> tuple[Unit, int]:
            again = recomputation(local.block, at.par, repeats=False)
            made = Unit(
                name,
                scripts(local, "", at.par),
                script_again(local, again, "", at.par),
                *self._held(parameters),
                again.kept,
                at.par.bytes.weight,
                frozen=self._frozen(parameters),
            )
            return made, _passing(local.block) + again.back

        return unit("before", self.local.before, early), unit("after", self.local.after, late)

    def _stage(self, stage: int) -> list[Chunk]:
        chunks = []
        for chunk in range(self.place.chunks):
            part = self.place.part(stage, chunk)
            first = self.layout.first[part]
            units = [
                replace(self._blocks[self.at.found.order[at]][0], name=f"layer{at}")
                for at in range(first, first + self.layout.layers[part])
            ]
            units = [self._ends[0][0], *units] if part == 0 else units
            units = [*units, self._ends[1][0]] if part == self.place.parts - 1 else units
            chunks.append(Chunk(tuple(units)))
        return chunks

    @property
    def sharing(self) -> list[int]:
        """The last stage where its unit uses parameters of the first."""
        return [self.at.par.pp - 1] if self.at.par.pp > 1 and self.shared else []

    @property
    def shared(self) -> int:
        """Parameters that both ends of the model use."""
        both = self._early & self._late
        tensors = self.at.found.parameters.tensors
        return sum(self.local.held(x) for x in tensors if x.name in both and x.trained)

    def rules(self, stage: int) -> Rules:
        """All that decides the memory of a stage besides its units."""
        par = self.at.par
        names = {unit.name for chunk in self.stages[stage] for unit in chunk.units}
        passing = [
            self._blocks[self.at.found.order[at]][1]
            for at in range(len(self.at.found.order))
            if f"layer{at}" in names
        ]
        passing += [most for unit, most in self._ends if unit.name in names]
        most = max(passing, default=0)
        return Rules(most, 0, False, 0, 0, par.bytes.weight, par.bytes.optimizer, "c")

    @property
    def experts(self) -> int:
        """No fused sum of gradients counts them."""
        return 1


def _reads(block: Block) -> Iterator[Buffer]:
    for each in block.operations:
        yield from each.reads


def _passing(block: Block) -> int:
    """Most bytes that live at once in the passes of a block, without what autograd keeps and
    without parameters. A tensor lives from its first write to its last use in its pass."""
    kept = {each.memory for each in block.saved}
    most = 0
    for backward in (False, True):
        ours = [each for each in block.operations if each.backward is backward]
        sizes: dict[int, int] = {}
        born: dict[int, int] = {}
        dies: dict[int, int] = {}
        for at, each in enumerate(ours):
            for buffer in each.writes:
                if buffer.memory not in kept and not buffer.parameter:
                    born.setdefault(buffer.memory, at)
                    sizes[buffer.memory] = max(sizes.get(buffer.memory, 0), buffer.bytes)
            for buffer in (*each.reads, *each.writes):
                dies[buffer.memory] = at
        change = [0] * (len(ours) + 1)
        for memory, size in sizes.items():
            change[born[memory]] += size
            change[dies[memory] + 1] -= size
        now = 0
        for each_change in change:
            now += each_change
            most = max(most, now)
    return most


def _warnings(plan: CapturedPlan) -> tuple[str, ...]:
    found, par = plan.at.found, plan.at.par
    said = [*found.warnings]
    names = dict.fromkeys(_starred(each) for each in plan.local.replicated)
    if names:
        shown = ", ".join(list(names)[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        said.append(f"no rule for tensor parallelism, so replicated: {shown}{more}")
    if par.zero and par.copies == 1:
        said.append(f"ZeRO {par.zero} has no effect with dp 1")
    if par.layers_per_stage is None and found.order:
        said += filter(None, [dealt(len(found.order), par.parts)])
    if par.fp8_recipe != "tensorwise" and par.bytes.gemm == par.bytes.activation:
        said.append(f"fp8_recipe has no effect with {par.precision}")
    return tuple(said)


def _of_parameters(found: Capture) -> Iterator[str]:
    """Parameters of text and towers, where a model has towers, and how many are trained, where not
    all are."""
    total, trained = found.parameters.total, found.parameters.trained
    if towers := found.parameters.towers:
        parts = ", ".join(f"{name} {count:,}" for name, count in towers.items())
        yield f"{counted(total, 'parameter')}: text {found.parameters.text:,}, {parts}"
    if trained < total:
        yield f"{trained:,} of {counted(total, 'parameter')} are trained"


_SHOWN = 6
"""Names that a warning lists."""


def _starred(parameter: str) -> str:
    """The module of a parameter, with stars for numbers."""
    path = parameter.removesuffix(".weight")
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def _model_flops(each: Operation) -> int:
    """Operations that the model asks for, as those of decoders are counted: causal attention as a
    whole square, backward passes of attention and scans without what is computed again."""
    if each.kind == "scan" and each.backward and each.name not in ONCE:
        return 2 * each.flops // 3
    if each.kind != "attention":
        return each.flops
    return 0 if each.backward else 3 * each.flops * (2 if each.name == "attention" else 1)


def _summary(
    plan: CapturedPlan, classes: tuple[RankClass, ...], warnings: tuple[str, ...]
) -> Summary:
    found, par = plan.at.found, plan.at.par
    times = par.micro_batches * par.dp
    parts = (found.before, *found.blocks, found.after)
    again = sum(
        block.count * sum(each.flops for each in recomputation(block, par, repeats).operations)
        for block, repeats in zip(parts, (False, *(True for _ in found.blocks), False), strict=True)
    )
    flops = sum(block.count * sum(map(_model_flops, block.operations)) for block in parts)
    return Summary(
        model=found.name,
        family="captured",
        ranks=par.world,
        parameters=found.parameters.total,
        active_parameters=found.parameters.total,
        batch=par.global_batch or 0,
        flops=times * flops,
        hardware_flops=times * (flops + again),
        bubble=bubble_share(par.schedule, par.pp, par.micro_batches, par.virtual_stages),
        classes=classes,
        notes=(
            f"{counted(par.micro_batches, 'micro-batch')} of {counted(found.samples, 'sample')} a "
            f"replica, {par.schedule}",
            *_of_parameters(found),
            *warnings,
        ),
        tokens=times * found.tokens,
    )
