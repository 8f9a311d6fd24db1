"""Configurations of MaxText: the mesh and the batch of an exported layout, as its own rules read
them."""

from __future__ import annotations

import random
from math import prod

import pytest
import yaml
from drawn_layouts import layouts, meaning, resolved
from peer_records import answers

from armillary.errors import InputError
from armillary.launch import export
from armillary.launch.maxtext_export import EXCHANGES, MODELS, POLICIES
from armillary.workload import Model, load_model

RECORDED = answers("maxtext")
PRESETS = tuple(load_model(name) for name in ("llama-3-8b", "mixtral-8x7b"))


def drawn(chance: random.Random, model: Model) -> dict[str, object]:
    """A layout that MaxText can express, or the simulator refuses."""
    pick = chance.choice
    tp, cp, pp, dp = pick([1, 2, 4]), pick([1, 1, 2]), pick([1, 1, 2, 4]), pick([1, 2, 4, 8])
    micro = pick([1, 2])
    precision = pick(["bf16", "fp8", "fp32"])
    moe = model.family == "moe"
    options: dict[str, object] = {
        "tp": tp, "cp": cp, "pp": pp, "dp": dp, "zero": pick([0, 1, 3, 3]),
        "schedule": "gpipe" if pp > 1 else "1f1b", "sp": tp > 1 and (moe or pick([True, False])),
        "cp_comm_type": pick(list(EXCHANGES)), "micro_batch": micro,
        "global_batch": micro * dp * pp * pick([1, 2]), "seq": pick([1024, 2048]),
        "recompute": pick(list(POLICIES)), "precision": precision,
        "fp8_recipe": pick(["delayed", "tensorwise"]), "fp32_gradients": pick([True, False]),
        "attention": pick(["flash", "flash", "unfused"]),
    }  # fmt: skip
    if moe:
        options |= {"ep": pick([1, 2, 4]), "capacity_factor": pick([None, 1.25])}
    if options["zero"]:
        options["offload"] = pick(["none", "optimizer"])
    if options["zero"] == 3 and dp * cp > 1:
        options["zero_group"] = pick([None, dp * cp // 2])
    return options


def understood(model: Model, keys: dict[str, object]) -> dict[str, object]:
    """Options that MaxText's keys mean, by the rules of its base.yml."""
    size = {
        name.removeprefix("ici_").removesuffix("_parallelism"): int(str(value))
        for name, value in keys.items()
        if name.startswith("ici_")
    }
    devices = prod(size.values())
    dp = size["data"] * size["fsdp"] * size["expert"]
    shard = size["fsdp"] * size["context"] * size["expert"]
    steps = int(str(keys["gradient_accumulation_steps"]))
    whole = round(float(str(keys["per_device_batch_size"])) * devices * steps)
    pieces = int(str(keys.get("num_pipeline_microbatches", steps)))
    exchanges = {theirs: ours for ours, theirs in EXCHANGES.items()}
    policies = {theirs: ours for ours, theirs in POLICIES.items()}
    narrow = {"te_fp8_delayedscaling": "delayed", "te_fp8_currentscaling": "tensorwise"}
    quantized = narrow.get(str(keys.get("quantization")))
    wide = keys["dtype"] == "float32"
    found: dict[str, object] = {
        "tp": size["tensor"] * size["tensor_sequence"], "pp": size["pipeline"],
        "cp": size["context"], "dp": dp, "sp": size["tensor_sequence"] > 1,
        "zero": 1 if keys["shard_optimizer_over_data"] else 3 if shard > 1 else 0,
        "zero_group": shard if shard > 1 else None, "global_batch": whole,
        "micro_batch": whole // (dp * pieces), "seq": keys["max_target_length"],
        "schedule": "gpipe" if size["pipeline"] > 1 else "1f1b",
        "cp_comm_type": exchanges.get(str(keys.get("context_parallel_strategy"))),
        "recompute": policies[str(keys["remat_policy"])],
        "precision": "fp8" if quantized else "fp32" if wide else "bf16",
        "fp8_recipe": quantized or "tensorwise", "fp32_gradients": keys["grad_dtype"] == "float32",
        "attention": "unfused" if keys["attention"] == "dot_product" else "flash",
        "offload": "optimizer" if keys["optimizer_memory_host_offload"] else "none",
    }  # fmt: skip
    if model.family == "moe":
        found |= {"ep": size["expert"], "capacity_factor": keys.get("capacity_factor")}
    return found


def test_exported_layouts_mean_the_same() -> None:
    written = 0
    used: set[str] = set()
    for model, options in layouts(drawn, PRESETS, 330):
        try:
            text = export(model.name, options, "maxtext")
        except InputError as error:
            refused = ("whose axes shard parameters", "a multiple of cp x ep")
            assert any(each in str(error) for each in refused), str(error)
            continue
        written += 1
        keys = yaml.safe_load(text)
        used |= set(keys)
        assert resolved(model, options).world == prod(
            value for key, value in keys.items() if key.startswith(("ici_", "dcn_"))
        )
        first, back = (meaning(model, each, ()) for each in (options, understood(model, keys)))
        if first["shard_ranks"] == 1 and first["zero"] == 3:
            # A shard on one rank is whole.
            first["zero"] = back["zero"]
        if back["zero"] == 0:
            back["shard_ranks"] = first["shard_ranks"]
        assert back == first, text
    assert written > 200
    # The name of the file that a configuration extends is not one of its keys.
    assert used - {"base_config"} <= set(RECORDED["keys"])


def test_words_and_models_are_those_of_the_release() -> None:
    assert set(MODELS.values()) <= set(RECORDED["models"])
    assert set(MODELS) <= {load_model(name).name for name in MODELS}
    assert set(POLICIES.values()) <= set(RECORDED["words"]["remat_policy"])
    assert set(EXCHANGES.values()) <= set(RECORDED["words"]["context_parallel_strategy"])
    assert {"autoselected", "dot_product"} <= set(RECORDED["words"]["attention"])
    assert {"te_fp8_delayedscaling", "te_fp8_currentscaling"} <= set(RECORDED["quantizations"])
    assert "ici_pipelines_parallelism" not in RECORDED["keys"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pp": 2}, "schedule: 1f1b"),
        ({"zero": 2, "dp": 2}, "zero: 2"),
        ({"recompute": "ops"}, "recompute: ops"),
        ({"recompute_modules": "mlp"}, "recompute_modules: mlp"),
        ({"precision": "fp16"}, "precision: fp16"),
        ({"precision": "fp8", "fp8_recipe": "rowwise"}, "fp8_recipe: rowwise"),
        ({"cp": 2, "zero": 1}, "whose axes shard parameters"),
        ({"framework": "megatron-lm"}, "framework: megatron-lm: no description is of MaxText"),
        ({"pp": 3, "schedule": "gpipe"}, "pp: 3"),
        ({"moments": "bf16"}, "moments: bf16"),
    ],
)
def test_what_maxtext_cannot_say(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        export("llama-3-8b", options, "maxtext")


def test_models_that_maxtext_has_not() -> None:
    with pytest.raises(InputError, match="model: nemotron-4-340b"):
        export("nemotron-4-340b", {"zero": 3}, "maxtext")
