"""Submissions to MLPerf Training as runs.

Their logs print the time of a step or samples (GPT-3: tokens) per second, and their configurations
say how the model was divided. So steps are predicted, not minutes to a quality. All run NVIDIA's
code on Megatron-Core with a sharded optimizer, in 8 bits (`FP8`, assumed where it is not stated)
with gathers of 8-bit parameters. Scales are those of earlier steps (assumed), and of tensors in
round 5.1 (`FP8_RECIPE` in its config_common.sh). In that round, NVIDIA's own runs of Llama 3.1
405B, and those of 8B on 8 GPUs, have 4 bits: their READMEs name configurations that end in `fp4`,
those of other runs don't, except Dell's on one node of B200, whose configuration includes
config_common_fp4.sh (mlcommons/training_results_v5.1@4da2d1cd). Configurations of 8B with both
tensor and context parallelism (config_GB300_128x4x1xtp2pp1cp4_8b.sh) have buckets of 768 million
gradients (`BUCKET_SIZE`); others state none.

Fine-tuning of Llama 2 70B trains adapters of rank 16 on queries, keys, values and attention's
output (mlcommons/training, llama2_70b_lora). Micro-batches have one sample. Configurations for 4
bits say so in their names. One that is named after another GPU is not the run's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from armillary.model.files import Model

from ..training import known_model
from .file import Row
from .machines import gpu_of
from .run import Missing, Run, count

MODELS: Mapping[str, tuple[str, int]] = {
    "gpt3": ("gpt3-175b", 2048),
    "llama31_405b": ("llama-3-405b", 8192),
    "llama31_8b": ("llama-3-8b", 8192),
    "llama2_70b_lora": ("llama-2-70b", 8192),
}
"""Presets of benchmarks, and tokens of a sample."""

REASONS: Mapping[str, str] = {
    "bert": "BERT: attention to both sides, of samples without padding, has no model",
    "resnet": "ResNet-50 on MXNet and TensorFlow's layers of MLPerf: no framework describes them",
    "dlrm": "DLRM: layout of tables is not stated",
    "dlrm_dcnv2": "DLRM-DCNv2: layout of tables is not stated",
}


def run(row: Row) -> Run:
    """A submission. Raises `Missing` with the reason where it cannot be predicted."""
    benchmark = str(row["benchmark"])
    if benchmark not in MODELS:
        raise Missing(REASONS.get(benchmark, f"no model for the benchmark {benchmark}"))
    gpu = gpu_of(str(row["accelerator"]))
    if gpu is None or "MI" in gpu:
        raise Missing(f"no preset for training on {row['accelerator']}")
    config = row.get("config")
    if not isinstance(config, Mapping):
        raise Missing("the submission's configuration is not in the row")
    name, seq = MODELS[benchmark]
    gpus, batch = count(row, "accelerators"), count(row, "global_batch_size")
    if benchmark == "llama2_70b_lora":
        return _adapted(row, config, known_model(name, seq), gpu)
    tp, pp = count(config, "TENSOR_MODEL_PARALLEL"), count(config, "PIPELINE_MODEL_PARALLEL")
    cp = count(config, "CONTEXT_PARALLEL", 1)
    if pp > 1 and "INTERLEAVED_PIPELINE" not in config:
        raise Missing("the number of virtual pipeline stages is not stated")
    return Run(
        known_model(name, seq),
        gpu,
        gpus,
        count(row, "nodes"),
        batch,
        count(config, "MICRO_BATCH_SIZE"),
        tp=tp,
        pp=pp,
        cp=cp,
        virtual_stages=count(config, "INTERLEAVED_PIPELINE", 1),
        precision="nvfp4" if _has_four_bits(row) else "fp8",
        extra={
            "sp": str(int(tp > 1)),
            "fp8": "tensorwise" if re.match(r"mlperf_v5\.1_", str(row["id"])) else "delayed",
            "tp_overlap": str(config.get("TP_COMM_OVERLAP", "True")).lower(),
            **(_BUCKET if benchmark == "llama31_8b" and tp > 1 and cp > 1 else {}),
            "assumed": "sp+recompute+fp8_recipe",
        },
        seconds=_seconds(row, batch, seq if benchmark == "gpt3" else 1),
    )


def _adapted(row: Row, config: Mapping[str, Any], model: Model, gpu: str) -> Run:
    """Fine-tuning of adapters of low rank."""
    file = str(row["config_file"]).rpartition("/")[2]
    if gpu_of(file) != gpu:
        raise Missing("the configuration in the row is that of another GPU")
    batch, tp = count(row, "global_batch_size"), count(config, "TP")
    return Run(
        model,
        gpu,
        count(row, "accelerators"),
        count(row, "nodes"),
        batch,
        1,
        tp=tp,
        pp=count(config, "PP"),
        cp=count(config, "CP", 1),
        precision="nvfp4" if "fp4" in file else "fp8",
        extra={
            "sp": str(int(tp > 1)),
            "fp8": "tensorwise" if re.match(r"mlperf_v5\.1_", str(row["id"])) else "delayed",
            "tp_overlap": {"1": "true", "0": "false"}.get(
                found := str(config.get("TP_COMM_OVERLAP", "False")).lower(), found
            ),
            "lora_rank": "16",
            "lora_modules": "qkv,out",
            "assumed": "sp+recompute+fp8_recipe",
        },
        seconds=_seconds(row, batch, 1),
    )


_BUCKET = {"bucket_mb": "1536"}
"""768 million gradients of 2 bytes."""

_FOUR_BITS = re.compile(
    r"mlperf_v5\.1_(NVIDIA_.*(llama31_405b|_ngpu8_.*llama31_8b)|Dell_1xXE9680L.*llama31_8b)$"
)
"""Submissions whose configuration is one for 4 bits."""


def _has_four_bits(row: Row) -> bool:
    return _FOUR_BITS.match(str(row["id"])) is not None


def _seconds(row: Row, batch: int, each: int) -> float:
    """Seconds of a step; `each`: the count of a sample in the log's throughput."""
    found: Mapping[str, Any] = row.get("tracked_stats_median") or {}
    for key in ("train_step_time", "train_step_timing"):
        if found.get(key):
            return float(found[key])
    if not found.get("throughput"):
        raise Missing("the log prints neither the time of a step nor throughput")
    return batch * each / float(found["throughput"])
