"""Rules of sources that use Megatron-LM or NeMo."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from armillary.model.files import Model

from ..training import captured_model, known_model
from . import recomputed
from .bridge import recipe
from .file import Row
from .rules import gpt
from .run import Missing, Run, count, hardware

_TABLE_1: Mapping[str, tuple[int, int]] = {
    "1.7B": (16, 1),
    "3.6B": (16, 1),
    "7.5B": (16, 1),
    "18B": (8, 1),
    "39B": (4, 1),
    "76B": (2, 3),
    "145B": (2, 2),
    "310B": (1, 2),
    "530B": (1, 3),
    "1T": (1, 1),
}
"""Samples of a micro-batch and virtual stages of Narayanan et al. 2021 by size
(NVIDIA/Megatron-LM examples/sc21/run_table_1.sh)."""

_HEADS: Mapping[int, int] = {2304: 24, 3072: 32, 4096: 32, 6144: 48, 8192: 64, 10240: 80, 12288: 96}
_HEADS_LARGE: Mapping[int, int] = {16384: 128, 20480: 128, 25600: 160}


def _table_1(row: Row) -> Run:
    """Narayanan et al. 2021, table 1."""
    gpu, gpus, nodes = hardware(row)
    parallel, model = row["parallel"], row["model"]
    size = str(model.get("name")).rpartition(" ")[2]
    if size not in _TABLE_1:
        raise Missing(f"the micro-batch of {model.get('name')} is not stated")
    micro, chunks = _TABLE_1[size]
    hidden = count(model, "hidden")
    heads = {**_HEADS, **_HEADS_LARGE}.get(hidden)
    if heads is None:
        raise Missing(f"the heads of a model of width {hidden} are not known")
    sizes = (count(model, "layers"), hidden, heads, count(model, "seq"), count(model, "vocab"))
    return Run(
        gpt(*sizes),
        gpu,
        gpus,
        nodes,
        count(row["batch"], "global_batch"),
        micro,
        tp=count(parallel, "tp_derived"),
        pp=count(parallel, "pp_derived"),
        dp=count(parallel, "dp_derived"),
        zero=0,
        virtual_stages=chunks,
        recompute="full",
        precision="fp16",
    )


def _selective(row: Row) -> Run:
    """Korthikanti et al. 2022, table 5. The vocabulary is that of table 3."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch, model = row["parallel"], row["batch"], row["model"]
    keys = ("num_blocks", "hidden", "attn_heads", "seq_size")
    layers, hidden, heads, seq = (count(model, key) for key in keys)
    part = {"full": "full", "attn_only": "selective"}
    return Run(
        gpt(layers, hidden, heads, seq, 51200, count(model, "feedforward")),
        gpu,
        gpus,
        nodes,
        count(batch, "global_batch"),
        count(batch, "micro_batch"),
        tp=count(parallel, "tp"),
        pp=count(parallel, "pp"),
        dp=count(parallel, "dp"),
        zero=0,
        virtual_stages=count(parallel, "vpp", 1),
        recompute=part.get(str(parallel.get("activation_recompute")), "none"),
        precision="fp16",
        extra={"sp": str(int(bool(parallel.get("seq_par"))))},
    )


def _core(row: Row) -> Run:
    """Megatron-Core 0.8 on Eos. Micro-batches of one sample and sequence parallelism are assumed,
    as is the layout of the runs that only a figure shows."""
    gpu, gpus, nodes = hardware(row)
    parallel, model = row["parallel"], row["model"]
    assumed = "sp+micro_batch" if parallel else "tp+pp+sp+micro_batch"
    again = recomputed.stated(parallel) or recomputed.Recomputed("none", {})
    sizes = (count(model, key) for key in ("layers", "hidden", "heads", "seq", "vocab"))
    made = gpt(*sizes)
    whole = count(row["batch"], "global_batch")
    return Run(
        made,
        gpu,
        gpus,
        nodes,
        whole,
        1,
        tp=count(parallel, "tp", 8),
        pp=count(parallel, "pp", 6),
        recompute=again.kind,
        extra={"sp": "1", **again.extra, "assumed": assumed},
        seconds=None if parallel else _digitised(row, made, whole),
    )


def _digitised(row: Row, model: Model, batch: int) -> float | None:
    """A step from the FLOP/s of a figure, by the formula of its source: 72 B s l h^2 (1 + s / 6 h +
    V / 12 l h)."""
    total = row["metric"].get("aggregate_pflops_digitised")
    if not total:
        return None
    layers, hidden, seq, words = (
        model.fields[key] for key in ("layers", "hidden", "sequence", "vocabulary")
    )
    flops = 72 * batch * seq * layers * hidden**2
    flops *= 1 + seq / (6 * hidden) + words / (12 * layers * hidden)
    return float(flops / (float(total) * 1e15))


_NAMES: tuple[tuple[str, str], ...] = (
    (r"llama[ -]?3(\.1)?[ _-]?405b", "llama-3-405b"),
    (r"llama[ -]?3(\.1)?[ _-]?70b", "llama-3-70b"),
    (r"llama[ -]?3(\.1)?[ _-]?8b", "llama-3-8b"),
    (r"llama[ -]?2[ _-]?70b", "llama-2-70b"),
    (r"llama[ -]?2[ _-]?13b", "llama-2-13b"),
    (r"llama[ -]?2[ _-]?7b", "llama-2-7b"),
    (r"gpt[ -]?3[ _-]?175b|gpt175b|^nemo megatron\b", "gpt3-175b"),
    (r"gpt[ -]?3[ _-]?5b", "gpt3-5b"),
    (r"gpt[ -]?3[ _-]?20b", "gpt3-20b"),
    (r"mixtral[ _-]?8x7b", "mixtral-8x7b"),
    (r"mixtral[ _-]?8x22b", "mixtral-8x22b"),
    (r"deepseek[ _-]?v3", "deepseek-v3"),
    (r"qwen3[ _-]?30b[ _-]?a3b", "qwen3-30b-a3b"),
    (r"qwen3[ _-]?235b[ _-]?a22b", "qwen3-235b-a22b"),
    (r"gpt[ _-]?oss[ _-]?120b", "gpt-oss-120b"),
    (r"nemotron-?4[ _-]?340b", "nemotron-4-340b"),
    (r"nemotron-?4?[ _-]?15b", "nemotron-4-15b"),
    (r"nemotron-?3?[ _-]?22b", "nemotron-3-22b"),
    (r"nemotron-?3?[ _-]?8b", "nemotron-3-8b"),
    (r"grok-?1[ _-]?314b", "grok-1"),
)
"""Names of models in tables, and the presets that they are. `NeMo Megatron` is the name of GPT-3
175B in dgxc-benchmarking's first releases (nemo_megatron/README_175b.md)."""

_CAPTURED: Mapping[str, str] = {r"nemotron[ _-]?3[ _-]nano": "nemotron-3-nano"}
"""The same of models that are captured (Megatron-Bridge, models/nemotronh:
`Nemotron3NanoProvider`)."""

_HYBRID = re.compile(r"nemotron[ _-]?h(\b|[ _-])", re.I)
"""Models with Mamba-2 layers whose tables state no layout."""
_PREDICTING = re.compile(r"nemotron[ _-]?3[ _-](5[ _-])?(super|ultra|lightning)", re.I)
"""Models with Mamba-2 layers that are trained with multi-token prediction
(`num_nextn_predict_layers` of their configurations)."""


def _named(name: str, seq: int) -> Model:
    """The preset of a name in a table, for sequences of this length."""
    if re.search(r"finetun", name, re.I) and not re.search("lora", name, re.I):
        raise Missing("fine-tuning of another kind than SFT")
    for pattern, preset in _NAMES:
        if re.search(pattern, name, re.I):
            return known_model(preset, seq)
    for pattern, file in _CAPTURED.items():
        if re.search(pattern, name, re.I):
            return captured_model(file)
    if _PREDICTING.search(name):
        raise Missing(f"{name}: captured models are predicted without multi-token prediction")
    if _HYBRID.search(name):
        raise Missing(f"{name}: Mamba-2 layers have no model")
    raise Missing(f"no model for {name}")


def _recipe(row: Row, words: str) -> dict[str, str]:
    """How narrow numbers are scaled. Of two formats in a cell, the first counts. By blocks with
    MXFP8; from earlier steps in NeMo's tables; by tensor in Megatron-Bridge's (current scaling),
    and with NVFP4, which has scales of tensors over those of blocks."""
    first = words.split("(", maxsplit=1)[0]
    if "FP8" not in words and "FP4" not in words:
        return {}
    if re.search(r"MX", first):
        return {"fp8": "blockwise"}
    bridge = row["group"] == "nemo_megatron_bridge"
    return {"fp8": "tensorwise" if bridge or "FP4" in first else "delayed"}


def _stages(name: str, layers: int, parts: int) -> dict[str, str]:
    """Layers of each part of a pipeline that they don't fill evenly: all parts but the last are as
    large as it takes. DeepSeek-V3 is trained with one module of multi-token prediction, in the last
    part, unless its name says otherwise (Megatron-Bridge, recipes/deepseek)."""
    found: dict[str, str] = {}
    if "deepseek" in name.lower() and not re.search(r"w/o MTP|without MTP", name, re.I):
        found["mtp"] = "1"
    if re.search(r"qwen", name, re.I) and (layers + 2) % parts == 0:
        # Embedding and loss count as a layer each (recipes/qwen, account_for_*_in_pipeline_split).
        return found
    each = -(-layers // parts)
    rest = layers - each * (parts - 1)
    if layers % parts and rest > 0:
        found["layers_per_stage"] = f"{each}*{parts - 1},{rest}"
    return found


def _nemo(row: Row) -> Run:
    """NeMo on Megatron-Core. Sequence parallelism goes with tensor parallelism, nothing is
    recomputed where neither the row (`recomputed.py`) nor a recipe (`bridge.py`) says so, and the
    optimizer is sharded (assumed: the defaults of NeMo's recipes). Fine-tuning of all weights (SFT)
    on packed samples takes what training on whole ones takes (assumed: attention spans the pack).
    Adapters of low rank are on queries, keys and values (Megatron-Bridge, recipes/llama:
    `linear_qkv`; NeMo's launcher: `attention_qkv`). Their rank of 16 is assumed, and changes times
    by less than 1 %."""
    gpu, gpus, nodes = hardware(row)
    parallel, batch, model = row["parallel"], row["batch"], row["model"]
    if "note" in parallel:
        raise Missing("layout is not stated")
    mode = f"{model.get('mode')} {model.get('name')} {row['id']}"
    adapters = re.search("lora", mode, re.I)
    if re.search("peft", mode, re.I) and not adapters:
        raise Missing("adapters of another kind than LoRA")
    words = str(row.get("precision")).upper()
    if re.search(r"maxtext|paxml", str(model.get("name")), re.I):
        raise Missing("JAX: no framework of ours describes it")
    seq = count(model, "seq")
    tp = count(parallel, "tp", 1)
    micro = count(batch, "micro_batch", 1)
    fsdp = count(parallel, "fsdp", 0) if parallel.get("fsdp") not in (0, "0", None) else 0
    name = str(model.get("name"))
    named = _named(name, seq)
    pp, chunks = count(parallel, "pp", 1), count(parallel, "vp", 1)
    if named.family != "transformer" and parallel.get("ep") is None:
        raise Missing("ep of a model with experts is not stated")
    cp, ep = count(parallel, "cp", 1), count(parallel, "ep", 1)
    bridge = row["group"] == "nemo_megatron_bridge"
    whole = bridge or str(parallel.get("etp")) == "1"
    captured = named.family == "captured"
    if captured and (tp > 1 or pp > 1):
        raise Missing(f"{name}: Mamba-2 layers are predicted with tp 1 and pp 1 alone")
    again = recomputed.stated(parallel)
    if captured and again and again.extra:
        raise Missing(f"{name}: captured models are predicted without numbers of layers or modules")
    experts = {"etp": "1"} if ep > 1 and tp * cp > 1 and whole else {}
    if bridge and ep > 1:
        experts |= recipe(row, name, words, gpu, ep)
    if again:
        experts.pop("recompute_modules", None)
    return Run(
        named,
        gpu,
        gpus,
        nodes,
        count(batch, "global_batch"),
        micro,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        zero=3 if fsdp else 1,
        virtual_stages=chunks,
        recompute=again.kind if again else "none",
        precision="nvfp4" if "NVFP4" in words else "fp8" if "FP8" in words else "bf16",
        extra={
            "sp": str(int(tp > 1)),
            "format": words.split("(")[0].strip().lower(),
            **_recipe(row, words),
            **({} if captured else _stages(name, int(named.fields["layers"]), pp * chunks)),
            **experts,
            **(again.extra if again else {}),
            **({"lora_rank": "16", "lora_modules": "qkv"} if adapters else {}),
            "assumed": "+".join(
                ["sp", *([] if again else ["recompute"]), *(["lora_rank"] if adapters else [])]
            ),
        },
        seq=seq,
    )


RULES: Mapping[str, Callable[[Row], Run]] = {
    "megatron_sc21": _table_1,
    "megatron_seqsel_a100": _selective,
    "megatron_core_h100": _core,
    "nemo_megatron_bridge": _nemo,
    "dgxc_benchmarking": _nemo,
    "nemo_h100_fp8": _nemo,
}
