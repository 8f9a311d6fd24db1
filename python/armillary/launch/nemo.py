"""Configurations of NeMo's Megatron-Bridge: YAML of its `ConfigContainer`, and overrides such as
`model.tensor_model_parallel_size=8`.

Keys are fields of megatron-core's classes, so they are translated to Megatron's flags, and
`megatron.py` reads these. Recipes are Python functions, which are not run: without `num_layers` the
model is named before `--from`. Source: Megatron-Bridge 0.3.1, training/config.py,
training/mixed_precision.py, models/gpt_provider.py; megatron-core 0.16.1."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model.files import Model
from .documented import given_yaml
from .given import Given, Said
from .launched import Launched
from .megatron import job_of
from .patterns import written
from .shell import Word, read_script

SECTIONS = ("model", "train", "ddp", "optimizer", "mixed_precision", "comm_overlap", "dist")
"""Sections that decide the time."""
IDLE_SECTIONS = (
    "rng", "rerun_state_machine", "optimizer_config_override_provider", "scheduler", "dataset",
    "logger", "tokenizer", "checkpoint", "ft", "straggler", "nvrx_straggler", "profiling",
    "tensor_inspect", "inprocess_restart",
)  # fmt: skip
"""Sections that change no time: data, logs, checkpoints, values of the optimizer, restarts."""
FLAGS: Mapping[str, str] = {
    "mixed_precision.fp8": "--fp8-format",
    "mixed_precision.fp4": "--fp4-format",
    "model.num_moe_experts": "--num-experts",
    "model.num_layers_in_first_pipeline_stage": "--decoder-first-pipeline-num-layers",
    "model.num_layers_in_last_pipeline_stage": "--decoder-last-pipeline-num-layers",
    "model.virtual_pipeline_model_parallel_size": "--num-virtual-stages-per-pipeline-rank",
    "model.gated_linear_unit": "--swiglu",
}
"""Keys whose flags have other names."""
INVERSE: Mapping[str, str] = {
    "model.add_bias_linear": "--disable-bias-linear",
    "model.share_embeddings_and_output_weights": "--untie-embeddings-and-output-weights",
    "model.gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "model.masked_softmax_fusion": "--no-masked-softmax-fusion",
    "model.bias_dropout_fusion": "--no-bias-dropout-fusion",
    "model.apply_rope_fusion": "--no-rope-fusion",
    "model.bias_activation_fusion": "--no-bias-swiglu-fusion",
    "model.overlap_p2p_comm": "--no-overlap-p2p-communication",
}
"""Keys that are on unless a flag switches them off."""
IDLE = (
    "optimizer.optimizer", "optimizer.lr", "optimizer.min_lr", "optimizer.weight_decay",
    "optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_eps", "optimizer.clip_grad",
    "optimizer.bf16", "optimizer.fp16", "optimizer.params_dtype", "optimizer.log_num_zeros_in_grad",
    "optimizer.use_distributed_optimizer", "optimizer.overlap_param_gather",
    "ddp.check_for_nan_in_grad", "ddp.average_in_collective", "ddp.align_param_gather",
    "ddp.grad_reduce_in_fp32", "ddp.bucket_size", "train.train_iters", "train.eval_interval",
    "train.eval_iters", "train.manual_gc", "train.manual_gc_interval", "train.manual_gc_eval",
    "train.exit_interval", "model.params_dtype", "model.pipeline_dtype", "model.autocast_dtype",
    "model.bf16", "model.fp16", "model.layernorm_epsilon", "model.layernorm_zero_centered_gamma",
    "model.init_method_std", "model.rotary_base", "model.rotary_percent", "model.rope_scaling",
    "model.rope_scaling_factor", "model.parallel_output", "model.deallocate_pipeline_outputs",
    "model.scatter_embedding_sequence_parallel", "model.hf_model_id", "model.generation_config",
    "model.cross_entropy_loss_fusion", "model.cross_entropy_fusion_impl", "model.mtp_enabled",
    "model.perform_initialization", "model.use_cpu_initialization", "model.batch_p2p_comm",
    "model.persist_layer_norm", "model.moe_aux_loss_coeff", "model.moe_grouped_gemm",
    "mixed_precision.params_dtype", "mixed_precision.pipeline_dtype",
    "mixed_precision.autocast_dtype", "mixed_precision.autocast_enabled", "mixed_precision.fp32",
    "mixed_precision.fp8_param", "mixed_precision.fp8_margin",
    "mixed_precision.fp8_amax_history_len", "mixed_precision.fp8_amax_compute_algo",
    "mixed_precision.loss_scale", "mixed_precision.initial_loss_scale",
    "mixed_precision.hysteresis", "mixed_precision.min_loss_scale",
    "mixed_precision.loss_scale_window", "comm_overlap.tp_comm_overlap_cfg",
    "comm_overlap.tp_comm_bootstrap_backend", "comm_overlap.overlap_p2p_comm",
    "comm_overlap.batch_p2p_comm", "comm_overlap.align_param_gather", "comm_overlap.bucket_size",
    "comm_overlap.data_parallel_size", "comm_overlap.wgrad_deferral_limit",
    "dist.distributed_backend", "dist.distributed_timeout_minutes", "dist.align_grad_reduce",
    "dist.lazy_init", "dist.use_gloo_process_groups", "dist.use_megatron_fsdp",
    "dist.external_gpu_device_mapping", "dist.local_rank",
)  # fmt: skip
_WHY = "values of the optimizer, data, logs and checkpoints, or what another key says"
"""Reason why these and those of the sections above change no time."""
SECTION_OF: Mapping[str, str] = {
    "--micro-batch-size": "train",
    "--global-batch-size": "train",
    "--use-distributed-optimizer": "ddp",
    "--num-distributed-optimizer-instances": "ddp",
    "--use-megatron-fsdp": "ddp",
    "--data-parallel-sharding-strategy": "ddp",
    "--overlap-grad-reduce": "ddp",
    "--overlap-param-gather": "ddp",
    "--optimizer-cpu-offload": "optimizer",
    "--use-precision-aware-optimizer": "optimizer",
    "--bf16": "mixed_precision",
    "--fp16": "mixed_precision",
    "--fp8-recipe": "mixed_precision",
    "--fp8-param-gather": "mixed_precision",
    "--fp4-recipe": "mixed_precision",
    "--tp-comm-overlap": "comm_overlap",
    "--overlap-moe-expert-parallel-comm": "comm_overlap",
    "--ckpt-format": "checkpoint",
    "--grad-reduce-in-bf16": "mixed_precision",
    "--accumulate-allreduce-grads-in-fp32": "mixed_precision",
}
"""Sections of flags; `model` for those that are not here."""
RECIPES: Mapping[str, Mapping[str, object]] = {
    "bf16_mixed": {"bf16": True},
    "fp16_mixed": {"fp16": True},
    "bf16_with_fp8_delayed_scaling_mixed": {
        "bf16": True, "fp8": "hybrid", "fp8_recipe": "delayed", "fp8_param_gather": True,
    },
    "bf16_with_fp8_current_scaling_mixed": {
        "bf16": True, "fp8": "hybrid", "fp8_recipe": "tensorwise", "fp8_param_gather": True,
    },
    "bf16_with_fp8_subchannel_scaling_mixed": {
        "bf16": True, "fp8": "hybrid", "fp8_recipe": "blockwise", "fp8_param_gather": False,
    },
    "bf16_with_mxfp8_mixed": {
        "bf16": True, "fp8": "e4m3", "fp8_recipe": "mxfp8", "fp8_param_gather": True,
    },
    "bf16_with_nvfp4_mixed": {"bf16": True, "fp4": "e2m1"},
}  # fmt: skip
"""Named precisions (training/mixed_precision.py)."""
_TYPICAL = "tensor_model_parallel_size"
_OVERRIDE = re.compile(r"\+{0,2}([a-z_]+(?:\.[a-z0-9_]+)+)=(.*)", re.S)
_PRIVATE = ("_target_", "_partial_", "_call_", "_args_", "_name_")


def is_nemo(text: str) -> bool:
    """Whether a text has keys of Megatron-Bridge."""
    yaml = re.search(r"^model:\s*$", text, re.M) and re.search(rf"^\s+{_TYPICAL}:", text, re.M)
    return bool(yaml) or f"model.{_TYPICAL}=" in text


def read_nemo(text: str, file: str, base: Model | None, ranks: int | None) -> Launched:
    """The job of a configuration or of overrides. Raises `InputError` with every problem."""
    said = _of_overrides(text, file) if _is_command(text) else given_yaml(text, file)
    keys, shown = _translated(said)
    given = Given(file, keys, said.notes, said.problems)
    given.name_of = lambda flag: shown.get(flag) or key_of(flag)
    found = job_of("nemo", given, base, ranks)
    idle = {given.name_of(flag): why for flag, why in found.idle.items()}
    idle |= {key: _WHY for key in said.keys if _is_idle(key)}
    return Launched("nemo", found.model, found.options, found.notes, idle)


def key_of(flag: str) -> str:
    """The key of a flag of Megatron-LM."""
    named = {each: key for table in (FLAGS, INVERSE) for key, each in table.items()}
    if flag in named or flag.startswith(("--nproc", "--nnodes")) or not flag.startswith("--"):
        return named.get(flag, flag)
    if flag in ("--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32"):
        return "mixed_precision.grad_reduce_in_fp32"
    return f"{SECTION_OF.get(flag, 'model')}.{flag.removeprefix('--').replace('-', '_')}"


def _is_command(text: str) -> bool:
    return any(f"{section}." in text and "=" in text for section in SECTIONS) and not re.search(
        r"^(model|train):\s*$", text, re.M
    )


def _of_overrides(text: str, file: str) -> Given:
    """Overrides of the commands of a script, and the ranks of its launcher."""
    script = read_script(text, file)
    keys: dict[str, Said] = {}
    for words in script.commands:
        for at, word in enumerate(words):
            if match := _OVERRIDE.fullmatch(word.text):
                keys[match[1]] = _value(match[2], word)
            name, _, value = word.text.partition("=")
            if name in ("--nproc-per-node", "--nproc_per_node", "--nnodes", "--config-file"):
                value = value or (words[at + 1].text if at + 1 < len(words) else "")
                keys[name] = Said(value, f"line {word.line}", word.unknown)
    given = Given(file, keys)
    given.notes |= dict.fromkeys(script.notes)
    if "--config-file" in keys:
        given.fault("--config-file", "moves keys to another file", "that file, or all overrides")
        del keys["--config-file"]
    return given


def _value(text: str, word: Word) -> Said:
    plain: object = {"true": True, "false": False, "null": None}.get(text.lower(), text)
    if text.startswith("[") and text.endswith("]"):
        plain = [each.strip() for each in text[1:-1].split(",") if each.strip()]
    return Said(plain, f"line {word.line}", word.unknown, word.assumed)


def _is_idle(key: str) -> bool:
    section = key.partition(".")[0]
    return key in IDLE or section in IDLE_SECTIONS or key.rpartition(".")[2] in _PRIVATE


def _translated(said: Given) -> tuple[dict[str, Said], dict[str, str]]:
    """Keys as flags of Megatron-LM, and the keys of flags."""
    keys, shown = {}, {}
    found = dict(said.keys)
    recipe = found.pop("mixed_precision", None)
    for name, value in RECIPES.get(str(recipe.value), {}).items() if recipe else ():
        found[f"mixed_precision.{name}"] = Said(value, recipe.place if recipe else "")
    if recipe is not None and str(recipe.value) not in RECIPES:
        said.fault("mixed_precision", f"is {str(recipe.value)[:60]}", ", ".join(RECIPES))
    if recipe is None and not any(key.startswith("mixed_precision.") for key in found):
        found["mixed_precision.bf16"] = Said(True)
        said.note("mixed_precision is taken as bf16_mixed, that of the recipes")
    for key, value in found.items():
        if _is_idle(key) or value.value is None:
            continue
        flag, translated = _flag(key, value)
        if flag:
            keys[flag], shown[flag] = translated, key
    _together(found, keys)
    return keys, shown


def _flag(key: str, said: Said) -> tuple[str, Said]:
    """The flag of a key and its value; no flag where the key has no effect."""
    section, _, name = key.partition(".")
    value = said.value
    if key.startswith("--"):
        return key, said
    if key in INVERSE:
        return (INVERSE[key], Said(None, said.place)) if value is False else ("", said)
    if key == "mixed_precision.grad_reduce_in_fp32":
        flag = "--grad-reduce-in-bf16" if value is False else "--accumulate-allreduce-grads-in-fp32"
        return flag, Said(None, said.place)
    if section not in SECTIONS:
        return key, said
    flag = FLAGS.get(key, "--" + name.replace("_", "-"))
    if value is False and key not in FLAGS:
        return "", said
    return flag, Said(_spelled(flag, value), said.place, said.unknown, said.assumed)


def _spelled(flag: str, value: object) -> object:
    """A value as Megatron's flag has it."""
    if isinstance(value, list) and flag in ("--moe-layer-freq", "--window-attn-skip-freq"):
        numbers = [int(each) for each in value if str(each) in ("0", "1")]
        return written(numbers) if len(numbers) == len(value) and numbers else str(value)
    if isinstance(value, list) and flag == "--window-size":
        return f"({','.join(map(str, value))})"
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _together(found: Mapping[str, Said], keys: dict[str, Said]) -> None:
    """Flags that several keys decide."""
    groups, heads = found.get("model.num_query_groups"), found.get("model.num_attention_heads")
    if groups is not None and (heads is None or groups.value != heads.value):
        keys["--group-query-attention"] = Said(None, groups.place)
    size, padded = found.get("model.vocab_size"), found.get("model.should_pad_vocab")
    keys.pop("--should-pad-vocab", None)
    if size is not None and (padded is None or padded.value is not True):
        keys["--padded-vocab-size"] = keys["--vocab-size"]
    seq = keys.get("--seq-length")
    if seq is not None and "--num-layers" in keys:
        keys["--max-position-embeddings"] = seq
