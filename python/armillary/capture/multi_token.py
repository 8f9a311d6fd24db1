"""Multi-token prediction, whose modules `transformers` leaves out of its models.

A module of DeepSeek-V3 and GLM-4.5 is a norm of its input, one of the next token's embedding, a
matrix from both together to the model's width, a layer like the last one, and a norm before the
head, which it shares. (DeepSeek-AI 2024, arXiv:2412.19437, section 2.2)"""

from __future__ import annotations

from typing import Any

import torch

_KEYS = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_hidden_layers")
_ALIKE = ("deepseek_v3", "deepseek_v32", "glm4_moe", "glm_moe_dsa")
"""Types whose modules are like those of DeepSeek-V3."""


def left_out(model: Any) -> tuple[int, str]:
    """Parameters of modules that a model of `transformers` lacks, and what to say about them; 0 and
    nothing where its configuration asks for none."""
    config = model.config.get_text_config()
    key = next((each for each in _KEYS if getattr(config, each, None)), "")
    modules = getattr(config, key, 0) if key else 0
    if not isinstance(modules, int) or any(_is_own(name) for name, _ in model.named_modules()):
        return 0, ""
    if not modules:
        return 0, ""
    said = f"{key} {modules}: transformers leaves out multi-token prediction"
    lists = [each for each in model.modules() if isinstance(each, torch.nn.ModuleList)]
    if config.model_type not in _ALIKE or not lists:
        return 0, f"{said}, whose parameters are not counted"
    layers = max(lists, key=lambda each: sum(map(_count, each)))
    width = config.hidden_size
    count = modules * (_count(layers[-1]) + 2 * width**2 + 3 * width)
    return count, f"{said}, {count:,} parameters"


def _is_own(name: str) -> bool:
    return any(part.startswith(("mtp", "nextn")) for part in name.split("."))


def _count(module: torch.nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())
