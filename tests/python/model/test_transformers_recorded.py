"""Parameters of models that transformers built from drawn configurations, of every known type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peer_records import answers

from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.huggingface_kinds import KNOWN
from armillary.model.weights import parameters
from armillary.workload import load_model

RECORDED = answers("transformers")
LEFT_OUT: dict[str, str] = RECORDED["left_out"]
MODELS: list[dict[str, Any]] = RECORDED["models"]


def kind(recorded: dict[str, Any]) -> str:
    return str(recorded["config"]["model_type"])


def write(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("recorded", MODELS, ids=kind)
def test_parameters_are_those_of_transformers(recorded: dict[str, Any], tmp_path: Path) -> None:
    found = parameters(decoder(load_model(write(tmp_path, recorded["config"]))))
    assert found == recorded["parameters"]


def test_every_known_type_is_recorded() -> None:
    assert {kind(recorded) for recorded in MODELS} | set(LEFT_OUT) == set(KNOWN)


@pytest.mark.parametrize(
    ("key", "value"), [("qk_head_dim", 7), ("attention_bias", True), ("mlp_bias", True)]
)
def test_latent_attention_that_is_not_modelled_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    recorded = next(each for each in MODELS if kind(each) == "deepseek_v3")
    path = write(tmp_path, {**recorded["config"], key: value})
    with pytest.raises(InputError, match=f"{key}: {value!r} is not modelled"):
        load_model(path)
