"""Layouts as configurations of MaxText, a library of JAX. MaxText is written, not read.

Its mesh has an axis for each kind of parallelism. Replicas are data x fsdp x expert, and parameters
are sharded over fsdp x context x expert. All axes are within one slice (`ici_`); those of several
slices go to `dcn_`. Source: maxtext 0.2.5, configs/base.yml, configs/types.py."""

from __future__ import annotations

from collections.abc import Mapping

from ..workload.parallelism import FRAMEWORK_KEYS, Parallelism
from .wanted import Wanted

_NAME = "MaxText"
MODELS: Mapping[str, str] = {
    "llama-2-7b": "llama2-7b",
    "llama-2-13b": "llama2-13b",
    "llama-2-70b": "llama2-70b",
    "llama-3-8b": "llama3-8b",
    "llama-3-70b": "llama3-70b",
    "llama-3-405b": "llama3.1-405b",
    "gpt3-175b": "gpt3-175b",
    "mixtral-8x7b": "mixtral-8x7b",
    "mixtral-8x22b": "mixtral-8x22b",
    "deepseek-v3": "deepseek3-671b",
    "gpt-oss-120b": "gpt-oss-120b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "qwen3-235b-a22b": "qwen3-235b-a22b",
}
"""Presets that MaxText has, by its names (configs/models)."""
POLICIES = {"none": "minimal_with_context", "selective": "minimal", "full": "full"}
"""Tensors that are kept: all products and attention's result, all products, none."""
EXCHANGES = {"p2p": "ring", "all_gather": "all_gather", "a2a": "ulysses"}
_QUANTIZED = {"delayed": "te_fp8_delayedscaling", "tensorwise": "te_fp8_currentscaling"}


def maxtext_config(wanted: Wanted) -> str:
    """A configuration that gives the layout. Raises `InputError` for what MaxText can't do."""
    _require(wanted)
    wanted.finish()
    par = wanted.par
    keys: dict[str, object] = {
        "base_config": "base.yml",
        "model_name": MODELS[wanted.model.name],
        **_mesh(par),
        **_batch(wanted),
        **_numbers(par),
        "remat_policy": POLICIES[par.recompute],
        "attention": "dot_product" if par.attention == "unfused" else "autoselected",
    }
    if par.mtp:
        keys["mtp_num_layers"] = par.mtp
    if par.capacity_factor is not None:
        keys |= {"capacity_factor": par.capacity_factor, "sparse_matmul": False, "megablox": False}
    about = f"# {wanted.model.name} on {par.world} devices of one slice."
    return "\n".join([about, *(f"{key}: {_yaml(value)}" for key, value in keys.items()), ""])


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _require(wanted: Wanted) -> None:
    par = wanted.par
    if wanted.model.name not in MODELS:
        wanted.refuse("model", wanted.model.name, ", ".join(MODELS))
    wanted.only(
        _NAME,
        {
            "schedule": ("gpipe",) if par.pp > 1 else (par.schedule,),
            "zero": (0, 1, 3),
            "recompute": tuple(POLICIES),
            "precision": ("bf16", "fp8", "fp32"),
            "moments": ("fp32",),
            "lora_rank": (0,),
            "in_switch": (False,),
            "etp": (None, par.tp),
            "ep_node": (None,),
            "overlap_passes": (False,),
            "fp8_dispatch": (False,),
            "fp8_param_gather": (False,),
            "fp8_activations": (False,),
            "partition": ("layers",),
            "layers_per_stage": (None,),
        },
    )
    given = [key for key in (*FRAMEWORK_KEYS, "framework") if wanted.given.get(key) is not None]
    for key in given:
        wanted.refuse(key, f"{wanted.given[key]}: no description is of MaxText", "leave it out")
    if par.modules:
        wanted.refuse("recompute_modules", ",".join(sorted(par.modules)), "none")
    if par.precision == "fp8" and par.fp8_recipe not in _QUANTIZED:
        wanted.refuse("fp8_recipe", par.fp8_recipe, ", ".join(_QUANTIZED))
    _require_axes(wanted)


def _require_axes(wanted: Wanted) -> None:
    par = wanted.par
    if par.zero == 1 and par.zero_group not in (None, par.copies):
        wanted.refuse("zero_group", par.zero_group, "none: moments are sharded over all replicas")
    if par.zero != 3 and (par.cp > 1 or par.ep > 1):
        said = f"{par.zero} with cp or ep, whose axes shard parameters"
        wanted.refuse("zero", said, "3, or cp 1 and ep 1")
    if par.zero == 3 and par.shard_ranks % (par.cp * par.ep):
        allowed = f"a multiple of cp x ep = {par.cp * par.ep}"
        wanted.refuse("zero_group", par.shard_ranks, allowed)
    if wanted.shape.layers % par.pp:
        wanted.refuse("pp", par.pp, f"a divisor of {wanted.shape.layers} layers")
    if par.pp > 1 and par.micro_batches % par.pp:
        wanted.refuse("global_batch", par.global_batch, "micro-batches in multiples of pp")


def _mesh(par: Parallelism) -> dict[str, object]:
    shard = par.shard_ranks // (par.cp * par.ep) if par.zero == 3 else 1
    axes = {
        "data": par.dp // (shard * par.ep),
        "fsdp": shard,
        "pipeline": par.pp,
        "context": par.cp,
        "tensor": 1 if par.sp else par.tp,
        "tensor_sequence": par.tp if par.sp else 1,
        "expert": par.ep,
    }
    found: dict[str, object] = {f"ici_{name}_parallelism": size for name, size in axes.items()}
    found["dcn_data_parallelism"] = 1
    if par.cp > 1:
        found["context_parallel_strategy"] = EXCHANGES[str(par.cp_comm_type)]
    found["shard_optimizer_over_data"] = par.zero == 1
    return found


def _batch(wanted: Wanted) -> dict[str, object]:
    """Samples of a device in one pass. With a pipeline its micro-batches are one pass."""
    par = wanted.par
    steps = 1 if par.pp > 1 else par.micro_batches
    found: dict[str, object] = {
        "per_device_batch_size": (par.global_batch or 0) / (steps * par.world),
        "gradient_accumulation_steps": steps,
        "max_target_length": par.seq,
    }
    if par.pp > 1:
        found["num_layers_per_pipeline_stage"] = wanted.shape.layers // par.pp
        found["num_pipeline_microbatches"] = par.micro_batches
    return found


def _numbers(par: Parallelism) -> dict[str, object]:
    found: dict[str, object] = {
        "dtype": "float32" if par.precision == "fp32" else "bfloat16",
        "weight_dtype": "float32",
        "grad_dtype": "float32" if par.gradient_bytes == 4 else "bfloat16",
        "optimizer_memory_host_offload": par.offload != "none",
        "parameter_memory_host_offload": par.offload == "parameters",
    }
    if par.precision == "fp8":
        found["quantization"] = _QUANTIZED[par.fp8_recipe]
    return found
