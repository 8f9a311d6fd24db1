"""Readers of launch files that are fuzzed: scripts and configurations of training frameworks."""

from __future__ import annotations

from pathlib import Path

from target import Files, Target

_MEGATRON = b"""#!/bin/bash
GPUS_PER_NODE=8
TP=${TP:-2}
MODEL_ARGS=(--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512
    --max-position-embeddings 512 "--vocab-size 51200" --num-experts 8
    --moe-layer-freq "([0]*2+[1]*6)" ) # model
if [[ "$TP" == "2" ]]; then
    MODEL_ARGS+=(--bf16 --fp8-format hybrid)
fi
run="torchrun --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py ${MODEL_ARGS[@]} \\
    --micro-batch-size 1 --tensor-model-parallel-size ${TP} --sequence-parallel --lr $LR"
eval $run --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E(t|)*7tL' \\
    ${VP:+--num-virtual-stages-per-pipeline-rank "$VP"} "$@"
"""
_LINE = b"--num-layers 8\n--hidden-size=512 --num-attention-heads 8 --seq-length 512\n" + (
    b"--max-position-embeddings 512 --vocab-size 51200 --micro-batch-size 1 --nproc-per-node 4\n"
    b"--recompute-granularity full --recompute-method uniform --multi-latent-attention\n"
)
_TESTED = b"""MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --seq-length: 1024
  --max-position-embeddings: 1024
  --vocab-size: 50257
  --tensor-model-parallel-size: 2
  --nproc-per-node: 8
  --tensorboard-dir: ${TENSORBOARD_PATH}
  --recompute-granularity: selective
  --recompute-modules: [layernorm, mlp]
"""


def _megatron(folder: Path, files: Files) -> object:
    from armillary.launch import read

    return read(folder / next(iter(files)), "megatron-args").options


_DEEPSPEED = b"""{"train_batch_size": 256, "gradient_accumulation_steps": 4,
"bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
"tensor_parallel": {"autotp_size": 2}, "activation_checkpointing": {"profile": false}}
"""


def _deepspeed(folder: Path, files: Files) -> object:
    from armillary.launch import read

    return read(folder / next(iter(files)), "deepspeed", model="llama-3-8b", ranks=16).options


_TITAN = b"""MODULE=llama3
torchrun --nproc-per-node 8 -m torchtitan.train --module $MODULE --config llama3_8b \\
    --parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree=2 \\
    --training.local_batch_size 4 --compile.no-enable --metrics.log_freq 1 \\
    activation_checkpoint:full
"""
_TOML = b"""[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 1
[activation_checkpoint]
mode = "selective"
"""


def _titan(folder: Path, files: Files) -> object:
    from armillary.launch import read

    name = next(iter(files))
    ranks = 8 if name.endswith(".toml") else None
    return read(folder / name, "torchtitan", ranks=ranks).options


_NEMO = b"""model:
  tensor_model_parallel_size: 4
  num_layers: 8
  hidden_size: 512
  num_attention_heads: 8
  num_query_groups: 4
  vocab_size: 51200
  num_moe_experts: 8
  moe_layer_freq: [0, 1, 1, 1, 1, 1, 1, 1]
  sequence_parallel: true
  seq_length: 1024
  recompute_granularity: selective
  recompute_modules: [core_attn, layernorm]
train: {micro_batch_size: 1, global_batch_size: 64}
mixed_precision: bf16_mixed
"""
_OVERRIDES = b"""torchrun --nproc-per-node 8 pretrain.py model.tensor_model_parallel_size=4 \\
    model.seq_length=1024 train.micro_batch_size=1 'model.recompute_modules=[mlp]' \\
    mixed_precision.bf16=true model.recompute_granularity=selective
"""


def _nemo(folder: Path, files: Files) -> object:
    from armillary.launch import read

    name = next(iter(files))
    known = ("llama-3-8b", None) if name.endswith(".sh") else (None, 16)
    return read(folder / name, "nemo", model=known[0], ranks=known[1]).options


_STEPS = b"""steps:
- layout: {tp: 2, dp: 2, recompute: full}
  step: 8.9 s
- {launch: run.sh, log: train.log}
- {launch: run.sh, log: nemo.log}
"""
_JOB = b"""torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 512 \\
    --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --vocab-size 51200 \\
    --position-embedding-type rope --micro-batch-size 1 --tensor-model-parallel-size 2
"""
_LOG = b""" [2026-11-30 09:00:00] iteration 1/ 9 | elapsed time per iteration (ms): 9000.5 | loss: 9
 [2026-11-30 09:00:09] iteration 2/ 9 | elapsed time per iteration (ms): 1.5e3 | loss: 8
"""
_NEMO_LOG = b"Training epoch 0, iteration 0/9 | train_step_timing in s: 8.91 | global_step: 1\n"


def _measured(folder: Path, _files: Files) -> object:
    from armillary.layouts.measured_file import read_steps
    from armillary.model.files import Model

    sizes = {"layers": 8, "hidden": 512, "heads": 8, "ffn": 2048, "vocabulary": 51200}
    model = Model("m", "transformer", {**sizes, "sequence": 512})
    return read_steps(folder / "steps.yml", model, 4)


TARGETS = (
    Target(
        "measured_steps",
        lambda: [
            {"steps.yml": _STEPS, "run.sh": _JOB, "train.log": _LOG, "nemo.log": _NEMO_LOG},
        ],
        _measured,
    ),
    Target("nemo", lambda: [{"job.yaml": _NEMO}, {"run.sh": _OVERRIDES}], _nemo),
    Target("torchtitan", lambda: [{"run.sh": _TITAN}, {"job.toml": _TOML}], _titan),
    Target("deepspeed_config", lambda: [{"ds.json": _DEEPSPEED}], _deepspeed),
    Target(
        "megatron_args",
        lambda: [{"run.sh": each} for each in (_MEGATRON, _LINE, _TESTED)],
        _megatron,
    ),
)
