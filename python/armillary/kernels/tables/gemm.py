"""Products of two matrices: linear layers of inference engines, from activations of 16 bits.

The collectors of the source launch each layer in CUDA graphs, except vLLM's with scales for blocks,
whose times are mostly the host's. They use copies of the weights in turn: TensorRT-LLM's five while
these fit the L2 cache, vLLM's six, or one of FP4 and of blocks."""

from __future__ import annotations

from ..shapes import Gemm
from .rows import Left, Row, Table, count, engine

_FORMATS = {
    "bfloat16": ("bf16", "same"),
    "float16": ("fp16", "same"),
    "fp8": ("fp8", "same"),
    "fp8_block": ("fp8_block", "same"),
    "nvfp4": ("nvfp4", "same"),
    "sq": ("int8", "same"),
    "int8_wo": ("bf16", "int8"),
    "int4_wo": ("bf16", "int4"),
}
"""Formats of activations and weights by the names of tables. `sq` is SmoothQuant: integers."""
_ONE_COPY = ("fp8_block", "nvfp4")


def shape(row: Row) -> Gemm | Left:
    """The product that a row states. SGLang's kernels count as vLLM's, and those with scales for
    blocks as TensorRT-LLM's: both are DeepGEMM's, in graphs."""
    named = _FORMATS.get(row["gemm_dtype"])
    if named is None:
        return Left(f"products in {row['gemm_dtype']} have no parameters")
    library = engine(row).lower()
    if library not in ("trtllm", "sglang", "vllm"):
        return Left(f"kernels of {library or 'an engine that is not stated'} have no parameters")
    format, weights = named
    blocks = format == "fp8_block"
    mine = library == "trtllm" or (library == "sglang" and blocks)
    return Gemm(
        m=count(row, "m"),
        n=count(row, "n"),
        k=count(row, "k"),
        format=format,
        weights=weights,
        library="trtllm" if mine else "vllm",
        launch="eager" if blocks and not mine else "graph",
        copies=5 if mine else 1 if format in _ONE_COPY else 6,
    )


GEMM = Table("gemm", ("gemm_dtype", "m", "n", "k"), shape)
