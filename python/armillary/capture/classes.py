"""Rules for classes whose reference code computes something else than what is trained.

Llama 4 in `transformers` sends each token through every expert and weighs all but `top_k` with 0.
Here a token goes to its experts only, as in training, with one grouped product for each matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional


def _llama4(module: Any, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The block of router, experts and shared expert."""
    tokens = hidden_states.reshape(-1, module.hidden_dim)
    scores, logits = module.router(tokens)
    sent = tokens.new_empty(len(tokens) * module.top_k, dtype=torch.long)
    ends = tokens.new_empty(module.num_experts, dtype=torch.int32)
    routed = module.experts(tokens[sent] * scores.flatten()[sent].unsqueeze(-1), ends)
    return module.shared_expert(tokens).index_add(0, sent, routed), logits


def _llama4_experts(module: Any, tokens: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The experts, each with its tokens up to its end."""
    both = functional.grouped_mm(tokens, module.gate_up_proj, offs=ends)
    gate, up = both.chunk(2, dim=-1)
    return functional.grouped_mm(up * module.act_fn(gate), module.down_proj, offs=ends)


RULES: dict[str, Callable[..., Any]] = {
    "Llama4TextMoe": _llama4,
    "Llama4TextExperts": _llama4_experts,
}
"""Functions that run in place of `forward`, by the name of the class."""
