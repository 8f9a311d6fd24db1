"""Sparse attention in training: the indexer, which chooses the keys that each token attends to.

Here: its operations, what it keeps, and options that it rules out. Not here: attention to the
chosen keys (`attention.py`), its parameters (`model/weights.py`). Source: DeepSeek-AI 2025,
DeepSeek-V3.2-Exp, section 2.1."""

from __future__ import annotations

from ..model.decoder import Decoder
from .parallelism import Parallelism
from .script import Gemm, KernelStep, Script
from .setting import Setting


def indexer(at: Setting) -> Script:
    """Matrices, whole on every rank, and one kernel that scores the keys of each token and chooses
    some. There is no backward pass."""
    model, width = at.model, at.par.bytes.activation
    if not model.index_heads:
        return ()
    queries = model.index_heads * model.index_dim
    # Half of the pairs are seen.
    work = at.tokens * (at.par.seq or 0) * model.index_heads * (model.index_dim + 1)
    read = at.tokens * (queries + model.index_dim + model.index_heads) * width
    return (
        Gemm("indexer.queries", at.tokens, queries, model.q_rank),
        Gemm("indexer.keys", at.tokens, model.index_dim + model.index_heads, model.hidden),
        KernelStep("indexer.core", "attention", work, read + chosen(at)),
    )


def chosen(at: Setting) -> int:
    """Bytes of the places of the keys that an indexer chose."""
    return 4 * at.tokens * min(at.model.index_top_k, at.par.seq or 0)


def sparse_faults(model: Decoder, given: Parallelism) -> list[tuple[str, str, str]]:
    """Options that sparse attention has no model for: option, what is wrong, what is allowed."""
    if not model.index_heads:
        return []
    faults = []
    if given.cp > 1:
        said = f"{given.cp} with sparse attention, whose indexer needs all keys"
        faults.append(("cp", said, "1"))
    if given.attention == "unfused":
        said = "unfused with sparse attention, which has one kernel for the chosen keys"
        faults.append(("attention", said, "flash"))
    return faults
