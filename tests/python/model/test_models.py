"""Models are found, read, and refused with their line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from armillary.errors import InputError
from armillary.model.files import FAMILIES, Model, load_model, models, parse


@dataclass(frozen=True)
class Shape:
    layers: int
    ratio: float = 1.0
    tables: tuple[int, ...] = ()
    norm: str | None = None


def problems(name: object) -> str:
    with pytest.raises(InputError) as caught:
        load_model(name)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("name", models())
def test_preset(name: str) -> None:
    model = load_model(name)
    assert model.name == name
    assert model.family in FAMILIES
    assert len(model.source) > 20, "a preset without a source"


def test_unknown_name_says_near_ones() -> None:
    said = problems("gpt3-176b")
    assert "no such model" in said
    assert "gpt3-175b" in said


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yml"
    path.write_text("family: cnn\nlayers: 3\ntables: [1, 2]\n")
    model = load_model(path)
    assert (model.name, model.family, model.lines["layers"]) == ("tiny", "cnn", 2)
    assert parse(model, Shape) == Shape(3, tables=(1, 2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layers: 3\n", "family: is missing"),
        ("a: 1\nfamily: rnn\n", "line 2: family: unknown family 'rnn'"),
        ("family: cnn\nlayers: 3\nlayers: 4\n", "line 3: layers: is given twice"),
        ("- 1\n", "not a mapping"),
        ("a: [1\nb: 2\n", "line 2"),
        ("", "not a mapping"),
    ],
)
def test_bad_file(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(text)
    assert said in problems(path)


def test_every_bad_field_is_named() -> None:
    model = Model(
        "m", "cnn", {"layer": 3, "ratio": "x", "tables": [1, "b"]}, file="m.yml", lines={"ratio": 7}
    )
    with pytest.raises(InputError) as caught:
        parse(model, Shape)
    said = [str(problem) for problem in caught.value.problems]
    assert len(said) == 4
    assert "m.yml: layer: unknown key (allowed: layers)" in said
    assert "m.yml: line 7: ratio: 'x' is not a number (allowed: a number)" in said


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


def test_huggingface_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for path in (folder, folder / "config.json"):
        model = load_model(path)
        assert (model.name, model.family) == ("my-llama", "transformer")
        assert (model.fields["kv_heads"], model.fields["gated"]) == (8, True)


def test_huggingface_by_architecture_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in LLAMA.items() if key != "model_type"}))
    assert load_model(path).family == "transformer"


def test_huggingface_faults(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"hidden_size": "big", "vocab_size": None}))
    said = problems(path)
    assert "hidden_size: 'big' is not a whole number" in said
    assert "vocab_size: is missing" in said
    path.write_text(json.dumps({"model_type": "bert"}))
    assert "'bert' is not a decoder" in problems(path)


@pytest.mark.parametrize("kind", ["llama", "llama4_text", "mistral", "qwen3_moe"])
def test_huggingface_layers_are_bounded(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(LLAMA | {"model_type": kind, "num_hidden_layers": 2**62, "architectures": []})
    )
    assert problems(path).count(f"num_hidden_layers: {2**62} layers") == 1
