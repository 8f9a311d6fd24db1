"""Layouts as configurations of DeepSpeed, which `deepspeed.py` reads back as the same layout.

Source: deepspeed 0.19.8, deepspeed/runtime/config.py."""

from __future__ import annotations

import json

from ..workload.parallelism import Parallelism
from .deepspeed import FRAMEWORK
from .wanted import Wanted

_NAME = "DeepSpeed"


def deepspeed_config(wanted: Wanted) -> str:
    """A configuration that gives the layout. Raises `InputError` for what DeepSpeed can't do."""
    _require(wanted)
    wanted.finish()
    par = wanted.par
    steps = (par.global_batch or 0) // (par.micro_batch * par.dp)
    config: dict[str, object] = {
        "train_batch_size": par.global_batch,
        "train_micro_batch_size_per_gpu": par.micro_batch,
        "gradient_accumulation_steps": steps,
        **_precision(par),
        "zero_optimization": _zero(par),
    }
    if par.tp > 1:
        config["tensor_parallel"] = {"autotp_size": par.tp}
    if par.cp > 1:
        config["sequence_parallel_size"] = par.cp
    if par.ep > 1:
        config["expert_parallel"] = {"enabled": True, "autoep_size": par.ep}
    if par.pp > 1:
        interval = int(par.recompute == "full")
        config["pipeline"] = {"stages": par.pp, "activation_checkpoint_interval": interval}
    elif par.recompute == "full":
        config["activation_checkpointing"] = {"partition_activations": False}
    return json.dumps(config, indent=2) + "\n"


def _require(wanted: Wanted) -> None:
    par = wanted.par
    wanted.only(
        _NAME,
        {
            "sp": (False,) if par.tp > 1 else (False, True),
            "schedule": ("1f1b",),
            "mtp": (0,),
            "layers_per_stage": (None,),
            "partition": ("layers",),
            "recompute": ("none", "full"),
            "recompute_layers": (None,),
            "precision": ("bf16", "fp16", "fp32"),
            "lora_rank": (0,),
            "in_switch": (False,),
            "zero_group": (None,),
            "etp": (None, par.tp),
            "ep_node": (None,),
            "capacity_factor": (None,),
            "overlap_passes": (False,),
            "fp8_dispatch": (False,),
            "attention": ("flash",),
        },
    )
    wanted.behaves(_NAME, FRAMEWORK, ("overlap_grad_reduce",))
    if par.modules:
        wanted.refuse("recompute_modules", ",".join(sorted(par.modules)), "none")
    if par.cp > 1 and par.cp_comm_type != "a2a":
        wanted.refuse("cp_comm_type", par.cp_comm_type, "a2a, which exchanges heads")
    if par.pp > 1 and par.zero > 1:
        wanted.refuse("zero", f"{par.zero} with a pipeline, which DeepSpeed refuses", "0, 1")
    if par.moments == "bf16" and par.precision != "bf16":
        wanted.refuse("moments", f"bf16 with {par.precision}", "fp32, or precision bf16")
    if par.offload == "optimizer" and not par.zero:
        wanted.refuse("offload", "optimizer with zero 0", "zero 1, 2 or 3")
    if par.seq != wanted.shape.sequence:
        said = f"{par.seq}, which the training script decides"
        wanted.refuse("seq", said, f"{wanted.shape.sequence}, the model's")


def _precision(par: Parallelism) -> dict[str, object]:
    kept = "fp32" if par.fp32_gradients else par.precision
    found: dict[str, object] = {
        "communication_data_type": kept,
        "data_types": {"grad_accum_dtype": kept},
    }
    if par.precision in ("bf16", "fp16"):
        found[par.precision] = {"enabled": True}
    if par.moments == "bf16":
        found["bf16"] = {
            "enabled": True,
            "bf16_master_weights_and_grads": True,
            "bf16_optimizer_states": True,
        }
    return found


def _zero(par: Parallelism) -> dict[str, object]:
    found: dict[str, object] = {"stage": par.zero}
    if par.zero < 3:
        found["overlap_comm"] = par.overlap_grad_reduce
    if par.offload in ("optimizer", "parameters"):
        found["offload_optimizer"] = {"device": "cpu"}
    if par.offload == "parameters":
        found["offload_param"] = {"device": "cpu"}
    return found
