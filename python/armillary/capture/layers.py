"""Rules for classes with a fused kernel inside, whose reference code is too large to be what
accelerators run.

Here: the indexer of DeepSeek-V3.2 and GLM-5, lightning attention of MiniMax, and PyTorch's
recurrent layers. Not here: the kernels (`fused.py`), rules without one (`classes.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from . import fused
from .fused import Log


def _indexer(
    module: Any,
    log: Log,
    hidden_states: torch.Tensor,
    q_resid: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    *rest: object,
    **more: object,
) -> torch.Tensor:
    """Keys that each query attends to. It has no gradient."""
    place = sys.modules[type(module).__module__]
    rotated = getattr(place, "apply_rotary_pos_emb_interleave", None)
    if rotated is None or type(module).__name__ == "DeepseekV32Indexer":
        rotated = place.apply_rotary_pos_emb
    with torch.no_grad():
        rotary = module.qk_rope_head_dim, module.head_dim - module.qk_rope_head_dim
        q = module.wq_b(q_resid).unflatten(-1, (module.n_heads, module.head_dim))
        k = module.k_norm(module.wk(hidden_states)).unsqueeze(2)
        (q_turned, q_rest), (k_turned, k_rest) = (each.split(rotary, dim=-1) for each in (q, k))
        q_turned, k_turned = rotated(q_turned, k_turned, *position_embeddings, unsqueeze_dim=2)
        q = torch.cat([q_turned, q_rest], dim=-1)
        k = torch.cat([k_turned, k_rest], dim=-1).squeeze(2)
        weights = module.weights_proj(hidden_states)
        kernel = fused.indexer(q, k, module.index_topk)
        return fused.run(kernel, log, [q, k, weights])[0]


def _lightning(
    module: Any, log: Log, hidden_states: torch.Tensor, *rest: object, **more: object
) -> tuple[torch.Tensor, None]:
    """Linear attention in blocks, with its gate."""
    states = module.act_fn(module.qkv_proj(hidden_states))
    states = states.unflatten(-1, (module.num_attention_heads, 3 * module.head_dim))
    q, k, v = states.split(module.head_dim, dim=-1)
    kernel = fused.lightning(q, module.block_size)
    mixed = module.norm(fused.run(kernel, log, [q, k, v])[0].flatten(-2))
    return module.out_proj(functional.sigmoid(module.output_gate(hidden_states)) * mixed), None


def _recurrent(module: Any, log: Log, given: Any, state: Any = None) -> Any:
    """Layers of LSTM, GRU or a plain recurrence, in each direction one kernel."""
    if not isinstance(given, torch.Tensor) or given.dim() != 3 or module.proj_size:
        return type(module).forward(module, given, state)
    x = given.transpose(0, 1) if module.batch_first else given
    before = (state if isinstance(state, tuple) else (state,)) if state is not None else ()
    ends: list[tuple[torch.Tensor, ...]] = []
    directions = ("", "_reverse") if module.bidirectional else ("",)
    for layer in range(module.num_layers):
        results = []
        for direction in directions:
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if module.bias else 2]
            weights = [getattr(module, f"{name}_l{layer}{direction}") for name in names]
            first = [each[len(ends)] for each in before]
            kernel = fused.recurrent(module.mode, x, module.hidden_size)
            result, *end = fused.run(kernel, log, [x, *weights, *first])
            results.append(result)
            ends.append(tuple(end))
        x = torch.cat(results, dim=-1) if len(results) > 1 else results[0]
        if module.dropout and layer + 1 < module.num_layers:
            x = functional.dropout(x, module.dropout, module.training)
    last = tuple(torch.stack(each) for each in zip(*ends, strict=True))
    x = x.transpose(0, 1) if module.batch_first else x
    return x, last if len(last) > 1 else last[0]


LAYERS: dict[str, Callable[..., Any]] = {
    "DeepseekV32Indexer": _indexer,
    "GRU": _recurrent,
    "GlmMoeDsaIndexer": _indexer,
    "LSTM": _recurrent,
    "MiniMaxLightningAttention": _lightning,
    "RNN": _recurrent,
}
"""Functions that run in place of `forward`, by the name of the class."""
