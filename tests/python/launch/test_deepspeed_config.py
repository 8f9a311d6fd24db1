"""Configurations of DeepSpeed: exported layouts come back, and keys mean what they say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from drawn_layouts import DENSE, MIXTURE, layouts, meaning
from peer_records import answers

from armillary.errors import InputError
from armillary.launch import deepspeed, export, read
from armillary.workload import Model

RECORDED = answers("deepspeed")
SETTABLE = ("overlap_grad_reduce",)


def drawn(chance: random.Random, model: Model) -> dict[str, object]:
    """A layout that DeepSpeed can express, or the simulator refuses."""
    pick = chance.choice
    dp, pp = pick([1, 2, 4, 8]), pick([1, 1, 2, 4])
    micro = pick([1, 2, 4])
    zero = pick([0, 1]) if pp > 1 else pick([0, 1, 2, 3])
    precision = pick(["bf16", "fp16", "fp32"])
    options: dict[str, object] = {
        "framework": "deepspeed", "dp": dp, "pp": pp, "zero": zero, "micro_batch": micro,
        "tp": pick([1, 2]) if model is DENSE else 1, "cp": pick([1, 1, 2]), "cp_comm_type": "a2a",
        "global_batch": micro * dp * pick([4, 8]), "precision": precision,
        "recompute": pick(["none", "full"]), "fp32_gradients": pick([True, False]),
        "framework_set": {"overlap_grad_reduce": pick([True, False])},
    }  # fmt: skip
    if zero:
        options["offload"] = pick(["none", "optimizer", *(["parameters"] if zero == 3 else [])])
    if precision == "bf16":
        options["moments"] = pick(["fp32", "bf16"])
    if model is MIXTURE:
        options["ep"] = pick([1, 2, 4])
    return options


def keys(value: dict[str, object], start: str = "") -> list[str]:
    """The paths of all keys."""
    found: list[str] = []
    for key, each in value.items():
        found.append(start + key)
        if isinstance(each, dict):
            found += keys(each, f"{start}{key}.")
    return found


def test_exported_layouts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    used: set[str] = set()
    for model, options in layouts(drawn, (DENSE, MIXTURE), 220):
        path.write_text(export(model, options, "deepspeed"), encoding="utf-8")
        used |= set(keys(json.loads(path.read_text(encoding="utf-8"))))
        wanted = meaning(model, options, SETTABLE)
        ranks = 1
        for degree in ("tp", "pp", "cp", "dp"):
            ranks *= int(str(wanted[degree]))
        back = read(path, "auto", model=model, ranks=ranks)
        assert back.model == model
        assert meaning(model, dict(back.options), SETTABLE) == wanted
    assert [key for key in sorted(used) if not is_known(key)] == []


def is_known(key: str) -> bool:
    """Whether DeepSpeed has a field or a constant for each part of a key."""
    constants = set(RECORDED["constants"])
    section, _, inner = key.partition(".")
    fields = RECORDED["fields"].get(key.rpartition(".")[0])
    if fields is not None:
        return key.rpartition(".")[2] in fields
    return section in constants and (not inner or inner in constants)


def test_keys_that_are_read_exist() -> None:
    tables = (*deepspeed.IDLE, *deepspeed.UNMODELED)
    later = ("check_overflow", "dump_state", "stage3_gather_fp16_weights_on_model_save")
    gone = [key for key in tables if not is_known(key) and not key.endswith(later)]
    assert gone == []
    assert not is_known("zero_optimization.stages")


CONFIG: dict[str, object] = {
    "train_batch_size": 256,
    "gradient_accumulation_steps": 4,
    "steps_per_print": 100,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "zero_optimization": {
        "stage": 2,
        "overlap_comm": True,
        "reduce_bucket_size": 5e8,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
    },
    "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": False},
}


def test_a_configuration_means_what_its_keys_say(tmp_path: Path) -> None:
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    found = read(path, model="llama-3-8b", ranks=16)
    assert dict(found.options) == {
        "framework": "deepspeed", "sp": False, "tp": 1, "pp": 1, "cp": 1, "dp": 16,
        "micro_batch": 4, "global_batch": 256, "precision": "bf16", "fp32_gradients": False,
        "zero": 2, "framework_set": {"overlap_grad_reduce": True}, "offload": "optimizer",
        "recompute": "full", "seq": 8192, "attention": "flash",
    }  # fmt: skip
    assert any("reduce_bucket_size has no model" in note for note in found.notes)
    assert any("full recomputation" in note for note in found.notes)
    assert "optimizer.params.lr" in found.idle


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"train_batch_size": "auto"}, "is auto, which another program fills in"),
        ({"train_batch_size": 100}, "100 samples are not"),
        ({"train_batch_size": -1}, "invalid count: -1"),
        ({"zero_optimization": {"stage": 4}}, "is 4 .*0, 1, 2, 3"),
        ({"zero_optimization": {"stages": 3}}, "unknown key .*zero_optimization.stage"),
        ({"zero_optimization": {"stage": True}}, "invalid count: True"),
        ({"zero_optimization": {"offload_param": {"device": "nvme"}}}, "offloads to disks"),
        ({"fp16": {"enabled": True}}, "is on, and so is bf16"),
        ({"optimizer": {"type": "OneBitAdam"}}, "is OneBitAdam"),
        ({"data_efficiency": {"enabled": True}}, "lengths of samples"),
        ({"tensor_parallel": {"autotp_size": 3}}, "16 ranks are not a multiple of tp 3"),
        ({"communication_data_type": "int8"}, "unknown value 'int8'"),
        ({"train_batch_size": [1, 2]}, "has 2 values"),
    ],
)
def test_bad_input(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({**CONFIG, **changed}), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(path, "deepspeed", model="llama-3-8b", ranks=16)


def test_a_configuration_needs_model_and_ranks(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    with pytest.raises(InputError, match=r"(?s)MODEL before --from.*--ranks N"):
        read(path)
    for text in ("[1]", "{", '{"train_batch_size": NaN}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"is not a mapping|is not JSON|is nan"):
            read(path, "deepspeed", model="llama-3-8b", ranks=16)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "gpipe", "pp": 2}, "schedule: gpipe"),
        ({"precision": "fp8"}, "precision: fp8"),
        ({"tp": 2, "sp": True}, "sp: on"),
        ({"cp": 2}, "cp_comm_type: p2p"),
        ({"pp": 2, "zero": 2}, "zero: 2 with a pipeline"),
        ({"recompute_modules": "mlp"}, "recompute_modules: mlp"),
        ({"recompute": "full", "recompute_layers": 2}, "recompute_layers: 2, which DeepSpeed"),
        ({"seq": 512}, "seq: 512"),
        ({"offload": "optimizer"}, "offload: optimizer with zero 0"),
    ],
)
def test_what_deepspeed_cannot_say(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        export(DENSE, options, "deepspeed")
