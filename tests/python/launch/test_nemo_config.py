"""Configurations of NeMo's Megatron-Bridge: exported layouts come back, and keys mean what they
say."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_layouts import DENSE, MODELS, layouts, meaning
from peer_records import answers
from test_megatron_flags import SETTABLE
from test_megatron_flags import drawn as drawn_for_megatron

from armillary.errors import InputError
from armillary.launch import export, nemo, read
from armillary.model.decoder_reader import decoder
from armillary.workload import Model

BRIDGE, CORE = answers("nemo"), answers("megatron")
BASES = {
    "model": ("TransformerConfig", "ModelParallelConfig", "MLATransformerConfig"),
    "ddp": ("DistributedDataParallelConfig",),
    "optimizer": ("OptimizerConfig",),
}


def drawn(chance: random.Random, model: Model) -> dict[str, object]:
    """A layout of Megatron-LM that YAML can say."""
    options = drawn_for_megatron(chance, model)
    seq = model.fields["sequence"] if model.fields.get("positions") else options["seq"]
    return {**options, "moments": "fp32", "ep_node": None, "seq": seq}


def test_exported_layouts_come_back(tmp_path: Path) -> None:
    path, written = tmp_path / "job.yaml", 0
    used: set[str] = set()
    for model, options in layouts(drawn, MODELS, 240):
        try:
            text = export(model, options, "nemo")
        except InputError as error:
            refused = ("overlap_passes", "fp16 with ep", "over ranks of cp first")
            assert any(each in str(error) for each in refused), str(error)
            continue
        written += 1
        used |= set(keys(text))
        path.write_text(text, encoding="utf-8")
        first = meaning(model, options, SETTABLE)
        ranks = 1
        for degree in ("tp", "pp", "cp", "dp"):
            ranks *= int(str(first[degree]))
        back = read(path, ranks=ranks)
        assert back.format == "nemo"
        assert replace(decoder(back.model), sequence=2048) == decoder(model)
        assert meaning(model, dict(back.options), SETTABLE) == first, text
    assert written > 200
    assert [key for key in sorted(used) if not is_known(key)] == []


def keys(text: str) -> list[str]:
    """The keys of a configuration with their sections."""
    section, found = "", []
    for line in text.splitlines():
        if match := re.match(r"(\w+):$", line):
            section = match[1]
        elif match := re.match(r"  (\w+):", line):
            found.append(f"{section}.{match[1]}")
    return found


def is_known(key: str) -> bool:
    """Whether the library has the field of a key."""
    section, _, name = key.partition(".")
    bases = [CORE["fields"][base] for base in BASES.get(section, ())]
    return any(name in each for each in (BRIDGE["fields"].get(section, {}), *bases))


def test_keys_that_are_read_exist() -> None:
    private = ("optimizer.params_dtype", "model.generation_config")
    tables = (*nemo.FLAGS, *nemo.INVERSE, *(key for key in nemo.IDLE if key not in private))
    assert [key for key in tables if not is_known(key)] == []
    assert set(nemo.SECTIONS) | {*nemo.IDLE_SECTIONS, "peft"} == set(BRIDGE["fields"][""])
    for name, recipe in nemo.RECIPES.items():
        recorded = BRIDGE["precisions"][name]
        for key, value in recipe.items():
            # Those of bf16 begin with what bf16_mixed sets.
            usual = "True" if key == name[:4] else "False"
            assert recorded.get(key, usual) == repr(value), (name, key)
    assert not is_known("model.tensor_parallel_size")


YAML = """model:
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 2
  sequence_parallel: true
  seq_length: 8192
  recompute_granularity: selective
  recompute_modules: [core_attn, layernorm]
  gradient_accumulation_fusion: true
train:
  micro_batch_size: 1
  global_batch_size: 64
  train_iters: 100
ddp:
  use_distributed_optimizer: true
  overlap_grad_reduce: true
  overlap_param_gather: false
comm_overlap: {tp_comm_overlap: true}
mixed_precision: bf16_with_fp8_current_scaling_mixed
optimizer: {lr: 0.0003}
logger: {log_interval: 1}
"""


def test_a_configuration_means_what_its_keys_say(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML, encoding="utf-8")
    found = read(path, model="llama-3-8b", ranks=64)
    assert dict(found.options) == {
        "framework": "megatron-lm", "tp": 4, "pp": 2, "cp": 1, "sp": True, "dp": 8,
        "micro_batch": 1, "global_batch": 64, "seq": 8192, "precision": "fp8",
        "fp8_recipe": "tensorwise", "fp8_param_gather": True, "fp32_gradients": True,
        "attention": "flash", "zero": 1, "virtual_stages": 2, "recompute": "selective",
        "recompute_modules": "layernorm",
        "framework_set": {
            "overlap_grad_reduce": True, "overlap_param_gather": False, "overlap_tp": True,
        },
    }  # fmt: skip
    assert {"optimizer.lr", "train.train_iters", "logger.log_interval"} <= set(found.idle)


def test_overrides_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    words = (
        "torchrun --nproc-per-node=8 --nnodes 8 pretrain_llama3_8b.py "
        "model.tensor_model_parallel_size=4 model.pipeline_model_parallel_size=2 "
        "model.virtual_pipeline_model_parallel_size=2 model.sequence_parallel=true "
        "model.seq_length=8192 model.recompute_granularity=selective "
        "'model.recompute_modules=[core_attn,layernorm]' train.micro_batch_size=1 "
        "train.global_batch_size=64 ddp.use_distributed_optimizer=true "
        "ddp.overlap_grad_reduce=True comm_overlap.tp_comm_overlap=true "
        "mixed_precision.bf16=true mixed_precision.fp8=hybrid "
        "mixed_precision.fp8_recipe=tensorwise mixed_precision.fp8_param_gather=true"
    )
    path.write_text(words, encoding="utf-8")
    yaml = tmp_path / "job.yaml"
    yaml.write_text(YAML, encoding="utf-8")
    same = read(yaml, model="llama-3-8b", ranks=64).options
    assert read(path, model="llama-3-8b").options == same


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "size: 4",
            "size: four",
            "line 2: model.tensor_model_parallel_size: invalid count: 'four'",
        ),
        ("size: 4", "size: 3", "64 ranks are not a multiple of tp 3"),
        ("tensor_model_parallel_size", "tensor_parallel_size", "unknown key"),
        ("bf16_with_fp8_current_scaling_mixed", "int8_mixed", "is int8_mixed"),
        ("layernorm]", "norms]", "unknown: norms"),
        ("train_iters: 100", "micro_batch_size: 2", "is given twice"),
        ("train:", "peft: {dim: 8}\ntrain:", "peft.dim: unknown key"),
        ("micro_batch_size: 1", "sizes: 1", "micro_batch_size: is missing|unknown key"),
        ("granularity: selective", "granularity: full", "recompute_method: is missing"),
        ("model:", "model: [", "is not YAML"),
        ("sequence_parallel: true", "deterministic_mode: true\n  spec: x", "by Python code"),
    ],
)
def test_bad_input(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(path, "nemo", model="llama-3-8b", ranks=64)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "gpipe", "pp": 2}, "Megatron-Bridge has no setting for"),
        ({"moments": "bf16", "zero": 1, "dp": 2}, "moments: bf16"),
        ({"precision": "fp8", "fp8_recipe": "rowwise"}, "rowwise"),
    ],
)
def test_what_the_library_cannot_say(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        export(DENSE, options, "nemo")
