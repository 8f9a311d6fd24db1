"""Inputs of models of `transformers`, without data, and their loss.

Here: which tensors a model takes, with shapes from its configuration. Not here: which model it is
(`hugging_face.py`).

- Tokens go to models that read text, also to the decoder of an encoder-decoder.
- Images go to models that have no other input, and next to tokens where they are asked for or the
  model takes nothing else. Their size is `image_size` of the configuration or of its tower.
- Sound goes to models that have no other input: spectra (`num_mel_bins`) of the whole context, or
  one number for each of `sequence` points in time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from ..errors import InputError, Problem

WAY_OUT = "capture the module in Python (armillary.capture)"
"""Advice where a configuration cannot be read as a model of transformers."""

Given = tuple[dict[str, Any], Callable[[Any], torch.Tensor | None] | None]
"""Inputs by name, and the loss."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a step reads."""

    batch: int
    """Samples."""
    sequence: int
    """Tokens of a sample; of sound without spectra, points in time."""
    images: int = 0
    """Images of a sample next to its tokens."""
    image_size: int = 0
    """Height and width of an image; 0 for those of the configuration."""


def of_model(model: torch.nn.Module, sizes: Sizes, file: str) -> Given:
    """Inputs of a model without data, and its loss: cross entropy over the vocabulary where it
    predicts tokens, else all that it gives. Raises `InputError` where it takes something whose
    shape its configuration does not say."""
    main = getattr(model, "main_input_name", "input_ids")
    takes = inspect.signature(model.forward).parameters
    tokens = torch.zeros((sizes.batch, sizes.sequence), dtype=torch.long, device="meta")
    given: dict[str, Any] = {}
    if sizes.images and not {"input_ids", "pixel_values"} <= set(takes):
        said = f"{type(model).__name__} takes no images next to tokens"
        raise InputError([Problem(file, "images", said, "0")])
    if main in ("input_ids", "pixel_values") and "input_ids" in takes:
        given["input_ids"] = tokens
        if sizes.images or main == "pixel_values" or _is_pair(model):
            given["pixel_values"] = _images(model, sizes, max(sizes.images, 1), file)
    elif main == "pixel_values":
        given[main] = _images(model, sizes, 1, file)
    else:
        given[main] = _sound(model, main, sizes, file)
    config: Any = model.config
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        given["decoder_input_ids"] = tokens
    any_name = any(each.kind is each.VAR_KEYWORD for each in takes.values())
    if getattr(config.get_text_config(), "use_cache", None) is not None:
        given |= {"use_cache": False} if any_name or "use_cache" in takes else {}
    return given, lambda result: _cross_entropy(result, tokens)


def _is_pair(model: torch.nn.Module) -> bool:
    """Whether a model compares texts and images, as CLIP does, and needs both."""
    names = {name for name, _ in model.named_children()}
    if type(model).__name__.endswith("Generation"):
        return False
    return {"text_model", "vision_model"} <= names or {"text_model", "image_model"} <= names


def _images(model: torch.nn.Module, sizes: Sizes, images: int, file: str) -> torch.Tensor:
    said = list(_said(model.config))
    size = sizes.image_size or next((value for key, value in said if key == "image_size"), 0)
    channels = next((value for key, value in said if key == "num_channels"), 3)
    if isinstance(size, Mapping):
        size = size.get("height"), size.get("width")
    height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
    if not (height and width):
        said_ = f"{type(model).__name__} takes images, whose size its configuration does not say"
        raise InputError([Problem(file, "image_size", said_, "image_size, or --image-size 224")])
    shape = (sizes.batch * images, channels, height, width)
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def _sound(model: torch.nn.Module, main: str, sizes: Sizes, file: str) -> torch.Tensor:
    config: Any = model.config
    bins = getattr(config, "num_mel_bins", None)
    frames = getattr(config, "max_length", None)
    shape: tuple[int, ...] = ()
    if main == "input_features" and bins and getattr(config, "max_source_positions", None):
        # Whisper's first convolutions halve the number of spectra.
        shape = (sizes.batch, bins, 2 * config.max_source_positions)
    elif main == "input_values" and bins and frames:
        shape = (sizes.batch, frames, bins)
    elif main == "input_values" and getattr(config, "conv_stride", None):
        shape = (sizes.batch, sizes.sequence)
    if not shape:
        said = f"{type(model).__name__} takes {main}, whose shape its configuration does not say"
        raise InputError([Problem(file, "", said, f"{WAY_OUT} with its inputs")])
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def _said(config: Any) -> Iterator[tuple[str, Any]]:
    """Keys of a configuration about images, then those of its towers."""
    for part in (config, *(getattr(config, name, None) for name in _TOWERS)):
        for key in ("image_size", "num_channels"):
            value = part.get(key) if isinstance(part, Mapping) else getattr(part, key, None)
            if value:
                yield key, value


_TOWERS = ("vision_config", "encoder", "backbone_config")


def _cross_entropy(result: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """In 32 bits, as the models of `transformers` compute it. None where it predicts no tokens."""
    if "logits" not in result or result["logits"].shape[:-1] != tokens.shape:
        return None
    logits = result["logits"].float()
    return functional.cross_entropy(logits.flatten(0, -2), tokens.flatten())
