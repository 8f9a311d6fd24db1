"""Number formats in which the weights of a model are published.

Here: the key `checkpoint` of a model file, and `quantization_config` of a Hugging Face
configuration. Not here: formats that a user chooses (`serve/layout.py`), formats of training.
Sources: huggingface/transformers, `src/transformers/utils/quantization_config.py`; the
`config.json` of models that have the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..declared import Source, read
from ..documents import Path_

Format = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Formats of the matrices."""

    weights: Format = "bf16"
    """Format of the dense layers' matrices."""
    experts: Format | None = None
    """Format of the experts' matrices, if it is another one."""

    def __str__(self) -> str:
        if self.experts in (None, self.weights):
            return self.weights
        return f"{self.weights}, experts in {self.experts}"


def declared_checkpoint(raw: object, file: str, line: int | None) -> Checkpoint:
    """The key `checkpoint` of a model file. Raises `InputError`."""
    lines: dict[Path_, int] = {} if line is None else {("checkpoint",): line}
    source = Source({"checkpoint": raw}, file, lines=lines)
    found = read(_File, source)
    source.finish()
    assert found is not None
    return found.checkpoint


PLAIN = Checkpoint()
"""All matrices in 16 bits."""


@dataclass(frozen=True)
class _File:
    checkpoint: Checkpoint


def read_checkpoint(quantization: object) -> Checkpoint | None:
    """The formats that `quantization_config` states; `None` where they are not known."""
    if quantization is None:
        return PLAIN
    return _stated(quantization) if isinstance(quantization, Mapping) else None


def _stated(quantization: Mapping[Any, Any]) -> Checkpoint | None:
    method = quantization.get("quant_method")
    if method == "mxfp4":  # The experts alone, as in gpt-oss.
        return Checkpoint("bf16", "mxfp4")
    found, plain = _format(quantization), _plain(quantization)
    if found is None or plain is None:
        return None
    if plain <= _SMALL:
        return found
    # Kimi-K2-Thinking: nothing but experts that tokens choose.
    return Checkpoint("bf16", found.weights) if plain - _SMALL == _ALL_BUT_EXPERTS else None


_SMALL = frozenset({"lm_head", "gate", "router", "norm", "embed", "bias", "vision"})
"""Modules in 16 bits that have a small part of the weights, or no part in text."""
_ALL_BUT_EXPERTS = frozenset({"self_attn", "shared_experts", "mlp"})
_MODULES = {
    "self_attn": "self_attn", "shared_experts": "shared_experts", "lm_head": "lm_head",
    "visual": "vision", "vision": "vision", "multi_modal": "vision", "embed": "embed",
    "norm": "norm", "router": "router", "e_score_correction_bias": "bias",
}  # fmt: skip
"""Modules by a part of their names."""


def _plain(quantization: Mapping[Any, Any]) -> frozenset[str] | None:
    """Kinds of modules that stay in 16 bits; `None` if one is not known."""
    found: set[str] = set()
    for key in ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"):
        names = quantization.get(key) or []
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            return None
        for name in names:
            kinds = {kind for part, kind in _MODULES.items() if part in name}
            if not kinds and _MLP.search(name):
                kinds = {"mlp"}
            elif not kinds and _GATE.search(name):
                kinds = {"gate"}
            if not kinds:
                return None
            found |= kinds
    return frozenset(found)


_GATE = re.compile(r"(^|\.)gate$")
_MLP = re.compile(r"mlp\\?\..*(gate|up|down)")


def _format(quantization: Mapping[Any, Any]) -> Checkpoint | None:
    match quantization.get("quant_method"):
        case "fp8":
            return Checkpoint("fp8_block" if quantization.get("weight_block_size") else "fp8")
        case "awq" | "gptq":
            return _integers(quantization.get("bits"))
        case "modelopt":
            algorithm = quantization.get("quant_algo")
            return _MODELOPT.get(algorithm) if isinstance(algorithm, str) else None
        case "compressed-tensors":
            return _compressed(quantization)
    return None


_MODELOPT: Mapping[str, Checkpoint] = {"FP8": Checkpoint("fp8"), "NVFP4": Checkpoint("nvfp4")}


def _integers(bits: object) -> Checkpoint | None:
    return Checkpoint("int4") if bits == 4 else Checkpoint("int8") if bits == 8 else None


def _compressed(quantization: Mapping[Any, Any]) -> Checkpoint | None:
    """One group that quantizes all linear layers."""
    groups = quantization.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        return None
    (group,) = groups.values()
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping) or group.get("targets") != ["Linear"]:
        return None
    match weights.get("type"), weights.get("num_bits"):
        case "int", bits:
            return _integers(bits)
        case "float", 8:
            return Checkpoint("fp8_block" if weights.get("strategy") == "block" else "fp8")
    return None
