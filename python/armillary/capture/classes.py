"""Rules for classes whose reference code computes something else than what is trained, or asks for
values of tensors.

- Llama 4 in `transformers` sends each token through every expert and weighs all but `top_k` with 0.
  Here a token goes to its experts only, as in training, with one grouped product for each matrix.
- LongCat-Flash has zero experts, which give back what they get. Tokens go to all of its experts
  alike, so that experts with weights get their share."""

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


def _longcat_experts(
    module: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Experts with weights, then zero experts, whose tokens are only weighed."""
    sent = top_k_index.numel() * module.num_routed_experts // module.total_experts
    there = hidden_states.new_empty(sent, dtype=torch.long)
    here = hidden_states.new_empty(top_k_index.numel() - sent, dtype=torch.long)
    ends = hidden_states.new_empty(module.num_routed_experts, dtype=torch.int32)
    first = module.gate_up_proj[: module.num_routed_experts].transpose(1, 2)
    both = functional.grouped_mm(hidden_states[there], first, offs=ends)
    gate, up = both.chunk(2, dim=-1)
    second = module.down_proj.transpose(1, 2)
    routed = functional.grouped_mm(module.act_fn(gate) * up, second, offs=ends)
    routed = routed * weights.flatten()[there].unsqueeze(-1)
    same = hidden_states[here] * weights.flatten()[here].unsqueeze(-1)
    result = torch.zeros_like(hidden_states)
    result = result.index_add(0, there, routed.to(result.dtype))
    return result.index_add(0, here, same.to(result.dtype))


RULES: dict[str, Callable[..., Any]] = {
    "Llama4TextMoe": _llama4,
    "Llama4TextExperts": _llama4_experts,
    "LongcatFlashExperts": _longcat_experts,
}
"""Functions that run in place of `forward`, by the name of the class."""
