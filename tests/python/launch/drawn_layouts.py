"""Drawn models and layouts for tests of launch flags, and whether two layouts are alike."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping

from armillary.errors import InputError
from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.workload import Model, load_model
from armillary.workload.parallelism import FRAMEWORK_KEYS, Parallelism
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.placement import read_layout, split

_LLAMA = {
    "layers": 16, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 2816, "vocabulary": 32768,
    "sequence": 2048, "gated": True, "norm": "rms", "bias": False, "dropout": False, "tied": False,
}  # fmt: skip
_GPT = {
    "layers": 16, "hidden": 1024, "heads": 16, "ffn": 4096, "vocabulary": 51200, "sequence": 2048,
    "positions": 2048,
}  # fmt: skip
_MIXTURE = {**_LLAMA, "experts": 16, "top_k": 2, "expert_ffn": 1408}
_LATENT = {
    **_LLAMA, "heads": 16, "kv_heads": None, "head_dim": 64, "rope_dim": 32, "value_dim": 64,
    "q_rank": 256, "kv_rank": 128, "experts": 16, "top_k": 4, "expert_ffn": 512,
    "shared_experts": 1, "first_dense": 2, "router_bias": True,
}  # fmt: skip
DENSE = Model("llama-like", "transformer", _LLAMA)
GPT = Model("gpt-like", "transformer", _GPT)
MIXTURE = Model("mixture", "moe", _MIXTURE)
LATENT = Model("latent", "moe", {key: value for key, value in _LATENT.items() if value is not None})
MODELS = (DENSE, GPT, MIXTURE, LATENT)

Draw = Callable[[random.Random, Model], dict[str, object]]


def layouts(
    draw: Draw, models: tuple[Model, ...], count: int
) -> Iterator[tuple[Model, dict[str, object]]]:
    """`count` layouts that fit their models. A layout that does not is drawn again."""
    found = tried = 0
    while found < count:
        chance = random.Random(tried)
        tried += 1
        assert tried < 60 * count, "hardly any drawn layout fits its model"
        model = chance.choice(models)
        options = draw(chance, model)
        try:
            resolved(model, options)
        except InputError:
            continue
        found += 1
        yield model, options


def resolved(model: Model, options: Mapping[str, object]) -> Parallelism:
    """The options with their defaults, checked against the model."""
    return parallelism(decoder(load_model(model)), "drawn", options)


def layers_of_parts(shape: Decoder, par: Parallelism) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Layers and modules of prediction of each part of the pipeline, in model order."""
    if par.layers_per_stage is not None:
        found = read_layout(str(par.layers_per_stage), shape.layers, par.parts, par.mtp)
        return found.layers, found.mtp
    assert par.partition == "layers"
    counts = tuple(split(shape.layers, par.parts))
    return counts, (*(0 for _ in counts[1:]), par.mtp)


def meaning(
    model: Model, options: Mapping[str, object], behaviour: tuple[str, ...]
) -> dict[str, object]:
    """The options that mean something, without values that have no effect and without keys of
    `framework_set` but those of `behaviour`."""
    par = resolved(model, options)
    found: dict[str, object] = {
        each.name: getattr(par, each.name)
        for each in dataclasses.fields(par)
        if each.name not in FRAMEWORK_KEYS or each.name in behaviour
    }
    for name in ("framework", "framework_set", "ranks", "layers_per_stage", "partition"):
        found.pop(name, None)
    found["layout"] = layers_of_parts(decoder(model), par)
    found["shard_ranks"] = par.shard_ranks
    found["gradient_bytes"] = par.gradient_bytes
    found["modules"] = par.modules
    found["experts"] = (par.expert_tp, par.ep > 1 and par.folded)
    idle = {
        "zero_group": True, "fp32_gradients": True, "recompute_modules": True, "etp": True,
        "sp": par.tp == 1, "cp_comm_type": par.cp == 1, "overlap_tp": par.tp == 1,
        "overlap_grad_reduce": par.zero >= 2,
        "overlap_param_gather": par.zero not in (1, 2), "imbalance": True,
        "fp8_recipe": par.precision != "fp8", "ep_node": par.ep == 1, "node_limit": par.ep == 1,
        "schedule": par.pp == 1 or par.virtual_stages > 1,
    }  # fmt: skip
    return {name: value for name, value in found.items() if not idle.get(name)}
