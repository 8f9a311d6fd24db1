"""Models that read images or sound, and those with an encoder: operations of small ones against
PyTorch's own counter on real tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from thorough import some

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from test_operations import full_attention, products
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

import armillary as arm
from armillary.capture import hugging_face, parameters
from armillary.capture.inputs import Sizes, of_model
from armillary.errors import InputError
from armillary.workload import build, captured

BATCH, TOKENS = 2, 32
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {**LAYERS, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 96}
TEXT |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
VISION = {**LAYERS, "hidden_size": 32, "intermediate_size": 48, "image_size": 32, "patch_size": 8}
SPEECH = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
SPEECH |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 64}
SPEECH |= {"vocab_size": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGES = 16
"""Tokens of an image: patches of a side, squared."""

SMALL: dict[str, dict[str, Any]] = {
    "llava": {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {"model_type": "clip_vision_model", **VISION},
        "image_token_id": 5,
        "vision_feature_layer": -1,
        "tie_word_embeddings": False,
    },
    "llava, last layer unused": {},
    "paligemma": {
        "text_config": {"model_type": "gemma", **TEXT, "head_dim": 16},
        "vision_config": {"model_type": "siglip_vision_model", **VISION},
        "image_token_id": 5,
        "projection_dim": 64,
        "hidden_size": 64,
    },
    "clip": {
        "text_config": {**TEXT, "eos_token_id": 2},
        "vision_config": VISION,
        "projection_dim": 32,
    },
    "whisper": {**SPEECH, "max_source_positions": 40, "num_mel_bins": 16},
    "bart": {**SPEECH, "max_position_embeddings": 64},
    "wav2vec2": {
        **TEXT,
        "conv_dim": [32, 32],
        "conv_stride": [2, 2],
        "conv_kernel": [3, 3],
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16,
        "mask_time_prob": 0.0,
        "layerdrop": 0.0,
    },
    "dinov2": {**VISION, "mlp_ratio": 2},
}
SMALL["llava, last layer unused"] = {**SMALL["llava"], "vision_feature_layer": -2}


def values_of(kind: str) -> dict[str, Any]:
    return {"model_type": kind.partition(",")[0], **SMALL[kind]}


def written(kind: str, folder: Path) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(values_of(kind)), encoding="utf-8")
    return file


def real(kind: str) -> Any:  # noqa: ANN401 - a class of transformers
    values = values_of(kind)
    config = hugging_face._config(transformers, values, kind)
    torch.manual_seed(0)
    model = hugging_face._class(transformers, config, values, kind)
    return model._from_config(config, attn_implementation="eager").train()


@pytest.mark.parametrize("kind", some(SMALL))
def test_operations_are_those_that_pytorch_counts(kind: str, tmp_path: Path) -> None:
    images = 1 if kind.startswith(("llava", "paligemma")) else 0
    found = arm.capture(written(kind, tmp_path), batch=BATCH, sequence=TOKENS, images=images)
    model = real(kind)
    given, _ = of_model(model, Sizes(BATCH, TOKENS, images), kind)
    for name, each in given.items():
        if isinstance(each, torch.Tensor):
            whole = each.dtype == torch.long
            made = torch.randint(6, 90, each.shape) if whole else torch.rand(each.shape)
            given[name] = made
    if images:
        given["input_ids"][:, :IMAGES] = 5
    counter = FlopCounterMode(display=False)
    with counter:
        result = model(**given)
        values = [result["logits"]] if "logits" in result else result.values()
        end: Any = sum(each.float().sum() for each in values if isinstance(each, torch.Tensor))
    forward = counter.get_total_flops()
    with counter:
        end.backward()
    assert found.warnings == ()
    assert found.parameters.total == sum(each.numel() for each in model.parameters())
    assert products(found, False) + full_attention(found, False) == forward
    assert products(found, True) + full_attention(found, True) == counter.get_total_flops()


def test_the_whole_of_an_encoder_decoder_is_captured(tmp_path: Path) -> None:
    found = arm.capture(written("bart", tmp_path), sequence=TOKENS)
    assert [block.count for block in found.blocks] == [2, 2]
    paths = [path for block in found.blocks for path in block.modules]
    parts = ("encoder", "decoder")
    assert paths == [f"model.{part}.layers.{at}" for part in parts for at in range(2)]


def test_towers_of_a_model_that_compares_texts_and_images(tmp_path: Path) -> None:
    found = parameters(written("clip", tmp_path))
    assert sorted(found.towers) == ["logit_scale", "vision_model", "visual_projection"]
    model = real("clip")
    parts = (*model.text_model.parameters(), *model.text_projection.parameters())
    assert found.text == sum(each.numel() for each in parts)


def test_layers_whose_results_are_not_used_have_no_gradient(tmp_path: Path) -> None:
    """The last layer of the tower is like the first, which runs for it."""
    file = written("llava, last layer unused", tmp_path)
    found = arm.capture(file, batch=BATCH, sequence=TOKENS, images=1)
    first, last, _ = found.blocks
    assert [block.count for block in found.blocks] == [1, 1, 2]
    assert found.order == (0, 1, 2, 2)
    forward = [each.flops for each in first.operations if not each.backward]
    assert [each.flops for each in last.operations] == forward
    paths = {each.module.partition("layers.")[2][:1] for each in last.operations}
    read = {each.parameter for at in last.operations for each in at.reads if each.parameter}
    assert paths == {path.partition("layers.")[2][:1] for path in read} == {"1"}
    assert not last.saved
    # It is not computed again either.
    again = sum(
        block.count * each.flops
        for block in found.blocks
        for each in block.operations
        if block is not last and not each.backward
    )
    summary = captured(found, recompute="full").summary
    assert summary is not None
    assert summary.hardware_flops - summary.flops == again
    for options in ({"dp": 8, "zero": 3}, {"pp": 4}, {"tp": 2, "dp": 2, "recompute": "full"}):
        assert arm.simulate(found, "dgx-h100", **options).step_time_ns > 0


def test_a_step_with_images(tmp_path: Path) -> None:
    name = f"capture:{written('llava', tmp_path)}"
    text = build(name, seq=TOKENS).summary
    both = build(name, seq=TOKENS, images=2).summary
    assert text is not None
    assert both is not None
    assert text.tokens == both.tokens == TOKENS
    tokens, width, inner = 2 * 17, 32, 48
    assert both.flops - text.flops > 3 * 2 * 2 * tokens * (4 * width**2 + 2 * width * inner)


@pytest.mark.parametrize(
    ("values", "options", "said"),
    [
        ({"model_type": "llama", **TEXT}, {"images": 1}, "takes no images next to tokens"),
        ({"model_type": "resnet"}, {}, "size its configuration does not say"),
        ({"model_type": "vit"}, {"images": -1}, "invalid count: -1"),
        ({"model_type": "vit"}, {"images": 2}, "takes no images next to tokens"),
        ({"model_type": "whisper", "num_mel_bins": 0}, {}, "takes input_features, whose shape"),
    ],
    ids=["text", "size", "negative", "no tokens", "sound"],
)
def test_what_is_refused(
    values: dict[str, Any], options: dict[str, int], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        arm.capture(file, sequence=TOKENS, **options)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_size_of_images_that_no_configuration_says(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "resnet", "depths": [1, 1, 1, 1]}), encoding="utf-8")
    small, large = (arm.capture(file, image_size=size).flops for size in (64, 128))
    assert large == 4 * small


class DiffusionBlock(nn.Module):
    """A block of a diffusion transformer (Peebles and Xie 2022, arXiv:2212.09748, figure 3)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        parts = self.modulation(functional.silu(time)).unsqueeze(1).chunk(6, dim=-1)
        batch, tokens, width = x.shape
        inner = self.norm(x) * (1 + parts[0]) + parts[1]
        q, k, v = self.qkv(inner).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + parts[2] * self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        inner = self.norm(x) * (1 + parts[3]) + parts[4]
        result: torch.Tensor = x + parts[5] * self.down(functional.gelu(self.up(inner)))
        return result


class Diffusion(nn.Module):
    def __init__(self, width: int = 32, layers: int = 3, patch: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, width, patch, stride=patch)
        self.time = nn.Linear(16, width)
        self.blocks = nn.ModuleList([DiffusionBlock(width, 4) for _ in range(layers)])
        self.last = nn.Linear(width, patch * patch * 4)

    def forward(self, latent: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x, at = self.patches(latent).flatten(2).transpose(1, 2), self.time(time)
        for block in self.blocks:
            x = block(x, at)
        result: torch.Tensor = self.last(x)
        return result


def test_a_diffusion_transformer() -> None:
    """The formula: 24 d² + 4 n d operations for each of n tokens in a block of width d, and 12
    d² for each sample's modulation."""
    samples, side, width, layers = 2, 32, 32, 3
    tokens = (side // 4) ** 2
    inputs = {"latent": torch.empty(samples, 4, side, side), "time": torch.empty(samples, 16)}
    found = arm.capture(Diffusion(), inputs)
    block = samples * (tokens * (24 * width**2 + 4 * tokens * width) + 12 * width**2)
    ends = samples * (tokens * 2 * 2 * 64 * width + 2 * 16 * width)
    assert [each.count for each in found.blocks] == [layers]
    assert found.flops == layers * block + ends
    assert arm.simulate(found, "dgx-h100", dp=8).step_time_ns > 0
