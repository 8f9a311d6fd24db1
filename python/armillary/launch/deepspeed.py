"""Configurations of DeepSpeed (`ds_config.json`), which have a layout and no model.

Not here: the way back (`deepspeed_export.py`). Replicas are ranks over tp x pp x sequence parallel.
DeepSpeed leaves attention, checkpoints of activations and stages to the training script: what the
configuration has of them is taken, the rest is noted. Source: deepspeed 0.19.8,
deepspeed/runtime/config.py, constants.py, zero/config.py, precision_config.py."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import Problem
from ..model.decoder_reader import decoder
from ..model.files import Model
from .documented import given_json
from .given import Given
from .launched import Launched

FRAMEWORK = "deepspeed"
_TYPICAL = ("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization")
_AUTO = "auto"
_CPU, _NONE, _NVME = "cpu", "none", "nvme"
_ADAMS = ("adam", "adamw", "fusedadam", "cpuadam", "torchadam")
_TYPES = ("fp32", "fp16", "bf16")

IDLE_SECTIONS: Mapping[str, str] = {
    "scheduler": "learning rates",
    "optimizer": "values of the optimizer, not its operations",
    "checkpoint": "checkpoints happen between steps",
    "tensorboard": "logs",
    "wandb": "logs",
    "csv_monitor": "logs",
    "comet": "logs",
    "comms_logger": "logs",
    "flops_profiler": "profiles of single steps",
    "timers": "logs",
    "aio": "files on disks",
}
"""Sections that change no time, and why."""
IDLE: tuple[str, ...] = (
    "steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state", "log_level",
    "gradient_clipping", "prescale_gradients", "gradient_predivide_factor",
    "gradient_allreduce_op", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer",
    "check_overflow", "managed_gradient_accumulation", "dataloader_drop_last",
    "disable_python_gc", "vocabulary_size", "fp16.auto_cast", "fp16.loss_scale",
    "fp16.initial_scale_power", "fp16.loss_scale_window", "fp16.hysteresis",
    "fp16.consecutive_hysteresis", "fp16.min_loss_scale", "bf16.check_grad_overflow",
    "activation_checkpointing.profile", "activation_checkpointing.number_checkpoints",
    "activation_checkpointing.contiguous_memory_optimization",
    "activation_checkpointing.synchronize_checkpoint_boundary", "pipeline.seed_layers",
    "zero_optimization.contiguous_gradients", "zero_optimization.ignore_unused_parameters",
    "zero_optimization.round_robin_gradients", "zero_optimization.elastic_checkpoint",
    "zero_optimization.log_trace_cache_warnings", "zero_optimization.enable_sanity_checks",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.offload_optimizer.pin_memory", "zero_optimization.offload_param.pin_memory",
    "zero_optimization.override_module_apply", "zero_optimization.pipeline_loading_checkpoint",
    "zero_optimization.compute_grad_norm", "zero_optimization.parameter_alignment",
    "zero_optimization.allgather_partitions", "zero_optimization.reduce_scatter",
)  # fmt: skip
_WHY = "logs, checks, scales of the loss, and what the stage implies"
"""Reason why these change no time."""

_BUCKETS = "a layer's gradients and parameters are one bucket"
_PREFETCH = "parameters are gathered one layer ahead"
UNMODELED: Mapping[str, str] = {
    "zero_optimization.reduce_bucket_size": _BUCKETS,
    "zero_optimization.allgather_bucket_size": _BUCKETS,
    "zero_optimization.use_multi_rank_bucket_allreduce": _BUCKETS,
    "zero_optimization.sub_group_size": _BUCKETS,
    "zero_optimization.stage3_prefetch_bucket_size": _PREFETCH,
    "zero_optimization.stage3_param_persistence_threshold": _PREFETCH,
    "zero_optimization.stage3_model_persistence_threshold": _PREFETCH,
    "zero_optimization.stage3_max_live_parameters": _PREFETCH,
    "zero_optimization.stage3_max_reuse_distance": _PREFETCH,
    "zero_optimization.stage3_module_granularity_threshold": _PREFETCH,
    "zero_optimization.stage3_use_all_reduce_for_fetch_params": _PREFETCH,
    "zero_optimization.stage3_allgather_sequential": _PREFETCH,
    "zero_optimization.zero_hpz_partition_size": "parameters are sharded over all ranks",
    "zero_optimization.zero_quantized_weights": "parameters are gathered in 16 bits",
    "zero_optimization.zero_quantized_nontrainable_weights": "parameters have 16 bits",
    "zero_optimization.zero_quantized_gradients": "gradients are reduced unquantized",
    "zero_optimization.memory_efficient_linear": "multiplications are PyTorch's",
    "zero_optimization.offload_optimizer.buffer_count": "buffers are as large as needed",
    "zero_optimization.offload_optimizer.pipeline_read": "copies overlap as the platform says",
    "zero_optimization.offload_optimizer.pipeline_write": "copies overlap as the platform says",
    "zero_optimization.offload_optimizer.fast_init": "buffers are as large as needed",
    "zero_optimization.offload_param.buffer_count": "buffers are as large as needed",
    "zero_optimization.offload_param.buffer_size": "buffers are as large as needed",
    "zero_optimization.offload_param.max_in_cpu": "all parameters are offloaded",
    "bf16.immediate_grad_update": "gradients are added as they come",
    "activation_checkpointing.partition_activations": "each rank keeps its own activations",
    "activation_checkpointing.cpu_checkpointing": "activations stay on the NPUs",
    "pipeline.partition": "layers are dealt evenly",
    "pipeline.pipe_partitioned": "activations are sent whole",
    "pipeline.grad_partitioned": "gradients are sent whole",
    "tensor_parallel.tp_overlap_comm": "all-reduces of tp do not overlap",
    "tensor_parallel.vocab_parallel_lm_head": "the head is cut by tp",
    "use_data_before_expert_parallelism": "experts lie inside data parallelism",
    "seq_parallel_communication_data_type": "activations are sent in their own format",
    "disable_allgather": "parameters are gathered",
    "data_types.param_dtype": "parameters have the format of bf16 and fp16",
    "data_types.buffer_dtype": "buffers have the format of parameters",
    "data_types.keep_in_fp32_modules": "all modules have one format",
    "compile.deepcompile": "layers run as the framework's description says",
}
"""Keys that change the time, and what the simulator does instead."""

REFUSED: Mapping[str, str] = {
    "data_efficiency": "changes lengths of samples from step to step",
    "torch_autocast": "chooses formats operation by operation",
    "hybrid_engine": "is of inference in training",
    "autotuning": "searches for a configuration",
    "weight_quantization": "quantizes weights",
    "zero_optimization.zenflow": "updates parameters asynchronously",
    "compression_training": "is gone in this release",
    "sparse_attention": "is gone in this release",
    "elasticity": "is gone in this release",
    "curriculum_learning": "is gone in this release",
    "progressive_layer_drop": "is gone in this release",
    "amp": "is gone in this release",
}
"""Sections of jobs that the options don't describe, and why."""


def is_deepspeed(text: str) -> bool:
    """Whether a text looks like a configuration of DeepSpeed."""
    return text.lstrip().startswith("{") and any(f'"{key}"' in text for key in _TYPICAL)


def read_deepspeed(text: str, file: str, base: Model | None, ranks: int | None) -> Launched:
    """The layout of a configuration. Raises `InputError` with every problem."""
    given = given_json(text, file)
    missing = {
        "model": (base is None, "a configuration of DeepSpeed has none: MODEL before --from"),
        "--ranks": (ranks is None, "--ranks N"),
    }
    given.problems += [
        Problem(file, name, "is missing", allowed)
        for name, (absent, allowed) in missing.items()
        if absent
    ]
    _refuse_auto(given)
    options: dict[str, object] = {"framework": FRAMEWORK, "sp": False}
    _degrees(given, options, ranks or 1)
    _batch(given, options)
    _precision(given, options)
    _sharding(given, options)
    _recompute(given, options)
    seq = decoder(base).sequence if base is not None else None
    options |= {"seq": seq, "attention": "flash"}
    given.note(f"samples have {seq} tokens, those of the model, and attention is flash")
    given.warn(UNMODELED)
    _refuse_sections(given)
    idle = given.finish(dict.fromkeys(IDLE, _WHY) | _idle_keys(given))
    assert base is not None
    return Launched("deepspeed", base, options, tuple(given.notes), idle)


def _refuse_auto(given: Given) -> None:
    """Values that Hugging Face's Trainer fills in are in no configuration."""
    for key, said in given.keys.items():
        if said.value == _AUTO and key != "pipeline.stages" and not _in(key, IDLE_SECTIONS):
            given.asked.add(key)
            given.fault(key, "is auto, which another program fills in", "a value")


def _in(key: str, sections: Mapping[str, str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in sections)


def _refuse_sections(given: Given) -> None:
    for key in given.keys:
        section = next((each for each in REFUSED if _in(key, {each: ""})), None)
        if section is None:
            continue
        given.asked.add(key)
        switch = f"{section}.enabled"
        decides = key == switch or switch not in given.keys
        if decides and given.keys[key].value is not False:
            given.fault(key, REFUSED[section], "a job without it")


def _idle_keys(given: Given) -> dict[str, str]:
    sections = {key: key.partition(".")[0] for key in given.keys}
    return {key: IDLE_SECTIONS[name] for key, name in sections.items() if name in IDLE_SECTIONS}


def _count(given: Given, key: str) -> int:
    """A count that is 1 where it is 0 or missing."""
    return given.count(key, least=0) or 1


def _degrees(given: Given, options: dict[str, object], ranks: int) -> None:
    tp, cp = _count(given, "tensor_parallel.autotp_size"), _count(given, "sequence_parallel_size")
    ep = 1
    if given.switch("expert_parallel.enabled"):
        ep = _count(given, "expert_parallel.autoep_size")
    given.asked.add("expert_parallel.autoep_size")
    pp = 1
    if given.keys.get("pipeline.stages") is not None:
        stages = given.value("pipeline.stages")
        if stages == _AUTO:
            given.note("pipeline.stages is auto: the job is taken without a pipeline")
        else:
            pp = _count(given, "pipeline.stages")
    options |= {"tp": tp, "pp": pp, "cp": cp}
    if ep > 1:
        options["ep"] = ep
    if cp > 1:
        options["cp_comm_type"] = "a2a"
    unit = tp * pp * cp
    if ranks % unit:
        said = f"{ranks} ranks are not a multiple of tp {tp} x pp {pp} x cp {cp} = {unit}"
        given.problems.append(Problem(given.file, "--ranks", said, f"a multiple of {unit}"))
    options["dp"] = max(1, ranks // unit)


def _batch(given: Given, options: dict[str, object]) -> None:
    """Two of three sizes give the third."""
    dp = options["dp"]
    assert isinstance(dp, int)
    whole, micro = given.count("train_batch_size"), given.count("train_micro_batch_size_per_gpu")
    steps = given.count("gradient_accumulation_steps")
    if whole is None and micro is None:
        if not given.problems:
            said = "is missing, as is train_micro_batch_size_per_gpu"
            given.fault("train_batch_size", said, "one of the two")
        return
    if micro is None:
        micro = (whole or 0) // dp // (steps or 1)
    if steps is None:
        steps = (whole or micro * dp) // micro // dp if micro else 0
    if (whole or micro * steps * dp) != micro * steps * dp or not micro * steps:
        said = f"{whole} samples are not {micro} x {steps} steps x {dp} replicas"
        given.fault("train_batch_size", said, "micro-batch x accumulation steps x replicas")
    options |= {"micro_batch": micro, "global_batch": whole or micro * steps * dp}


def _precision(given: Given, options: dict[str, object]) -> None:
    half = bool(given.switch("fp16.enabled"))
    brain = bool(given.switch("bf16.enabled")) or bool(given.switch("bfloat16.enabled"))
    precision = "bf16" if brain else "fp16" if half else "fp32"
    options["precision"] = precision
    if half and brain:
        given.fault("fp16.enabled", "is on, and so is bf16.enabled", "one of the two")
    reduced = given.word("communication_data_type", _TYPES) or precision
    kept = given.word("data_types.grad_accum_dtype", _TYPES) or reduced
    if kept != reduced:
        given.note(f"gradients are kept in {reduced} as they are reduced, not in {kept}")
    options["fp32_gradients"] = reduced == "fp32"
    narrow = given.switch("bf16.bf16_optimizer_states")
    if given.switch("bf16.bf16_master_weights_and_grads"):
        given.note("master weights have 4 bytes (bf16.bf16_master_weights_and_grads has no model)")
    if narrow:
        options["moments"] = "bf16"


def _sharding(given: Given, options: dict[str, object]) -> None:
    zero = given.count("zero_optimization.stage", least=0) or 0
    if zero > 3:
        given.fault("zero_optimization.stage", f"is {zero}", "0, 1, 2, 3")
        return
    options["zero"] = zero
    overlaps = given.switch("zero_optimization.overlap_comm")
    if zero < 3:
        options["framework_set"] = {"overlap_grad_reduce": bool(overlaps)}
    devices = (_NONE, _CPU, _NVME)
    optimizer = given.word("zero_optimization.offload_optimizer.device", devices)
    parameters = given.word("zero_optimization.offload_param.device", devices)
    ratio = given.number("zero_optimization.offload_optimizer.ratio")
    if _NVME in (optimizer, parameters):
        said = "offloads to disks"
        given.problems.append(Problem(given.file, "zero_optimization", said, "cpu, none"))
    if optimizer == _CPU and ratio not in (None, 1.0):
        said = f"offloads {ratio} of the optimizer"
        given.fault("zero_optimization.offload_optimizer.ratio", said, "1")
    if parameters == _CPU:
        options["offload"] = "parameters"
    elif optimizer == _CPU:
        options["offload"] = "optimizer"
    name = given.text("optimizer.type")
    if name is not None and name.lower() not in _ADAMS:
        given.fault("optimizer.type", f"is {name[:60]}", "Adam, AdamW")


def _recompute(given: Given, options: dict[str, object]) -> None:
    interval = given.count("pipeline.activation_checkpoint_interval", least=0) or 0
    listed = any(key.startswith("activation_checkpointing.") for key in given.keys)
    if listed and not interval:
        given.note("activation_checkpointing is taken as full recomputation of each layer")
    if interval > 1:
        given.note(f"checkpoints of {interval} layers are taken as one for each layer")
    options["recompute"] = "full" if listed or interval else "none"
