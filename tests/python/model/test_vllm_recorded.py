"""Parameters that a rank of tensor parallelism holds, against the models that vLLM builds. `make
peers` asks vLLM again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peer_records import answers

from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.model.weights import embedding_weights, head_weights, layer_weights, norm_weights
from armillary.workload import load_model

MODELS: list[dict[str, Any]] = answers("vllm")["models"]


def of_a_rank(model: Decoder, ranks: int) -> int:
    layers = sum(layer_weights(model, layer, ranks).total for layer in range(model.layers))
    head = 0 if model.tied else head_weights(model, ranks)
    return layers + embedding_weights(model, ranks) + norm_weights(model) + head


@pytest.mark.parametrize("recorded", MODELS, ids=lambda each: str(each["config"]["model_type"]))
def test_parameters_of_a_rank_are_those_of_vllm(recorded: dict[str, Any], tmp_path: Path) -> None:
    """Also where there are more ranks than heads of keys and values, which are replicated then."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(recorded["config"]), encoding="utf-8")
    model = decoder(load_model(str(path)))
    held = recorded["parameters_of_a_rank"]
    assert {ranks: of_a_rank(model, int(ranks)) for ranks in held} == held


def test_some_models_have_fewer_heads_of_keys_than_ranks() -> None:
    assert any(
        each["config"]["num_key_value_heads"] < max(map(int, each["parameters_of_a_rank"]))
        for each in MODELS
    )
