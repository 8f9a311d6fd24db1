"""Statements of a file about a run, against the run that a rule made of it.

Every field under `model`, `parallel`, `batch` and `hardware` is read by the rule of its source, or
agrees with the run, or is the reason why the row is left out. Here: that check. Not here: the rules
(`rules.py`, `megatron.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from armillary.model.decoder_reader import decoder
from armillary.model.weights import parameters

from ..training import Training
from . import reading
from .reading import IRRELEVANT, Part
from .run import Missing, count

_SECTIONS = ("model", "parallel", "batch", "hardware", "config")
_COMMENTS = ("name", "note", "notes", "seq_note", "system", "seqs_per_gpu_step_derived")
"""Fields that say nothing of their own about a run."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    "schedule": ("1F1B", "interleaved 1F1B"),
    "overlap": ("DP grad-reduce/param-gather",),
    "grad_dtype": ("fp32",),
    "tp_mode": ("REDUCE_SCATTER",),
}
"""Texts that rules take for granted begin with these words."""
_PRECISIONS: Mapping[str, str] = {"nvfp4": "FP4", "fp8": "FP8", "bf16": "BF16", "fp16": "FP16"}
_ALIASES: Mapping[str, str] = {
    "num_blocks": "layers",
    "num_layers": "layers",
    "nhidden": "hidden",
    "attn_heads": "heads",
    "attn_size": "head_dim",
    "feedforward": "ffn",
    "seq": "sequence",
    "seq_size": "sequence",
    "vocab": "vocabulary",
    "tied_embeddings": "tied",
    "num_experts": "experts",
    "topk": "top_k",
}
"""Names of a decoder's fields in tables."""
_ROUNDED = 0.05
"""Parameters are stated in two digits."""


_OF_SUBMISSIONS: Mapping[str, Callable[[Training], int]] = {
    "max_sequence_length": lambda run: run.seq,
    "accelerators_per_node": lambda run: -(-run.gpus // run.nodes),
}
"""Fields of submissions to MLPerf that agree with the run; 0: not stated."""


def check(row: Part, run: Training, kind: str) -> None:
    """Raises `Missing` naming the first field of a row that the run does not follow."""
    made = _made(run)
    for name in _SECTIONS:
        section = row.get(name)
        if not isinstance(section, Part):
            continue
        for key, value in section.stated.items():
            _field(f"{name}.{key}", key, value, made[name], key in section.read, IRRELEVANT[kind])
            section.read.add(key)
    for key, value in _OF_SUBMISSIONS.items():
        if row.get(key) not in (None, 0, value(run)):
            raise Missing(f"{key} is {row[key]!r}, and the run of its rule has {value(run)}")
    said = row.get("precision")
    if said is not None and _PRECISIONS[run.precision] not in str(said).upper():
        raise Missing(f"precision is {said!r}, and the rule of its source makes {run.precision}")
    reading.check(row, kind)


def _field(
    place: str,
    key: str,
    value: object,
    made: Mapping[str, Any],
    read: bool,
    known: Mapping[str, str],
) -> None:
    if key in _COMMENTS or place in known:
        return
    name = _ALIASES.get(key, key)
    if name in made:
        if not _same(key, value, made[name]):
            raise Missing(f"{place} is {value!r}, and the run of its rule has {made[name]!r}")
    elif not read and not (key in _WORDS and str(value).startswith(_WORDS[key])):
        raise Missing(f"{place} is not read")


def _same(key: str, value: object, made: object) -> bool:
    """Whether a stated value is that of the run."""
    if isinstance(made, bool) or isinstance(value, bool):
        return str(value).lower() == str(made).lower()
    if isinstance(made, str):
        return str(value) == made
    if key in ("params", "params_B"):
        scale = 1e9 if key == "params_B" else 1.0
        return isinstance(value, int | float) and math.isclose(
            value * scale, float(str(made)), rel_tol=_ROUNDED
        )
    if value in (0, "0"):
        return made == 0
    return count({key: value}, key) == made


def _made(run: Training) -> dict[str, dict[str, Any]]:
    """The values of a run by the names that files have for them."""
    steps = run.global_batch // (run.dp * run.micro_batch)
    model = {"sequence": run.seq} | ({} if run.captured else _shape(run))
    parallel: dict[str, Any] = {name: getattr(run, name) for name in ("tp", "pp", "dp", "cp", "ep")}
    parallel |= {f"{name}_derived": parallel[name] for name in ("tp", "pp", "dp")}
    parallel |= dict.fromkeys(("vp", "vpp"), run.virtual_stages)
    parallel |= {
        "mp": run.tp * run.pp,
        "zero": run.zero,
        "ga": steps,
        "etp": int(run.extra.get("etp", run.tp)),
    }
    batch = {
        "global_batch": run.global_batch,
        "micro_batch": run.micro_batch,
        "grad_accum": steps,
    }
    each = -(-run.gpus // run.nodes)
    machine = {"gpus": run.gpus, "nodes": run.nodes, "gpus_per_node": each}
    config = _config(run, steps * run.micro_batch, each)
    return {
        "model": model,
        "parallel": parallel,
        "batch": batch,
        "hardware": machine,
        "config": config,
    }


def _shape(run: Training) -> dict[str, Any]:
    """The values of a decoder."""
    shape = decoder(run.model)
    total = parameters(shape)
    return asdict(shape) | {
        "kv_heads": shape.kv,
        "head_dim": shape.head_dim or shape.hidden // shape.heads,
        "sequence": run.seq,
        "params": total,
        "params_B": total,
    }


def _config(run: Training, samples: int, each: int) -> dict[str, Any]:
    """The variables of a submission to MLPerf, with `samples` of a replica."""
    return {
        "MINIBS": samples,
        "DGXNNODES": run.nodes,
        "DGXNGPU": each,
        "TP": run.tp,
        "PP": run.pp,
        "CP": run.cp,
        "SEQ_PARALLEL": run.extra.get("sp") == "1",
        "FP8": run.precision in ("fp8", "nvfp4"),
    }
