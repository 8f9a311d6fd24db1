"""Layouts as commands of torchtitan 0.3, which `torchtitan.py` reads back as the same layout.

The configuration function has the model; the command sets all else. Source: torchtitan 0.3.0,
torchtitan/config/configs.py."""

from __future__ import annotations

from ..workload.parallelism import Parallelism
from .torchtitan import CONFIGS, FRAMEWORK, SCHEDULES, split
from .wanted import Wanted, ranks_of_a_node

_NAME = "torchtitan"
_SETTABLE = ("overlap_tp", "kernels", "early_stop")
_MODES = {"none": "none", "ops": "selective", "full": "full"}


def torchtitan_command(wanted: Wanted) -> str:
    """A command that starts the layout. Raises `InputError` for what torchtitan can't do."""
    _require(wanted)
    wanted.finish()
    stages = _stages(wanted)
    wanted.finish()
    par = wanted.par
    node = ranks_of_a_node(par.world)
    names = {config.model: place for place, config in CONFIGS.items()}
    module, config = names.get(wanted.model.name, ("my_module", "my_config"))
    own = wanted.model.name in names
    keys = [*_degrees(par), *stages, *_batch(par), *_numbers(par)]
    lines = [f"    {_key(key)} {value}".rstrip() for key, value in keys]
    about = "" if own else " The configuration function is yours: it builds the model."
    return "\n".join(
        [
            "#!/bin/bash",
            f"# {wanted.model.name} on {par.world} ranks.{about}",
            f"MODULE={module}",
            f"CONFIG={config}",
            "OVERRIDES=(",
            *lines,
            f"    activation_checkpoint:{_MODES[par.recompute]}",
            ")",
            f"torchrun --nproc-per-node {node} --nnodes {par.world // node} -m torchtitan.train \\",
            '    --module "$MODULE" --config "$CONFIG" "${OVERRIDES[@]}"',
            "",
        ]
    )


def _key(key: str) -> str:
    return f"--{key}"


def _require(wanted: Wanted) -> None:
    par = wanted.par
    wanted.only(
        _NAME,
        {
            "schedule": tuple(SCHEDULES.values()),
            "recompute": tuple(_MODES),
            "recompute_layers": (None,),
            "precision": ("bf16", "fp32"),
            "fp32_gradients": (True,) if par.precision == "bf16" else (True, False),
            "mtp": (0,),
            "lora_rank": (0,),
            "offload": ("none", "parameters"),
            "in_switch": (False,),
            "ep_node": (None,),
            "capacity_factor": (None,),
            "overlap_passes": (False,),
            "fp8_dispatch": (False,),
            "attention": ("flash",),
        },
    )
    wanted.behaves(_NAME, FRAMEWORK, _SETTABLE)
    if par.modules:
        wanted.refuse("recompute_modules", ",".join(sorted(par.modules)), "none")
    if par.cp > 1 and par.cp_comm_type != "all_gather":
        wanted.refuse("cp_comm_type", par.cp_comm_type, "all_gather")
    if par.zero == 1 or (par.zero == 0 and par.cp > 1):
        wanted.refuse("zero", f"{par.zero}, which FSDP2 has no setting for", "2, 3; 0 with cp 1")
    if par.zero and par.zero_group == 1 < par.copies:
        wanted.refuse("zero_group", "1", "zero 0")
    if par.zero and par.shard_ranks % par.cp:
        wanted.refuse("zero_group", par.zero_group, f"a multiple of cp {par.cp}")
    if par.ep > 1 and par.etp != 1:
        wanted.refuse("etp", par.expert_tp, "1: experts are spread over ranks of tp and cp first")
    if par.ep > 1 and par.zero and par.shard_ranks * par.tp % par.ep:
        wanted.refuse("ep", par.ep, "a divisor of the ranks of a shard x tp")
    if par.ep > 1 and not par.zero:
        wanted.refuse("zero", "0 with ep", "2, 3")
    if par.overlap_tp and par.kernels == "eager" and par.tp > 1:
        wanted.refuse("framework_set.overlap_tp", "on with eager kernels", "off")


def _degrees(par: Parallelism) -> list[tuple[str, str]]:
    shard = par.shard_ranks // par.cp if par.zero else 1
    copies = par.dp // shard
    found = [
        ("parallelism.data_parallel_replicate_degree", str(copies)),
        ("parallelism.data_parallel_shard_degree", str(shard)),
        ("parallelism.tensor_parallel_degree", str(par.tp)),
        ("parallelism.pipeline_parallel_degree", str(par.pp)),
        ("parallelism.context_parallel_degree", str(par.cp)),
        ("parallelism.expert_parallel_degree", str(par.ep)),
        ("parallelism.fsdp_reshard_after_forward", "never" if par.zero == 2 else "always"),
    ]
    if par.tp > 1:
        word = "enable_sequence_parallel" if par.sp else "no-enable-sequence-parallel"
        found.append((f"parallelism.{word}", ""))
    return found


def _stages(wanted: Wanted) -> list[tuple[str, str]]:
    """Keys that give each part its layers; refuses a layout that none gives."""
    par, counts = wanted.par, list(wanted.layout.layers)
    if par.pp == 1:
        return []
    words = {ours: theirs for theirs, ours in SCHEDULES.items()}
    layers, parts = wanted.shape.layers, len(counts)
    usual = 2 if par.schedule == "interleaved" else 1
    for first, last in sorted((a, b) for a in range(layers + 1) for b in range(layers + 1)):
        whole = layers + first + last
        each = -(-whole // parts)
        is_said = par.virtual_stages != usual
        if split(layers, parts, first, last) != counts or (is_said and -(-whole // each) != parts):
            continue
        said = [("parallelism.pipeline_parallel_layers_per_stage", str(each))] if is_said else []
        return [
            ("parallelism.pipeline_parallel_schedule", words[par.schedule]),
            *said,
            ("parallelism.pipeline_parallel_first_stage_less_layers", str(first)),
            ("parallelism.pipeline_parallel_last_stage_less_layers", str(last)),
        ]
    shown = ",".join(map(str, counts))
    wanted.refuse(
        "layers_per_stage",
        f"{shown}, which no keys of torchtitan give",
        "equal parts, but for the first and the last",
    )
    return []


def _batch(par: Parallelism) -> list[tuple[str, str]]:
    local = par.micro_batch if par.pp == 1 else (par.global_batch or 0) // par.dp
    pieces = [("parallelism.pipeline_parallel_microbatch_size", str(par.micro_batch))]
    return [
        ("training.local_batch_size", str(local)),
        ("training.global_batch_size", str(par.global_batch)),
        ("training.seq_len", str(par.seq)),
        *(pieces if par.pp > 1 else []),
    ]


def _numbers(par: Parallelism) -> list[tuple[str, str]]:
    kind = "float32" if par.precision == "fp32" else "bfloat16"
    compiled = "enable" if par.kernels == "fused" else "no-enable"
    found = [("training.mixed_precision_param", kind), (f"compile.{compiled}", "")]
    if par.overlap_tp and par.tp > 1:
        found.append(("compile.enable_async_tensor_parallel", ""))
    else:
        found.append(("compile.no-enable-async-tensor-parallel", ""))
    if par.offload == "parameters":
        found.append(("training.enable_cpu_offload", ""))
    if par.moments == "bf16":
        found.append(("optimizer.implementation", "fused_opt_states_bf16"))
    return found
