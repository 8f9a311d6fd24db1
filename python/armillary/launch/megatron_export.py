"""Layouts as launch scripts of Megatron-LM, which `megatron.py` reads back as the same layout.

Not here: the model's flags (`megatron_model.py`). Data, tokenizer, learning rates and checkpoints
are the user's. Source: NVIDIA/Megatron-LM, megatron/training/arguments.py at commit 000c4ac2."""

from __future__ import annotations

from ..workload.parallelism import Parallelism
from ..workload.placement import Layout
from .megatron import FRAMEWORK
from .megatron_model import model_flags
from .wanted import OF_DATA, Wanted, ranks_of_a_node

_NAME = "Megatron-LM"
_STRATEGIES = ("no_shard", "optim", "optim_grads", "optim_grads_params")
_SETTABLE = ("overlap_grad_reduce", "overlap_param_gather", "overlap_tp")
_MODULES = (
    "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts",
)  # fmt: skip

Flags = list[tuple[str, str]]
"""Flags and their values; empty for one that stands alone."""


def megatron_script(wanted: Wanted) -> str:
    """A script that starts the layout. Raises `InputError` for what Megatron-LM can't do."""
    flags = megatron_flags(wanted, _NAME)
    node = _node(wanted)
    wanted.finish()
    par = wanted.par
    lines = [f"    {key} {_quoted(value)}".rstrip() for key, value in flags]
    data = [f"# {name} {getattr(par, name)} describes data: no flag" for name in OF_DATA
            if getattr(par, name) != Parallelism.__dataclass_fields__[name].default]  # fmt: skip
    return "\n".join(
        [
            "#!/bin/bash",
            f"# {wanted.model.name} on {par.world} ranks. Add data, tokenizer, learning rates and",
            "# checkpoints, and set the ranks of a node to those of your machines.",
            *data,
            f"GPUS_PER_NODE={node}",
            f"NUM_NODES={par.world // node}",
            *_environment(par),
            "FLAGS=(",
            *lines,
            ")",
            'torchrun --nproc-per-node "$GPUS_PER_NODE" --nnodes "$NUM_NODES" \\',
            '    pretrain_gpt.py "${FLAGS[@]}"',
            "",
        ]
    )


def megatron_flags(wanted: Wanted, framework: str) -> Flags:
    """The flags of a layout and its model. Raises `InputError`, naming the framework."""
    _require(wanted, framework)
    wanted.finish()
    par = wanted.par
    return [
        *_degrees(wanted),
        *_batch(par),
        *_precision(par),
        *_sharding(par),
        *_recompute(par),
        *(_mixture(par) if wanted.shape.experts else []),
        *model_flags(wanted.model, wanted.shape, par.seq or 0, par.tp),
    ]


def _quoted(value: str) -> str:
    return f'"{value}"' if set(value) & set("()|*[],") else value


def _require(wanted: Wanted, framework: str) -> None:
    par = wanted.par
    only: dict[str, tuple[object, ...]] = {
        "schedule": ("1f1b", "interleaved"),
        "precision": ("bf16", "fp16", "fp8", "nvfp4", "fp32"),
        "recompute": ("none", "selective", "full"),
        "lora_rank": (0,),
        "offload": ("none", "optimizer"),
        "in_switch": (False,),
        "fp8_weight_cache": (par.zero != 3 and par.precision in ("fp8", "nvfp4"), False),
        "fp8_activations": (False,),
        "fp8_dispatch": (False,),
    }
    wanted.only(framework, only)
    wanted.behaves(framework, FRAMEWORK, _SETTABLE)
    if par.precision == "fp8" and par.fp8_recipe == "rowwise":
        said = f"rowwise, which {framework} has no setting for"
        wanted.refuse("fp8_recipe", said, "delayed, tensorwise, blockwise")
    if par.fp8_param_gather and (par.precision != "fp8" or not par.zero):
        wanted.refuse("fp8_param_gather", True, "off, or precision fp8 with zero 1, 2 or 3")
    wrong = sorted(par.modules - set(_MODULES))
    if wrong:
        wanted.refuse("recompute_modules", ",".join(wrong), ", ".join(_MODULES))
    if par.recompute == "none" and "core_attn" in par.modules:
        wanted.refuse("recompute_modules", "core_attn", "recompute selective, which is the same")
    _require_overlaps(wanted)
    if par.ep > 1 and par.cp > 1 and par.etp != 1:
        said = f"{par.expert_tp} with ep and cp: Megatron-LM spreads experts over ranks of cp first"
        wanted.refuse("etp", said, "1, or cp 1")
    if not par.zero and (par.moments == "bf16" or par.offload == "optimizer"):
        option = "offload" if par.offload == "optimizer" else "moments"
        wanted.refuse(option, f"{getattr(par, option)} with zero 0", "zero 1, 2 or 3")
    if wanted.shape.experts and par.ep > 1 and par.precision == "fp16":
        wanted.refuse("precision", "fp16 with ep, which Megatron-LM refuses", "bf16, fp8, nvfp4")


def _require_overlaps(wanted: Wanted) -> None:
    par = wanted.par
    if par.overlap_tp and par.tp > 1 and not par.sp:
        wanted.refuse("framework_set.overlap_tp", "on without sp", "off, or sp on")
    if par.zero in (1, 2) and par.overlap_param_gather and not par.overlap_grad_reduce:
        said = "on without overlap_grad_reduce"
        wanted.refuse("framework_set.overlap_param_gather", said, "off")
    if par.overlap_passes and not (wanted.shape.experts and par.ep > 1):
        wanted.refuse("overlap_passes", "on without expert parallelism", "off, or ep of 2 or more")
    if par.overlap_passes and par.recompute == "full":
        wanted.refuse("overlap_passes", "on with full recomputation", "off")
    if par.overlap_passes and par.precision == "fp32":
        wanted.refuse("overlap_passes", "on with fp32", "off, or precision bf16")


def _node(wanted: Wanted) -> int:
    """Ranks of a node: at most 8, or the number that `ep_node` needs."""
    par = wanted.par
    if par.ep_node is None or par.ep == 1:
        return ranks_of_a_node(par.world)
    stride = 1 if par.etp == 1 else par.tp * par.cp
    node = par.ep_node * stride
    if par.world % node:
        said = f"{par.ep_node}: nodes of {node} ranks do not divide {par.world}"
        wanted.refuse("ep_node", said, "a number that does, or none")
    return node


def _environment(par: Parallelism) -> list[str]:
    """Megatron-LM asks for one connection with tp or cp before Blackwell, except with FSDP."""
    one = (par.tp > 1 or par.cp > 1) and par.zero < 2 and not par.overlap_passes
    return ["export CUDA_DEVICE_MAX_CONNECTIONS=1"] if one else []


def _degrees(wanted: Wanted) -> Flags:
    par = wanted.par
    flags = [
        ("--tensor-model-parallel-size", str(par.tp)),
        ("--pipeline-model-parallel-size", str(par.pp)),
        ("--context-parallel-size", str(par.cp)),
    ]
    if par.sp and par.tp > 1:
        flags.append(("--sequence-parallel", ""))
    if par.cp > 1:
        exchange = "allgather" if par.cp_comm_type == "all_gather" else str(par.cp_comm_type)
        flags.append(("--cp-comm-type", exchange))
    if par.overlap_tp and par.tp > 1:
        flags.append(("--tp-comm-overlap", ""))
    if par.mtp:
        flags.append(("--mtp-num-layers", str(par.mtp)))
    return [*flags, *_stages(wanted)]


def _stages(wanted: Wanted) -> Flags:
    """Chunks of each stage, and the layers of each part where they differ."""
    par, layout = wanted.par, wanted.layout
    if par.pp == 1:
        return []
    even = len(set(layout.layers)) == 1 and not any(layout.mtp[:-1])
    if not even:
        return [("--pipeline-model-parallel-layout", _letters(layout))]
    if par.virtual_stages > 1:
        return [("--num-virtual-stages-per-pipeline-rank", str(par.virtual_stages))]
    return []


def _letters(layout: Layout) -> str:
    """A layout in Megatron's letters: E, t for a layer, m for a module of prediction, L."""
    parts = [
        "t" * count + "m" * more for count, more in zip(layout.layers, layout.mtp, strict=True)
    ]
    return "E" + "|".join(parts) + "L"


def _batch(par: Parallelism) -> Flags:
    return [
        ("--micro-batch-size", str(par.micro_batch)),
        ("--global-batch-size", str(par.global_batch)),
    ]


def _precision(par: Parallelism) -> Flags:
    flags: Flags = []
    if par.precision == "fp16":
        flags.append(("--fp16", ""))
    elif par.precision != "fp32":
        flags.append(("--bf16", ""))
    if par.precision == "fp8":
        flags += [("--fp8-format", "hybrid"), ("--fp8-recipe", par.fp8_recipe)]
        flags += [("--fp8-param-gather", "")] if par.fp8_param_gather else []
    if par.precision == "nvfp4":
        flags += [("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")]
    brain = par.precision not in ("fp16", "fp32")
    if brain and not par.fp32_gradients:
        flags.append(("--grad-reduce-in-bf16", ""))
    elif par.fp32_gradients and not brain:
        flags.append(("--accumulate-allreduce-grads-in-fp32", ""))
    flags.append(("--attention-backend", "unfused" if par.attention == "unfused" else "flash"))
    return flags


def _sharding(par: Parallelism) -> Flags:
    flags: Flags = []
    if par.zero == 1:
        flags.append(("--use-distributed-optimizer", ""))
    elif par.zero:
        flags += [
            ("--use-megatron-fsdp", ""),
            ("--data-parallel-sharding-strategy", _STRATEGIES[par.zero]),
            ("--no-gradient-accumulation-fusion", ""),
            ("--ckpt-format", "fsdp_dtensor"),
        ]
    if par.zero_group is not None and par.replicas > 1:
        flags.append(("--num-distributed-optimizer-instances", str(par.replicas)))
    if par.overlap_grad_reduce:
        flags.append(("--overlap-grad-reduce", ""))
    if par.zero in (1, 2) and par.overlap_param_gather:
        flags.append(("--overlap-param-gather", ""))
    if par.offload == "optimizer" or par.moments == "bf16":
        flags.append(("--use-precision-aware-optimizer", ""))
    if par.offload == "optimizer":
        flags.append(("--optimizer-cpu-offload", ""))
    if par.moments == "bf16":
        flags += [("--exp-avg-dtype", "bf16"), ("--exp-avg-sq-dtype", "bf16")]
    return flags


def _recompute(par: Parallelism) -> Flags:
    if par.recompute == "full" and par.recompute_layers != 0:
        count = par.recompute_layers
        return [
            ("--recompute-granularity", "full"),
            ("--recompute-method", "uniform" if count is None else par.recompute_method),
            ("--recompute-num-layers", str(count or 1)),
        ]
    chosen = par.modules | ({"core_attn"} if par.recompute == "selective" else set())
    if not chosen:
        return []
    modules = " ".join(each for each in _MODULES if each in chosen)
    return [("--recompute-granularity", "selective"), ("--recompute-modules", modules)]


def _mixture(par: Parallelism) -> Flags:
    flags = [("--expert-model-parallel-size", str(par.ep))]
    if par.expert_tp != par.tp:
        flags.append(("--expert-tensor-parallel-size", str(par.etp)))
    if par.precision != "fp16":
        flags += [("--moe-grouped-gemm", "")] if par.precision != "fp32" else []
    deep = par.ep_node is not None and par.ep > 1
    flags.append(("--moe-token-dispatcher-type", "flex" if deep else "alltoall"))
    if deep:
        flags.append(("--moe-enable-deepep", ""))
    if deep and par.node_limit is not None and par.ep_node:
        flags += [("--moe-router-num-groups", str(par.ep // par.ep_node))]
        flags += [("--moe-router-group-topk", str(par.node_limit))]
    if par.capacity_factor is not None:
        flags += [("--moe-expert-capacity-factor", repr(par.capacity_factor))]
        flags += [("--moe-pad-expert-input-to-capacity", "")]
    if par.overlap_passes:
        flags.append(("--overlap-moe-expert-parallel-comm", ""))
    return flags
