"""Jobs of torchtitan: commands with `--module`, `--config` and overrides (0.3), and TOML files (up
to 0.2).

Here: the layout from keys such as `parallelism.tensor_parallel_degree`. Not here: the way back
(`torchtitan_export.py`), scripts as text (`shell.py`). A configuration is a Python function, which
is not run: those that come with torchtitan 0.3.0 and train a model of ours are listed in `CONFIGS`.
Source: torchtitan 0.3.0, config/configs.py, trainer.py, distributed/pipeline_parallel.py and
models/*/config_registry.py below torchtitan; for TOML torchtitan 0.2, config/job_config.py."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..model.decoder_reader import decoder
from ..model.files import Model, load_model
from .documented import flat
from .given import Given, Said
from .launched import Launched
from .shell import Word, read_script

FRAMEWORK = "torchtitan"
_TRAINERS = ("torchtitan.train", "run_train.sh", "train.py", "torchtitan/train.py")
SCHEDULES = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved"}
_CHECKPOINTS = "activation_checkpoint:"
_LONGEST_TOML = 2**20


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration function: the model, and what it sets."""

    model: str
    keys: Mapping[str, object] = field(default_factory=dict)


_FULL, _OPS = {"activation_checkpoint.mode": "full"}, {"activation_checkpoint.mode": "selective"}


def _config(model: str, batch: int, seq: int, more: Mapping[str, object]) -> Config:
    return Config(model, {"training.local_batch_size": batch, "training.seq_len": seq, **more})


_TP = "parallelism.tensor_parallel_degree"
CONFIGS: Mapping[tuple[str, str], Config] = {
    ("llama3", "llama3_8b"): _config("llama-3-8b", 1, 8192, _OPS),
    ("llama3", "llama3_70b"): _config("llama-3-70b", 8, 8192, {_TP: 8, **_FULL}),
    ("llama3", "llama3_405b"): _config(
        "llama-3-405b", 2, 8192,
        {_TP: 8, **_FULL, "compile.enable": True, "compile.enable_async_tensor_parallel": True,
         "converters": "float8"},
    ),
    ("deepseek_v3", "deepseek_v3_671b"): _config(
        "deepseek-v3", 4, 4096,
        {"parallelism.pipeline_parallel_schedule": "Interleaved1F1B",
         "parallelism.expert_parallel_degree": 2, **_OPS, "compile.enable": True},
    ),
    ("qwen3", "qwen3_30b_a3b"): _config("qwen3-30b-a3b", 2, 4096, _FULL),
    ("gpt_oss", "gpt_oss_120b"): _config("gpt-oss-120b", 1, 8192, _FULL),
}  # fmt: skip
"""Configurations of torchtitan 0.3.0 that train a preset (models/*/config_registry.py)."""
FLAVORS: Mapping[tuple[str, str], str] = {
    ("llama3", "8B"): "llama-3-8b",
    ("llama3", "70B"): "llama-3-70b",
    ("llama3", "405B"): "llama-3-405b",
    ("deepseek_v3", "671B"): "deepseek-v3",
    ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
}
"""Models of TOML files by name and flavor."""

IDLE_SECTIONS: Mapping[str, str] = {
    **dict.fromkeys(("metrics", "profiling", "profiler", "debug"), "logs, profiles and checks"),
    **dict.fromkeys(("job", "comm", "fault_tolerance"), "how processes start and are watched"),
    **dict.fromkeys(("validation", "validator"), "validation happens between steps"),
    **dict.fromkeys(("tokenizer", "dataloader"), "loading of data hides behind a step"),
    **dict.fromkeys(("lr_scheduler", "optimizer"), "values of the optimizer"),
    "checkpoint": "checkpoints happen between steps",
    "memory_estimation": "is a run of its own",
}
"""Sections that change no time, and why."""
IDLE = (
    "training.dataset", "training.dataset_path", "training.steps", "training.max_norm",
    "training.gc_freq", "training.gc_debug", "training.seed", "training.deterministic",
    "model.hf_assets_path", "model.tokenizer_path", "model.print_after_conversion",
    "hf_assets_path", "dump_folder", "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.determinism_check", "activation_checkpoint.debug",
    "activation_checkpoint.early_stop", "compile.backend", "parallelism.spmd_backend",
    "parallelism.context_parallel_load_balancer", "parallelism.context_parallel_ptrr_mask_key",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
    "activation_checkpoint.force_recompute_mm_shapes_by_fqns",
)  # fmt: skip
_WHY = "data, length of the run, checks, and settings that keep all operations"
"""Reason why these change no time."""
UNMODELED: Mapping[str, str] = {
    "training.disable_cuda_graphs": "graphs save launches of kernels",
    "parallelism.enable_fsdp_symm_mem": "FSDP's collectives are NCCL's",
    "parallelism.enable_compiled_autograd": "backward passes are PyTorch's",
    "parallelism.disable_loss_parallel": "the loss is computed on all logits of a rank",
    "compile.components": "model and loss are compiled, or neither",
    "float8.enable_fsdp_float8_all_gather": "the framework's description decides",
    "quantize.linear.float8.enable_fsdp_float8_all_gather": "the framework's description decides",
    "float8.precompute_float8_dynamic_scale_for_fsdp": "scales are computed layer by layer",
    "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp": "scales are computed "
    "layer by layer",
    "float8.filter_fqns": "all matrices but the head have 8 bits",
    "quantize.linear.float8.filter_fqns": "all matrices but the head have 8 bits",
    "float8.emulate": "kernels of 8 bits are the platform's",
    "quantize.linear.float8.emulate": "kernels of 8 bits are the platform's",
    "loss.loss_fn": "the loss is computed on all tokens at once",
    "optimizer.early_step_in_backward": "the optimizer runs at the end of a step",
}
"""Keys that change the time, and what the simulator does instead."""
REFUSED: Mapping[str, str] = {
    "parallelism.module_fqns_per_model_part": "names the modules of each stage",
    "parallelism.pipeline_parallel_split_points": "names the modules of each stage",
    "parallelism.pipeline_parallel_schedule_csv": "is a schedule of its own",
    "override.imports": "replaces parts of the model by Python code",
    "experimental.custom_import": "replaces parts of the model by Python code",
    "experimental.custom_args_module": "replaces parts of the model by Python code",
    "job.custom_config_module": "replaces parts of the model by Python code",
}


def is_torchtitan(text: str) -> bool:
    """Whether a text looks like a command or a file of torchtitan."""
    toml = "[parallelism]" in text and "[training]" in text
    return toml or "torchtitan.train" in text or "run_train.sh" in text


def read_torchtitan(text: str, file: str, base: Model | None, ranks: int | None) -> Launched:
    """The job that a command or a TOML file starts. Raises `InputError` with every problem."""
    is_toml = file.endswith(".toml") or ("[training]" in text and "--module" not in text)
    given = _of_toml(text, file) if is_toml else _of_command(text, file)
    model = _model(given, base, is_toml)
    options: dict[str, object] = {"framework": FRAMEWORK}
    each, nodes = given.count("nproc_per_node"), given.count("nnodes")
    given.asked.update(_LAUNCHER)
    _degrees(given, options, given.world(each, nodes, ranks))
    layers = decoder(model).layers if model is not None else None
    _stages(given, options, layers)
    _batch(given, options)
    _precision(given, options)
    _recompute(given, options)
    _compiled(given, options, is_toml)
    given.warn(UNMODELED)
    given.refuse({key: why for key, why in REFUSED.items() if _is_set(given, key)}, "without it")
    given.asked.update(REFUSED)
    sections = {key: key.partition(".")[0] for key in given.keys}
    known = {key: IDLE_SECTIONS[name] for key, name in sections.items() if name in IDLE_SECTIONS}
    idle = given.finish(dict.fromkeys(IDLE, _WHY) | known)
    assert model is not None
    return Launched("torchtitan", model, options, tuple(given.notes), idle)


def _is_set(given: Given, key: str) -> bool:
    said = given.keys.get(key)
    return said is not None and said.value not in ("", None, [], "None")


def _of_toml(text: str, file: str) -> Given:
    from .. import documents

    if len(text) > _LONGEST_TOML:
        raise InputError(
            [Problem(file, "", f"is larger than {_LONGEST_TOML} bytes", "a TOML file")]
        )
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        said = f"is not TOML: {str(error)[:200]}"
        raise InputError([Problem(file, "", said, "[section] and key = value")]) from None
    documents.require_sound(value, file)
    return Given(file, flat(value, file))


def _of_command(text: str, file: str) -> Given:
    """Keys of the one command that trains."""
    script = read_script(text, file)
    found = [each for each in script.commands if any(map(_is_trainer, each))]
    bare = [each for each in script.commands if each[0].text.startswith("--")]
    if not found and bare:
        found = [[word for each in bare for word in each]]
    if len(found) != 1:
        said = f"has {len(found)} commands that start torchtitan"
        raise InputError([Problem(file, "", said, "one command with torchtitan.train")])
    keys = _keys(found[0])
    for name, key in (("MODULE", "module"), ("CONFIG", "config"), ("NGPU", "nproc_per_node")):
        # run_train.sh takes these from the environment.
        value = script.values.get(name)
        if value is not None and key not in keys and any("run_train" in w.text for w in found[0]):
            keys[key] = value
    given = Given(file, keys)
    given.notes |= dict.fromkeys(script.notes)
    return given


def _is_trainer(word: Word) -> bool:
    return any(word.text.endswith(each) for each in _TRAINERS)


def _keys(words: list[Word]) -> dict[str, Said]:
    """Overrides and launcher's flags by their keys; `no` in a flag switches it off."""
    keys: dict[str, Said] = {}
    key = ""
    for word in words:
        place = f"line {word.line}"
        if word.text.startswith(_CHECKPOINTS):
            mode = word.text.removeprefix(_CHECKPOINTS)
            keys["activation_checkpoint.mode"] = Said(mode, place, word.unknown)
            key = ""
        elif word.text.startswith("--"):
            name, sign, text = word.text.removeprefix("--").partition("=")
            key = name.replace("-", "_")
            section, dot, last = key.rpartition(".")
            off = bool(dot) and last.startswith("no_")
            if off:
                key = f"{section}.{last.removeprefix('no_')}"
            said = text if sign else False if off else None
            keys[key] = Said(said, place, word.unknown, word.assumed)
            key = "" if sign or off else key
        elif key:
            before = keys[key].value
            texts = [*before, word.text] if isinstance(before, list) else [before, word.text]
            value: object = word.text if before is None else texts
            unknown = (*keys[key].unknown, *word.unknown)
            keys[key] = Said(value, place, unknown, (*keys[key].assumed, *word.assumed))
            if _is_trainer(word) or "." not in key:
                keys[key] = Said(word.text, place, word.unknown, word.assumed)
                key = ""
    return keys


_LAUNCHER = (
    "nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "local_ranks_filter",
    "role", "tee", "node_rank", "master_addr", "master_port", "virtual_local_rank", "job_id",
)  # fmt: skip


def _model(given: Given, base: Model | None, is_toml: bool) -> Model | None:
    """The model, and its configuration's keys among those of `given`."""
    key = ("model.name", "model.flavor") if is_toml else ("module", "config")
    one, two = (given.text(each) or "" for each in key)
    config = None if is_toml else CONFIGS.get((one, two))
    preset = FLAVORS.get((one, two)) if is_toml else config.model if config else None
    if config is not None:
        given.keys = {
            **{name: Said(value, two) for name, value in config.keys.items()},
            **given.keys,
        }
    elif not is_toml:
        said = f"the function {two or 'of --config'} is not run: its settings are torchtitan's own"
        given.note(f"{said} defaults where the command does not say")
    if base is not None and preset is not None and base.name != preset:
        said = f"is {one} {two}, which is {preset}, not {base.name}"
        given.problems.append(Problem(given.file, key[1], said, f"{preset} before --from"))
    if base is None and preset is None:
        known = ", ".join(f"{a} {b}" for a, b in (FLAVORS if is_toml else CONFIGS))
        said = f"{one} {two} is not a known model"
        given.problems.append(Problem(given.file, key[0], said, f"{known}; or MODEL before --from"))
        return None
    return base or load_model(str(preset))


def _degrees(given: Given, options: dict[str, object], world: int | None) -> None:
    tp, pp, cp, ep, copies = (
        given.count(f"parallelism.{name}_degree") or 1
        for name in (
            "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
            "data_parallel_replicate",
        )
    )  # fmt: skip
    key = "parallelism.data_parallel_shard_degree"
    shard = None if str(given.value(key)) == "-1" else given.count(key)
    sp = given.switch("parallelism.enable_sequence_parallel")
    narrow = given.count("parallelism.expert_tensor_parallel_degree")
    if narrow not in (None, 1):
        given.fault("parallelism.expert_tensor_parallel_degree", f"is {narrow}", "1")
    options |= {"tp": tp, "pp": pp, "cp": cp, "sp": tp > 1 and sp is not False}
    if ep > 1:
        options |= {"ep": ep, "etp": 1}
    unit = tp * pp * cp * copies
    if world is not None and (world % unit or (shard and shard * unit != world)):
        said = f"{world} ranks are not {shard or 'a multiple'} x {unit}, the product of degrees"
        given.problems.append(Problem(given.file, "ranks", said, f"a multiple of {unit}"))
        return
    shard = shard or (world or unit) // unit
    dp = shard * copies
    options["dp"] = dp
    rotate = given.word("parallelism.context_parallel_rotate_method", ("allgather", "alltoall"))
    if cp > 1:
        options["cp_comm_type"] = "p2p" if rotate == "alltoall" else "all_gather"
    policy = given.word("parallelism.fsdp_reshard_after_forward", ("default", "always", "never"))
    keeps = policy == "never" or (policy in (None, "default") and pp > 1)
    options["zero"] = 0 if shard * cp == 1 else 2 if keeps else 3
    if copies > 1 and shard * cp > 1:
        options["zero_group"] = shard * cp


def _stages(given: Given, options: dict[str, object], layers: int | None) -> None:
    schedule = given.word("parallelism.pipeline_parallel_schedule", tuple(SCHEDULES)) or "1F1B"
    one = given.count("parallelism.pipeline_parallel_layers_per_stage")
    ends = [
        given.count(f"parallelism.pipeline_parallel_{end}_stage_less_layers", least=0)
        for end in ("first", "last")
    ]
    first, last = (1 if each is None else each for each in ends)
    pp = options["pp"]
    assert isinstance(pp, int)
    if pp == 1 or layers is None:
        return
    options["schedule"] = SCHEDULES[schedule]
    chunks = 2 if schedule == "Interleaved1F1B" else 1
    if one is not None:
        parts = -(-(layers + first + last) // one)
        if parts % pp or (parts // pp > 1) != (schedule == "Interleaved1F1B"):
            said = f"{parts} parts of {one} layers for {pp} stages under {schedule}"
            given.fault("parallelism.pipeline_parallel_layers_per_stage", said, "another number")
            return
        chunks = parts // pp
    counts = split(layers, pp * chunks, first, last)
    if counts is None:
        said = f"{layers} layers in {pp * chunks} parts, {first} and {last} less at the ends"
        given.fault("parallelism.pipeline_parallel_degree", said, "fewer parts")
        return
    options |= {"virtual_stages": chunks, "layers_per_stage": ",".join(map(str, counts))}


def split(layers: int, parts: int, first: int, last: int) -> list[int] | None:
    """Layers of each part: as even as they go, the first parts having one more, and the ends
    `first` and `last` less. `None` where torchtitan refuses it."""
    each, more = divmod(layers + first + last, parts)
    if each == 0 or max(first, last) > each:
        return None
    counts = [each + (part < more) for part in range(parts)]
    counts[0] -= first
    counts[-1] -= last
    return counts


def _batch(given: Given, options: dict[str, object]) -> None:
    local = given.count("training.local_batch_size") or given.count("training.batch_size") or 8
    piece = given.count("parallelism.pipeline_parallel_microbatch_size") or 1
    key = "training.global_batch_size"
    whole = None if str(given.value(key)) == "-1" else given.count(key)
    seq = given.count("training.seq_len") or 2048
    dp, pp = options.get("dp", 1), options["pp"]
    assert isinstance(dp, int)
    whole = whole or local * dp
    if whole % (local * dp):
        said = f"{whole} samples are not a multiple of {local} x {dp} replicas"
        given.fault(key, said, f"a multiple of {local * dp}")
    if pp != 1 and whole > local * dp:
        given.note("steps of accumulation are taken as one run of the pipeline")
    options |= {"micro_batch": piece if pp != 1 else local, "global_batch": whole, "seq": seq}


def _precision(given: Given, options: dict[str, object]) -> None:
    kinds = ("bfloat16", "float32")
    whole = given.word("training.dtype", kinds)
    mixed = given.word("training.mixed_precision_param", kinds)
    reduced = given.word("training.mixed_precision_reduce", ("float32", "bfloat16"))
    if whole == "bfloat16":
        given.fault("training.dtype", "is bfloat16, without a master copy", "float32")
    options["precision"] = "fp32" if mixed == "float32" else "bf16"
    options["fp32_gradients"] = reduced != "bfloat16"
    options["attention"] = "flash"
    converters = given.value("converters") or given.value("model.converters")
    listed = converters if isinstance(converters, list) else [converters] if converters else []
    names = {str(each).rpartition(".")[2] for each in listed}
    if wrong := sorted(names - {"float8"}):
        given.fault("model.converters", f"has {wrong[0][:60]}", "float8")
    if "float8" in names:
        options["precision"] = "fp8"
    recipe = None
    for section in ("float8", "quantize.linear.float8"):
        recipe = recipe or given.word(f"{section}.recipe_name", ("tensorwise", "rowwise"))
    if "float8" in names:
        options["fp8_recipe"] = recipe or "tensorwise"
    if given.switch("training.enable_cpu_offload"):
        options["offload"] = "parameters"
    kind = given.text("optimizer.implementation")
    if kind == "fused_opt_states_bf16":
        options["moments"] = "bf16"
    name = given.text("optimizer.name")
    if name not in (None, "Adam", "AdamW"):
        given.fault("optimizer.name", f"is {str(name)[:60]}", "Adam, AdamW")


def _recompute(given: Given, options: dict[str, object]) -> None:
    modes = ("none", "selective", "full", "memory_budget", "memory-budget")
    mode = given.word("activation_checkpoint.mode", modes) or "selective"
    kind = given.text("activation_checkpoint.selective_ac_option")
    if mode.startswith("memory"):
        given.fault("activation_checkpoint.mode", f"is {mode}", "none, selective, full")
    if mode == "selective" and kind not in (None, "op"):
        said = f"recomputes every {str(kind)[:20]} layers"
        given.fault("activation_checkpoint.selective_ac_option", said, "op")
    options["recompute"] = {"selective": "ops"}.get(mode, mode)


def _compiled(given: Given, options: dict[str, object], is_toml: bool) -> None:
    """Behaviour: what torch.compile fuses, and checkpoints that stop early."""
    compiled = bool(given.switch("compile.enable")) or bool(given.switch("training.compile"))
    pieces = bool(given.switch("compile.enable_async_tensor_parallel"))
    pieces |= bool(given.switch("parallelism.enable_async_tensor_parallel"))
    chosen: dict[str, object] = {"kernels": "fused" if compiled else "eager"}
    if options["tp"] != 1:
        chosen["overlap_tp"] = pieces and compiled
    if options["recompute"] == "full" and not is_toml:
        chosen["early_stop"] = False
    options["framework_set"] = chosen
