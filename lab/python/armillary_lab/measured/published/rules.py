"""Rules of sources: what the words of each mean.

Every rule takes a row of its source and returns the run. What a source doesn't say and a rule
assumes stands in its docstring."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from armillary.model.files import Model

from ..training import KINDS, known_model
from .file import Row
from .run import Missing, Run, count, hardware


def gpt(
    layers: int, hidden: int, heads: int, seq: int, vocabulary: int, ffn: int | None = None
) -> Model:
    """A GPT with learned positions."""
    fields: dict[str, Any] = {
        **KINDS["gpt"],
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "ffn": ffn or 4 * hidden,
        "vocabulary": vocabulary,
        "tied": True,
        "sequence": seq,
        "positions": seq,
    }
    suffix = "-131k" if vocabulary == 131072 else ""
    return Model(f"gpt-{layers}x{hidden}{suffix}", "transformer", fields, "")


def _sequence(row: Row, default: int | None = None) -> int:
    """Tokens of a sample."""
    return count(row["model"], "seq", default)


def _internevo(row: Row) -> Run:
    """InternLM 7B with ZeRO 1 over groups of ranks."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch = row["parallel"], row["batch"]
    tp, micro = count(parallel, "tp"), count(batch, "micro_bsz")
    extra: dict[str, str] = {}
    group = count(parallel, "zero1", 0)
    if 0 < group < gpus // tp:
        extra["zero_group"] = str(group)
    if "activation_ckpt" in parallel:
        extra["packed"] = "1"
    full = str(parallel.get("activation_ckpt")).upper() == "TRUE"
    whole = micro * count(batch, "micro_num") * (gpus // tp)
    return Run(
        known_model("internlm-7b", _sequence(row, 2048)),
        gpu,
        gpus,
        nodes,
        whole,
        micro,
        tp=tp,
        recompute="full" if full else "none",
        extra=extra,
    )


def _vtrain(row: Row) -> Run:
    """GPTs on Megatron-DeepSpeed with all activations recomputed. The vocabulary, 51,200, is
    assumed."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch, model = row["parallel"], row["batch"], row["model"]
    layers, hidden, heads = (count(model, key) for key in ("layers", "hidden", "heads"))
    return Run(
        gpt(layers, hidden, heads, _sequence(row), 51200),
        gpu,
        gpus,
        nodes,
        count(batch, "global_batch"),
        count(batch, "micro_batch"),
        tp=count(parallel, "tp"),
        pp=count(parallel, "pp"),
        dp=count(parallel, "dp"),
        zero=0,
        recompute="full",
        precision="fp16",
    )


def _llm_foundry(row: Row) -> Run:
    """MPT with FSDP. `PURE` keeps and sends everything in 16 bits."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch = row["parallel"], row["batch"]
    if gpu == "A100" and "40GB" in str(row["hardware"]["gpu"]):
        gpu = "A100-40GB"
    name = str(row["model"].get("name")).lower().replace(" ", "-")
    words = str(row.get("precision"))
    recompute = str(parallel.get("activation_checkpointing")) == "True"
    return Run(
        _known(name, _sequence(row)),
        gpu,
        gpus,
        nodes,
        count(batch, "global_batch"),
        count(batch, "micro_batch"),
        zero={"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}.get(str(parallel.get("fsdp")), 3),
        recompute="full" if recompute else "none",
        precision="fp8" if "fp8" in words else "bf16",
        extra={
            "mixed": str(parallel.get("mp_mode")).lower(),
            "amp": str(int(words.startswith("amp"))),
        },
    )


def _known(name: str, seq: int) -> Model:
    try:
        return known_model(name, seq)
    except KeyError:
        raise Missing(f"the architecture of {name} is not known") from None


def _nanotron(row: Row) -> Run:
    """Llamas with sequence parallelism; nodes of 8."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch = row["parallel"], row["batch"]
    size = str(row["model"].get("name")).partition(" ")[2].lower()
    heads, groups = row["model"].get("heads"), row["model"].get("kv_heads")
    grouped = size == "80b" and heads != groups
    return Run(
        _known(f"nanotron-{size}" + ("-gqa" if grouped else ""), _sequence(row, 4096)),
        gpu,
        gpus,
        nodes,
        count(batch, "global_batch"),
        count(batch, "micro_batch"),
        tp=count(parallel, "tp"),
        pp=count(parallel, "pp"),
        dp=count(parallel, "dp"),
        zero=count(parallel, "zero", 0),
        extra={"sp": "1"},
        gib=row["metric"].get("gpu_memory_GB") or None,
    )


def _torchtitan(row: Row) -> Run:
    """Llama 3 with FSDP; without pipelines the local batch is one micro-batch, with them it is 1
    (assumed)."""
    gpu, gpus, nodes = hardware(row)
    parallel, model = row["parallel"], row["model"]
    if "96GB" in str(row["hardware"]["gpu"]):
        gpu = "H100-96GB"
    size = re.search(r"(\d+)B", str(model.get("name")))
    if size is None:
        raise Missing(f"the architecture of {model.get('name')} is not known")
    shards, pp = count(parallel, "fsdp"), count(parallel, "pp", 1)
    words = str(row.get("precision"))
    recompute = str(parallel.get("ac"))
    extra: dict[str, str] = {"assumed": "micro_batch"} if pp > 1 else {}
    extra["sp"] = "1"
    if words.startswith("fp8"):
        extra["fp8"] = words.partition(" ")[2]
    if parallel.get("async_tp"):
        extra["async_tp"] = "1"
    if "mode" in parallel:
        extra["mode"] = str(parallel["mode"]).removeprefix("torch.")
    if "schedule" in parallel:
        extra["schedule"] = str(parallel["schedule"]).lower()
    whole = count(row["batch"], "global_batch")
    return Run(
        _known(f"llama-3-{size[1]}b", _sequence(row, 8192)),
        gpu,
        gpus,
        nodes,
        whole,
        1 if pp > 1 else max(1, whole // shards),
        tp=count(parallel, "tp", 1),
        pp=pp,
        cp=count(parallel, "cp", 1),
        dp=shards,
        zero=3,
        recompute="selective" if "selective" in recompute else recompute,
        precision="fp8" if words.startswith("fp8") else "bf16",
        extra=extra,
    )


def _simumax(row: Row) -> Run:
    """Models with few layers on Megatron-Core; a micro-batch is one sample."""
    gpu, gpus, nodes = hardware(row)
    parallel, model = row["parallel"], row["model"]
    name = str(model.get("name"))
    known = {"llama3-405b": 4, "llama3-70b": 12, "deepseekv2": 4, "deepseekv3": 4}
    if name not in known:
        raise Missing(f"the architecture of {name} is not known")
    layers = count(model, "layers")
    base = _known(f"{name}-l{known[name]}", _sequence(row, 4096))
    if layers != known[name]:
        base = replace(base, name=f"{name}-l{layers}", fields={**base.fields, "layers": layers})
    dp = count(parallel, "dp")
    return Run(
        base,
        gpu,
        gpus,
        nodes,
        count(row["batch"], "micro_batch_count") * dp,
        1,
        tp=count(parallel, "tp"),
        pp=count(parallel, "pp"),
        cp=count(parallel, "cp", 1),
        ep=count(parallel, "ep", 1),
        dp=dp,
        extra={"sp": "1"},
        gib=row["metric"].get("real_alloc_gib") or None,
    )


RULES: Mapping[str, Callable[[Row], Run]] = {
    "internevo": _internevo,
    "vtrain_single": _vtrain,
    "vtrain_multi": _vtrain,
    "mosaic_llmfoundry": _llm_foundry,
    "nanotron_h100": _nanotron,
    "torchtitan": _torchtitan,
    "simumax_b200": _simumax,
}

REASONS: Mapping[str, str] = {
    "oci_dgxc_recipes": "layout and batch are those of recipes that the row doesn't name",
    "bigscience": "layers and heads are in the text around the tables, and hosts waited for every "
    "kernel (CUDA_LAUNCH_BLOCKING=1)",
    "fms_fsdp": "the ranks that share a shard, or the layers recomputed, are not stated",
    "nemo_long_sequence": "only FLOP/s by a convention of its own are stated, and no micro-batch",
    "nemo_launcher_scaling": "layout and batch are not stated",
    "maxtext_tpu": "layout and batch are not stated",
    "maxtext_gpu": "layout and batch are not stated",
    "tpu_recipes": "layout is not stated",
    "neusight": "fp32 in eager PyTorch on single GPUs: no framework of ours describes it",
    "optimum_habana_ci": "no preset for Gaudi",
    "moe_dispatch": "dispatch and combine of experts by themselves: not a step",
    "colossalai": "model and GPU are not stated",
    "primus": "DeepSeek-V4: its attention has no model",
    "nvidia_dle_other": "models without a family of ours",
    "nvidia_dle_bert": "BERT: attention to both sides has no model",
}
