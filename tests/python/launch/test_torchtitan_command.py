"""Commands of torchtitan: exported layouts come back, and keys mean what they say."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from drawn_layouts import DENSE, LATENT, MIXTURE, layouts, meaning
from peer_records import answers

from armillary.errors import InputError
from armillary.launch import export, read, torchtitan
from armillary.workload import Model

RECORDED = answers("torchtitan")
SETTABLE = ("overlap_tp", "kernels")


def drawn(chance: random.Random, model: Model) -> dict[str, object]:
    """A layout that torchtitan can express, or the simulator refuses."""
    pick = chance.choice
    tp, cp, pp = pick([1, 2, 4]), pick([1, 1, 2]), pick([1, 1, 2, 4])
    shard, copies, micro = pick([1, 2, 4]), pick([1, 1, 2]), pick([1, 2])
    sharded = shard * cp > 1
    dp = shard * copies
    schedule = pick(["1f1b", "gpipe", "interleaved"]) if pp > 1 else "1f1b"
    compiled = pick([True, False])
    options: dict[str, object] = {
        "framework": "torchtitan", "tp": tp, "cp": cp, "pp": pp, "dp": dp, "schedule": schedule,
        "virtual_stages": pick([2, 3]) if schedule == "interleaved" else 1,
        "zero": pick([2, 3]) if sharded else 0, "sp": tp > 1 and pick([True, False]),
        "zero_group": shard * cp if sharded and copies > 1 else None,
        "micro_batch": micro, "global_batch": micro * dp * pp * pick([1, 2, 4]),
        "seq": pick([1024, 2048]), "recompute": pick(["none", "ops", "full"]),
        "precision": pick(["bf16", "bf16", "fp32"]), "moments": pick(["fp32", "bf16"]),
        "fp32_gradients": True,
        "framework_set": {
            "kernels": "fused" if compiled else "eager",
            "overlap_tp": compiled and pick([True, False]),
        },
    }  # fmt: skip
    if options["zero"] == 3:
        options["offload"] = pick(["none", "parameters"])
    if model.family == "moe":
        options |= {"ep": pick([1, 2, 4]), "etp": 1, "sp": tp > 1}
    return options


def test_exported_layouts_come_back(tmp_path: Path) -> None:
    path, written = tmp_path / "run.sh", 0
    used: set[str] = set()
    for model, options in layouts(drawn, (DENSE, MIXTURE, LATENT), 260):
        try:
            text = export(model, options, "torchtitan")
        except InputError as error:
            # What only torchtitan refuses.
            refused = ("no keys of torchtitan", "ranks of a shard", "0 with ep")
            assert any(each in str(error) for each in refused), str(error)
            continue
        written += 1
        used |= set(re.findall(r"^    --([\w.-]+)", text, re.M))
        path.write_text(text, encoding="utf-8")
        back = read(path, model=model)
        first = meaning(model, options, SETTABLE)
        if first["ep"] == 1:
            first.pop("experts")
        assert meaning(model, dict(back.options), SETTABLE) | {"experts": 0} == first | {
            "experts": 0
        }, text
    assert written > 200
    # Both are words of its ConfigManager.
    assert [key for key in sorted(used - {"module", "config"}) if not is_known(key)] == []


def is_known(key: str) -> bool:
    """Whether torchtitan has the field of an override."""
    section, _, name = key.replace("-", "_").rpartition(".")
    fields = RECORDED["fields"].get(section, {})
    return name in fields or name.removeprefix("no_") in fields


def test_configurations_are_those_of_the_release() -> None:
    """The table has what the functions of torchtitan set."""
    kinds = {"full": "FullAC.Config()", "selective": "SelectiveAC.Config()"}
    for (module, name), config in torchtitan.CONFIGS.items():
        found = RECORDED["functions"][module][name]
        for key, value in config.keys.items():
            if key == "activation_checkpoint.mode":
                assert found["activation_checkpoint"] == kinds[str(value)]
            elif key.startswith(("training.", "parallelism.")):
                assert found[key] == repr(value), (name, key)
        usual = {"-1", "1", "True"}
        ours = {*config.keys, *torchtitan.IDLE, *torchtitan.UNMODELED}
        left = [key for key in found if key not in ours and found[key] not in usual]
        assert [key for key in left if not key.startswith(("activation", "compile"))] == []
    assert set(RECORDED["checkpoints"]) >= {"selective", "full", "none"}
    assert not is_known("parallelism.tensor_parallel_size")


@pytest.mark.parametrize(
    ("layers", "parts", "ends", "counts"),
    [
        (32, 8, (1, 1), [4, 5, 4, 4, 4, 4, 4, 3]),
        (16, 4, (2, 0), [3, 5, 4, 4]),
        (16, 4, (0, 3), [5, 5, 5, 1]),
        (16, 4, (0, 0), [4, 4, 4, 4]),
        (4, 4, (2, 0), None),
        (3, 8, (1, 1), None),
    ],
)
def test_layers_are_dealt_as_torchtitan_does(
    layers: int, parts: int, ends: tuple[int, int], counts: list[int] | None
) -> None:
    """Worked out by hand from `_generate_llm_fqn_per_model_part`."""
    assert torchtitan.split(layers, parts, *ends) == counts


COMMAND = (
    "NGPU=8 MODULE=llama3 CONFIG=llama3_70b ./run_train.sh --training.steps 10 "
    "--parallelism.pipeline_parallel_degree=1 --training.local_batch_size 2 "
    "--compile.enable --metrics.log_freq 1 activation_checkpoint:selective\n"
)


def test_a_command_means_what_its_words_say(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(COMMAND, encoding="utf-8")
    found = read(path)
    assert found.model.name == "llama-3-70b"
    assert dict(found.options) == {
        "framework": "torchtitan", "tp": 8, "pp": 1, "cp": 1, "sp": True, "dp": 1, "zero": 0,
        "micro_batch": 2, "global_batch": 2, "seq": 8192, "precision": "bf16",
        "fp32_gradients": True, "attention": "flash", "recompute": "ops",
        "framework_set": {"kernels": "fused", "overlap_tp": False},
    }  # fmt: skip
    assert {"training.steps", "metrics.log_freq"} <= set(found.idle)


TOML = """
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 4096
[parallelism]
data_parallel_shard_degree = 16
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
pipeline_parallel_degree = 1
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
[float8]
enable_fsdp_float8_all_gather = true
recipe_name = "rowwise"
"""


def test_a_toml_file_means_what_its_keys_say(tmp_path: Path) -> None:
    path = tmp_path / "llama3_8b.toml"
    path.write_text(TOML, encoding="utf-8")
    found = read(path, ranks=64)
    assert found.model.name == "llama-3-8b"
    expected = {
        "tp": 2, "dp": 32, "zero": 3, "zero_group": 16, "precision": "fp8", "sp": True,
        "fp8_recipe": "rowwise", "recompute": "ops", "micro_batch": 2, "global_batch": 64,
    }  # fmt: skip
    assert {name: found.options[name] for name in expected} == expected
    assert found.options["framework_set"] == {"kernels": "fused", "overlap_tp": True}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name = ", "name == ", "is not TOML"),
        ('flavor = "8B"', 'flavor = "9B"', "llama3 9B is not a known model"),
        ("tensor_parallel_degree = 2", "tensor_parallel_degree = 3", "64 ranks are not"),
        ("tensor_parallel_degree = 2", "tensor_parallel_size = 2", "unknown key"),
        ("tensor_parallel_degree = 2", 'tensor_parallel_degree = "x"', "invalid count: 'x'"),
        ('"op"', '"2"', "recomputes every 2 layers"),
        ('"selective"', '"memory_budget"', "is memory_budget"),
        ('["float8"]', '["mx"]', "has mx"),
        ("local_batch_size = 2", "local_batch_size = 2\nglobal_batch_size = 65", "65 samples"),
        ("local_batch_size = 2", 'dtype = "bfloat16"', "without a master copy"),
    ],
)
def test_bad_files(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(TOML.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(path, "torchtitan", ranks=64)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--parallelism.tensor_parallel_degree $TP", "does not say: \\$TP"),
        ("--parallelism.pipeline_parallel_schedule ZBVZeroBubble", "unknown value"),
        ("--override.imports my.module", "by Python code"),
        ("--module llama9 --config x", "llama9 x is not a known model"),
        ("--parallelism.pipeline_parallel_degree 8 --parallelism.tensor_parallel_degree 1 "
         "--parallelism.pipeline_parallel_layers_per_stage 3", "28 parts of 3 layers"),
        ("activation_checkpoint:memory-budget", "is memory-budget"),
        ("; python -m torchtitan.train", "has 2 commands"),
    ],
)  # fmt: skip
def test_bad_commands(tmp_path: Path, words: str, said: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(COMMAND.strip() + " " + words, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(path, "torchtitan")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "zb-h1", "pp": 2}, "schedule: zb-h1"),
        ({"precision": "fp8"}, "precision: fp8"),
        ({"zero": 1, "dp": 2}, "zero: 1"),
        ({"recompute": "selective"}, "recompute: selective"),
        ({"recompute": "full", "recompute_layers": 2}, "recompute_layers: 2, which torchtitan"),
        ({"cp": 2, "zero": 3}, "cp_comm_type: p2p"),
        ({"layers_per_stage": "1,7,1,7", "pp": 4, "fp32_gradients": True}, "no keys of torchtitan"),
        ({"attention": "unfused"}, "attention: unfused"),
    ],
)
def test_what_torchtitan_cannot_say(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        export(DENSE, options, "torchtitan")
