"""Decoder-only transformers: GPT, Llama and their like, trained with every parallelism of
`parallelism.py`.

Here: from a model and its parallelism to a workload with its summary. Not here: the parts, which
are in `model/` (counts), `layer.py` (what a layer does), `schedule.py` (pipelines),
`stage.py` (a stage's program) and `memory.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..errors import InputError
from ..model.checkpoint import PLAIN
from ..model.decoder_reader import decoder
from ..model.files import Model, load_model
from ..model.weights import active_parameters, parameters
from ..option_fields import takes_options
from ..units import counted
from .decoder_plan import DecoderPlan, operations
from .experts import visited
from .frameworks import load_framework
from .layer import all_adapters
from .mesh import spread, stage_programs
from .parallelism import ADAPTED, EXPERT_OPTIONS, FRAMEWORK_KEYS, Parallelism
from .parallelism_reader import parallelism
from .placement import dealt, shortened
from .program import Program
from .schedule import bubble_share
from .setting import Setting
from .stage import rings
from .summary import Memory, RankClass, Summary
from .workload import Workload


@takes_options(Parallelism, *EXPERT_OPTIONS, *FRAMEWORK_KEYS)
def transformer(model: str | os.PathLike[str] | Model, **options: object) -> Workload:
    """One training step of the dense decoder `model`: a preset, a model file, or a Hugging Face
    `config.json`.

    `transformer("gpt3-175b", tp=16, dp=64)`. The options are the fields of `Parallelism`. There are
    tp x cp x dp x pp ranks, tp fastest and pp slowest; groups are `tp`, `cp`, `dp` (all ranks with
    the same weights), and with `zero_group` `zero` (ranks that a shard is split over) and `replica`
    (those with the same shard). With `overlap_passes` backward passes use groups of their own,
    `tp.backward` and so on. Under `dualpipe` stages come in the order 0, pp - 1, 1, pp - 2 and so
    on. Raises `InputError` listing every problem."""
    return generate(load_model(model), "transformer", options)


def footprints(model: str | os.PathLike[str] | Model, **options: object) -> list[Memory]:
    """Peak bytes on a rank of each pipeline stage, first stage first: the memory in the summary of
    `transformer` or `moe` with these options, without making the workload. Raises `InputError`
    listing every problem."""
    found = load_model(model)
    shape = decoder(found)
    plan = DecoderPlan(Setting(shape, parallelism(shape, found.name, options)))
    return [plan.memory(stage, plan.order(stage)) for stage in range(plan.at.par.pp)]


def generate(model: Model, family: str, options: Mapping[str, object]) -> Workload:
    """The workload of a decoder of `family`, with its summary."""
    if model.family != family:
        said = f"a model of the family {model.family!r}"
        raise InputError(
            [model.problem("family", said, f"{family}; armillary.workload.build takes any")]
        )
    shape = decoder(model)
    par = parallelism(shape, model.name, options)
    plan = DecoderPlan(Setting(shape, par))
    programs, memories = stage_programs(plan)
    summary = _summary(model, plan, programs[:: len(rings(par))], memories)
    notes = (*model.notes, *_stored(model), *_assumed(plan))
    return spread(model.name, par, programs, summary, notes)


def _summary(
    model: Model, plan: DecoderPlan, programs: list[Program], memories: list[Memory]
) -> Summary:
    shape, par = plan.at.model, plan.at.par
    low, flops = all_adapters(plan.at), operations(plan.at)
    ranks = par.world // par.pp
    classes = [
        RankClass(
            f"stage {stage}",
            ranks,
            program.operations,
            program.volumes,
            memory,
            plan.host(stage),
        )
        for stage, program, memory in zip(plan.place.stages, programs, memories, strict=True)
    ]
    return Summary(
        model=model.name,
        family=model.family,
        ranks=par.world,
        parameters=parameters(shape, par.mtp) + low,
        active_parameters=active_parameters(shape, par.mtp) + low,
        batch=par.global_batch or 0,
        flops=flops.model,
        hardware_flops=flops.hardware,
        bubble=bubble_share(
            par.schedule, par.pp, par.micro_batches, par.virtual_stages, par.overlap_passes
        ),
        classes=tuple(classes),
        notes=(*model.notes, *_stored(model), *_notes(plan), *_assumed(plan)),
        tokens=(par.global_batch or 0) * (par.seq or 0),
    )


def _stored(model: Model) -> tuple[str, ...]:
    """A note where a configuration states formats that training does not use."""
    if model.checkpoint == PLAIN or not model.file.endswith(".json"):
        return ()
    said = "quantization_config is for inference: --precision says in which numbers the model is"
    return (f"{said} trained",)


def _notes(plan: DecoderPlan) -> list[str]:
    """Choices made for the caller."""
    par = plan.at.par
    notes = [
        f"{_micro_batches(par)} of {par.micro_batch} x {par.seq} tokens a replica, {par.schedule}"
    ]
    notes += _dealt(plan)
    if par.lora_rank:
        names = ", ".join(name for name in ADAPTED if name in par.adapted)
        low = all_adapters(plan.at)
        all_ = parameters(plan.at.model) + low
        notes.append(
            f"adapters of rank {par.lora_rank} on {names}: {low:,} of {all_:,} parameters are "
            "trained"
        )
    if par.framework is not None:
        notes.append(f"framework {par.framework}: {_decided(par)}")
    if par.micro_batches < par.pp:
        notes.append(
            f"{_micro_batches(par)} can't keep the pipeline's {par.pp} stages busy at once"
        )
    return notes


def _assumed(plan: DecoderPlan) -> list[str]:
    """Warnings of every run: assumptions about the layout, and options without effect."""
    par = plan.at.par
    return [*_split(plan), *_idle(par), *_idle_copies(par)]


def _split(plan: DecoderPlan) -> list[str]:
    """Assumptions about what the layout does not divide evenly."""
    shape, par = plan.at.model, plan.at.par
    notes: list[str] = []
    if par.layers_per_stage is None and par.partition != "cost":
        notes += filter(None, [dealt(shape.layers, par.parts)])
    if shape.vocabulary % par.tp:
        notes.append(f"the vocabulary of {shape.vocabulary} is padded to a multiple of tp {par.tp}")
    if par.lora_rank and par.tp > 1:
        notes.append(
            "gradients of adapters' matrices that tp does not divide are summed without a message"
        )
    if not shape.kv_rank and shape.kv < par.tp:
        notes.append(f"{shape.kv} heads of keys and values are replicated over tp {par.tp}")
    return notes


def _idle(par: Parallelism) -> list[str]:
    """Options without effect."""
    notes = []
    if par.sp and par.tp == 1:
        notes.append("sp has no effect with tp 1")
    if par.early_stop and par.recompute != "full":
        notes.append(f"early_stop has no effect with recompute {par.recompute}")
    if par.cp_comm_type and par.cp == 1:
        notes.append("cp_comm_type has no effect with cp 1")
    if par.bytes.gemm == par.bytes.activation and (
        par.fp8_recipe != "tensorwise" or par.fp8_param_gather
    ):
        notes.append(f"fp8_recipe and fp8_param_gather have no effect with {par.precision}")
    return notes


def _idle_copies(par: Parallelism) -> list[str]:
    """Options without effect, because nothing is replicated."""
    notes = []
    if par.zero and par.copies == 1:
        notes.append(f"ZeRO {par.zero} has no effect with dp x cp 1")
    if par.bucket_mb is not None and par.copies == 1:
        notes.append("bucket_mb has no effect with dp x cp 1")
    return notes


def _decided(par: Parallelism) -> str:
    """The options that the framework of a job is about, as they are now."""
    names = dict.fromkeys(each.name for each in load_framework(str(par.framework)).choices)
    return ", ".join(f"{name} {getattr(par, name)}" for name in names)


def _dealt(plan: DecoderPlan) -> list[str]:
    """Where layers are, what multi-token prediction adds, and where tokens go."""
    par, notes = plan.at.par, []
    if par.layers_per_stage is not None or (par.partition == "cost" and par.pp > 1):
        notes.append(f"layers of each part: {shortened(plan.layout.layers)}")
    if par.mtp:
        notes.append(
            f"multi-token prediction counts as work: {par.mtp} of {1 + par.mtp} predictions of "
            "each token"
        )
    if par.ep_node is not None:
        visits = visited(plan.at)
        notes.append(
            f"a token visits {visits.nodes:.2f} nodes and {visits.ranks:.2f} ranks with experts "
            "on average"
        )
    return notes


def _micro_batches(par: Parallelism) -> str:
    return counted(par.micro_batches, "micro-batch")
