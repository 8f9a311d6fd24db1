"""Flags of Megatron-LM: exported layouts come back, and scripts mean what their words say."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_layouts import DENSE, MODELS, layouts, meaning
from peer_records import answers

from armillary.errors import InputError
from armillary.launch import export, read
from armillary.launch import megatron_flags as tables
from armillary.model.decoder_reader import decoder
from armillary.workload import Model, load_model

CORE = answers("megatron")
SETTABLE = ("overlap_grad_reduce", "overlap_param_gather", "overlap_tp")


def drawn(chance: random.Random, model: Model) -> dict[str, object]:
    """A layout that Megatron-LM can express, or the simulator refuses."""
    pick = chance.choice
    tp, pp = pick([1, 2, 4]), pick([1, 1, 2, 4, 8])
    dp, cp = pick([1, 2, 4, 8]), pick([1, 1, 2])
    chunks = pick([1, 2]) if pp > 1 else 1
    zero = pick([0, 1, 1, 2, 3])
    precision = pick(["bf16", "bf16", "fp8", "nvfp4", "fp16", "fp32"])
    grads = pick([True, False])
    options: dict[str, object] = {
        "framework": "megatron-lm",
        "tp": tp, "pp": pp, "dp": dp, "cp": cp, "virtual_stages": chunks, "zero": zero,
        "sp": tp > 1 and pick([True, False]), "micro_batch": pick([1, 2]),
        "seq": pick([1024, 2048]),
        "precision": precision, "fp8_recipe": pick(["delayed", "tensorwise", "blockwise"]),
        "attention": pick(["flash", "flash", "unfused"]),
        "recompute": pick(["none", "selective", "full"]),
        "fp32_gradients": pick([True, False]),
    }  # fmt: skip
    options["global_batch"] = int(str(options["micro_batch"])) * dp * pp * pick([1, 2, 4])
    if precision == "fp8" and zero:
        options["fp8_param_gather"] = pick([True, False])
    if cp > 1:
        options["cp_comm_type"] = pick(["p2p", "all_gather", "a2a"])
    if pick([True, False]) and dp * cp > 1 and zero:
        options["zero_group"] = pick([each for each in (1, 2, 4) if dp * cp % each == 0])
    if zero:
        options["moments"] = pick(["fp32", "bf16"])
        options["offload"] = pick(["none", "none", "optimizer"])
    if options["recompute"] != "full":
        names = ["layernorm", "mlp", "moe_act", "moe", "shared_experts", "mla_up_proj"]
        options["recompute_modules"] = chance.sample(names, pick([0, 1, 2]))
    elif pick([True, False]):
        options["recompute_method"] = pick(["block", "uniform"])
        options["recompute_layers"] = 2 if options["recompute_method"] == "uniform" else 1
    if pp > 1 and pick([True, False]):
        parts = pp * chunks
        cut = [1] * parts
        for _ in range(16 - parts):
            cut[chance.randrange(parts)] += 1
        options["layers_per_stage"] = cut
    if model.family == "moe":
        ep = pick([1, 2, 4, 8])
        options |= {"ep": ep, "etp": pick([None, 1]), "sp": tp > 1, "mtp": pick([0, 1])}
        options["ep_node"] = pick([None, *(each for each in (1, 2, 4) if ep % each == 0)])
        options["capacity_factor"] = pick([None, 1.25])
        options["overlap_passes"] = ep > 1 and pp > 1 and pick([True, False])
    options["framework_set"] = {
        "overlap_grad_reduce": grads,
        "overlap_param_gather": grads and pick([True, False]),
        "overlap_tp": bool(options["sp"]) and pick([True, False]),
    }
    return options


def test_exported_layouts_come_back(tmp_path: Path) -> None:
    """A layout is the same after a launch script, and so is its model."""
    path, written = tmp_path / "run.sh", 0
    used: set[str] = set()
    for model, options in layouts(drawn, MODELS, 250):
        try:
            text = export(model, options, "megatron")
        except InputError as error:
            # What only Megatron-LM refuses.
            words = str(error)
            refused = ("overlap_passes", "fp16 with ep", "do not divide", "over ranks of cp first")
            assert any(each in words for each in refused), words
            continue
        written += 1
        used |= set(re.findall(r"^    (--[\w-]+)", text, re.M))
        path.write_text(text, encoding="utf-8")
        back = read(path, "megatron-args")
        assert replace(decoder(back.model), sequence=2048) == decoder(model)
        first = meaning(model, options, SETTABLE)
        assert meaning(model, dict(back.options), SETTABLE) == first, text
    assert written > 200
    assert [flag for flag in sorted(used) if not is_known(flag)] == []


def is_known(flag: str) -> bool:
    """Whether megatron-core has a field of a flag, or it is one of the training script."""
    fields = {name for each in CORE["fields"].values() for name in each}
    named = {name for each in CORE["flags"].values() for name in each}
    field = tables.FIELDS.get(flag, flag.removeprefix("--").removeprefix("no-").replace("-", "_"))
    return field in fields or flag in named or flag in tables.SCRIPT


def test_a_field_that_there_is_not_would_be_found() -> None:
    assert not is_known("--tensor-parallel-size")


SCRIPT = """#!/bin/bash
# A training of 64 GPUs.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
TP=4; PP=2
DTYPE="fp8"
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES   # machines
    --master_addr $MASTER_ADDR
)
MODEL_ARGS="
    --num-layers 32 --hidden-size 4096 \\
    --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
"
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=("--fp8-format hybrid" --fp8-param-gather)
else
    DTYPE_ARGS+=(--no-such-flag)
fi
# --pipeline-model-parallel-size 16
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    $MODEL_ARGS --seq-length 8192 --max-position-embeddings=8192 \\
    --position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear \\
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0 \\
    --vocab-size 128256 --bf16 ${DTYPE_ARGS[@]} \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} --sequence-parallel \\
    --micro-batch-size 1 --micro-batch-size 2 --global-batch-size 128 \\
    --use-distributed-optimizer --overlap-grad-reduce --recompute-activations \\
    --lr 1e-4 --data-path $DATA "${VAL[@]}" --save "$(pwd)/out" --no-load-rng "$@"
"""


def test_a_script_means_what_its_words_say(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT, encoding="utf-8")
    found = read(path)
    assert found.format == "megatron-args"
    assert dict(found.options) == {
        "framework": "megatron-lm", "tp": 4, "pp": 2, "cp": 1, "dp": 8, "sp": True,
        "micro_batch": 2, "global_batch": 128, "seq": 8192, "precision": "fp8",
        "fp8_recipe": "delayed", "fp8_param_gather": True, "fp32_gradients": True,
        "attention": "flash", "zero": 1, "virtual_stages": 1, "recompute": "selective",
        "framework_set": {
            "overlap_grad_reduce": True, "overlap_param_gather": False, "overlap_tp": False,
        },
    }  # fmt: skip
    wanted = load_model("llama-3-8b")
    assert replace(decoder(found.model), vocabulary=128256) == decoder(wanted)
    assert "--nnodes: SLURM_NNODES is taken as 8, its default" in found.notes
    assert "arguments of the script ($@) are taken as none" in found.notes
    assert set(found.idle) == {"--lr", "--data-path", "--save", "--no-load-rng"}
    assert found.idle["--lr"] == "values of the optimizer, not its operations"
    assert found.idle["--no-load-rng"] == "checkpoints, which happen between steps"


def test_the_tokenizer_of_gpt_2_has_one_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(PLAIN.replace("--vocab-size 51200", "--merge-file merges.txt"), "utf-8")
    found = read(path)
    assert decoder(found.model).vocabulary == 50304
    assert "the vocabulary is that of GPT2BPETokenizer, 50257" in found.notes


def test_a_model_that_is_named_must_be_that_of_the_flags(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT.replace("--vocab-size 128256 ", ""), encoding="utf-8")
    assert read(path, model="llama-3-8b").model == load_model("llama-3-8b")
    with pytest.raises(InputError, match=r"layers is 32, but llama-3-70b has 80"):
        read(path, model="llama-3-70b")
    path.write_text(
        "pretrain_gpt.py --use-flash-attn --micro-batch-size 1 --seq-length 64", encoding="utf-8"
    )
    assert read(path, model="llama-3-8b", ranks=4).options["dp"] == 4


TESTED = """ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --log-params-norm: true
  --tensorboard-dir: ${TENSORBOARD_PATH}
  --micro-batch-size: 4
  --global-batch-size: 32
  --seq-length: 1024
  --max-position-embeddings: 1024
  --vocab-size: 50257
  --lr-warmup-fraction: .01
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --pipeline-model-parallel-layout: E|t*3|(t|)*8tL
  --no-gradient-accumulation-fusion: true
  --bf16: true
  --attention-backend: unfused
TEST_TYPE: regular
"""


def test_arguments_of_functional_tests(tmp_path: Path) -> None:
    path = tmp_path / "model_config.yaml"
    path.write_text(TESTED.replace("E|t*3|(t|)*8tL", "Et*3|t*3|t*3|t*3L"), encoding="utf-8")
    found = read(path, ranks=8)
    assert {name: found.options[name] for name in ("tp", "pp", "dp", "virtual_stages")} == {
        "tp": 2, "pp": 2, "dp": 2, "virtual_stages": 2,
    }  # fmt: skip
    shape = decoder(found.model)
    assert (shape.positions, shape.ffn, shape.dropout, shape.vocabulary) == (
        1024,
        2048,
        True,
        50432,
    )
    assert any("no-gradient-accumulation-fusion has no model" in note for note in found.notes)


PLAIN = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --vocab-size 51200 "
    "--micro-batch-size 1 "
)


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ("--decoder-first-pipeline-num-layers 2 --pipeline-model-parallel-size 8", None),
        (
            "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
            "--decoder-last-pipeline-num-layers 3",
            {"layers_per_stage": "1,2,2,3", "virtual_stages": 1},
        ),
        (
            "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2",
            {"virtual_stages": 2},
        ),
        (
            "--num-layers 6 --pipeline-model-parallel-size 4 "
            "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
            {"layers_per_stage": "1,2,2,1"},
        ),
        ("--bf16", {"precision": "bf16", "fp32_gradients": True, "zero": 0}),
        ("--bf16 --grad-reduce-in-bf16", {"fp32_gradients": False}),
        ("--fp16", {"precision": "fp16", "fp32_gradients": False}),
        (
            "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
            {"zero": 3},
        ),
        (
            "--num-experts 8 --expert-model-parallel-size 8 --moe-enable-deepep "
            "--moe-token-dispatcher-type flex",
            {"ep": 8, "etp": 1, "ep_node": 8},
        ),
        (
            "--recompute-granularity selective --recompute-modules layernorm mlp",
            {"recompute": "none", "recompute_modules": "layernorm,mlp"},
        ),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 8",
         {"recompute": "full", "recompute_layers": 8}),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 8 "
         "--pipeline-model-parallel-size 2", {"recompute_layers": 4}),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 1",
         {"recompute": "full", "recompute_layers": 1}),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 3",
         {"recompute_layers": 3, "recompute_method": "uniform"}),
    ],
)  # fmt: skip
def test_flags(tmp_path: Path, flags: str, options: dict[str, object] | None) -> None:
    path = tmp_path / "run.sh"
    path.write_text(PLAIN + flags, encoding="utf-8")
    if options is None:
        with pytest.raises(InputError, match="a rest that divides"):
            read(path)
        return
    found = dict(read(path).options)
    assert {name: found[name] for name in options} == options


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAIN + "--tensor-model-parallel-size $TP", "does not say: \\$TP"),
        (PLAIN + "--tensor-model-parallel-size two", "invalid count: 'two'"),
        (PLAIN + "--tensor-model-parallel-size 3", "8 ranks are not a multiple of tp 3"),
        (PLAIN + "--tensor-parallel-size 2", "unknown key .*--tensor-model-parallel-size"),
        (PLAIN + "--swiglu yes", "has the value 'yes'"),
        (PLAIN + "--spec my.module layer", "names layers by Python code"),
        (PLAIN + "--optimizer muon", "is muon .*adam"),
        (PLAIN + "--recompute-granularity full --recompute-method block",
         "recompute-num-layers: is missing with --recompute-method block"),
        (PLAIN + "--num-experts 8 --moe-layer-freq \"__import__('os')\"", "other parts than lists"),
        (PLAIN + "--num-experts 8 --moe-layer-freq [1]*9999*9999", "is longer than"),
        (PLAIN + "--pipeline-model-parallel-layout 'Et|(((('", "parts for|in a layout|E \\(emb"),
        (PLAIN + '--lr "1', "a quote is not closed"),
        (PLAIN + "\n" + PLAIN, "several commands with its flags: lines 1, 2"),
        (PLAIN + "--no-load-rng $MORE", "does not say: \\$MORE"),
        (PLAIN.replace("--nproc-per-node 8 ", ""), "how many ranks"),
        ("for i in 1 2; do\n" + PLAIN + "\ndone", "a loop"),
        ("if [ -f x ]; then A=--bf16\nfi\n" + PLAIN + "$A", "depends on the condition"),
        ("A=(1", "an array is not closed"),
        ("echo --num-layers 4", "has no command"),
        ("MODEL_ARGS:\n  --num-layers: [", "is not YAML"),
        ("MODEL_ARGS:\n  --num-layers: 1\n  --num-layers: 2", "given twice"),
        ("MODEL_ARGS: 3", "is not a mapping"),
        ("\U000f0000 --num-layers", "has the character"),
        ("A=--num-layers\n" + "A=$A$A$A$A$A$A$A$A$A; " * 20 + "\n$A", "longer than"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(path, "megatron-args")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "dualpipe", "pp": 2}, "schedule: dualpipe, .*allowed: 1f1b, interleaved"),
        ({"recompute": "ops"}, "recompute: ops"),
        ({"precision": "fp8", "fp8_recipe": "rowwise"}, "fp8_recipe: rowwise"),
        ({"lora_rank": 8}, "lora_rank: 8"),
        ({"zero": 3, "offload": "parameters"}, "offload: parameters"),
        ({"recompute_modules": "activation"}, "recompute_modules: activation"),
        ({"framework_set": {"kernels": "eager"}}, "framework_set.kernels: eager"),
        ({"framework": "torchtitan"}, "framework: torchtitan"),
        ({"framework_set": {"overlap_tp": True}, "tp": 2}, "overlap_tp: on without sp"),
        ({"moments": "bf16"}, "moments: bf16 with zero 0"),
    ],
)
def test_what_megatron_cannot_say(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        export(DENSE, options, "megatron")


def test_models_that_megatron_cannot_say() -> None:
    odd = Model("odd", "transformer", {**DENSE.fields, "norm": "plain", "norms": 4})
    with pytest.raises(InputError, match="norms: has no flag of Megatron-LM"):
        export(odd, {}, "megatron")
    with pytest.raises(InputError, match="unknown framework 'megatronn'"):
        export(DENSE, {}, "megatronn")


@pytest.mark.parametrize("name", ["llama-3-70b", "mixtral-8x7b", "deepseek-v3", "gpt3-175b"])
def test_presets_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(export(name, {"tp": 2, "sp": True}, "megatron"), encoding="utf-8")
    assert read(path, model=name).model == load_model(name)
