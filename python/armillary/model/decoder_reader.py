"""Reading a decoder: the fields of a model file, checked one by one and together."""

from __future__ import annotations

from ..errors import InputError
from .decoder import Decoder
from .files import Model, parse
from .weights import parameters

MOST_PARAMETERS = 175 * 10**15
LINEAR = (
    "linear_key_heads",
    "linear_value_heads",
    "linear_key_dim",
    "linear_value_dim",
    "linear_kernel",
)

INDEXER = ("index_heads", "index_dim", "index_top_k")


def decoder(model: Model) -> Decoder:
    """The model's fields, checked. Raises `InputError` listing every fault."""
    shape = parse(model, Decoder)
    problems = []
    if not shape.kv_rank:
        if not shape.head_dim and shape.hidden % shape.heads:
            said = f"{shape.heads} heads don't divide the hidden width of {shape.hidden}"
            problems.append(model.problem("heads", said, "a divisor, or give head_dim"))
        if shape.heads % shape.kv:
            said = f"{shape.kv} heads of keys and values don't divide {shape.heads} heads"
            problems.append(model.problem("kv_heads", said, "a divisor of heads"))
    for group in (LINEAR, INDEXER):
        missing = [name for name in group if not getattr(shape, name)]
        if 0 < len(missing) < len(group):
            problems.append(model.problem(missing[0], "is missing", "all of " + ", ".join(group)))
    if shape.index_heads and not (shape.kv_rank and shape.q_rank):
        said = "an indexer without compressed queries and keys is not modelled"
        problems.append(model.problem("index_heads", said, "with q_rank and kv_rank"))
    if shape.index_heads and (shape.window or shape.linear_key_heads):
        said = "an indexer next to windows or linear attention is not modelled"
        problems.append(model.problem("index_heads", said, "without them"))
    if shape.full_every and not (shape.window or shape.linear_key_heads):
        problems.append(
            model.problem("full_every", "has no effect", "only with window or linear attention")
        )
    if shape.experts and not (shape.expert_ffn and shape.top_k <= shape.experts):
        said = (
            f"{shape.experts} experts of inner width {shape.expert_ffn}, {shape.top_k} for "
            "each token"
        )
        problems.append(model.problem("experts", said, "an expert_ffn, and top_k up to experts"))
    if not problems and parameters(shape) > MOST_PARAMETERS:
        said = f"{parameters(shape)} parameters"
        problems.append(
            model.problem("layers", said, f"up to {MOST_PARAMETERS}, a million times GPT-3's")
        )
    if problems:
        raise InputError(problems)
    return shape
