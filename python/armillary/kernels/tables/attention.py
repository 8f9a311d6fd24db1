"""Shapes of attention and of latent attention, as ai-dynamo/aiconfigurator's tables state them.

The tables mix calls with and without a sliding window, and do not state it. A row that would beat
the data sheet without a window is left out; shorter gains by a window stay, as errors. The table of
the laboratory has a column of ours, `window_derived`: of 0, 128, 1,024 and 8,192 tokens, which the
collection has, the only one that is possible. It is empty where more than one is, and the row is
left out: a window counts as known only where others change the time by more than a factor of
two."""

from __future__ import annotations

from ..shapes import Attention, Mla, Shape
from .rows import Left, Row, Table, count, engine

_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
_PEAKS = {"a100": 312.0, "l40s": 362.0, "h100": 989.0, "h200": 989.0}
"""Dense 16-bit TFLOP/s of data sheets; 2,500 on Blackwell, and twice the rate for FP8."""
_BLACKWELL = 2500.0
_MEMORIES = {"a100": 2.04, "l40s": 0.864, "h100": 3.35, "h200": 4.8, "rtx": 1.8}
"""TB/s of data sheets; 8 on Blackwell."""
_WINDOWS = ("window_size", "window_derived")
_L2_BYTES = 130e6
"""More than any of these GPUs keeps in its L2 cache."""


def attention(row: Row) -> Shape | Left:
    """The shape of a row of attention."""
    prefill = count(row, "step") == 0
    source = _attention_source(row["kernel_source"])
    old = _generation(row)
    products, cache = _format(row, "attn_dtype"), _format(row, "kv_cache_dtype")
    if source == "tensorrt" and cache == "fp8" and prefill and old in ("hopper", "blackwell"):
        products = "fp8"  # these kernels multiply in the format of the cache
    if source == "tensorrt" and old == "ada" and row["head_dim"] != "128":
        products = "bf16"  # and these, of other heads, in 16 bits
    stated = next((name for name in _WINDOWS if row.get(name)), None)
    if not stated and any(name in row for name in _WINDOWS):
        return Left("an unknown sliding window")
    shape = Attention(
        phase="prefill" if prefill else "decode",
        batch=count(row, "batch_size"),
        length=count(row, "isl") if prefill else count(row, "step") + 1,
        heads=count(row, "num_heads"),
        kv_heads=count(row, "num_key_value_heads"),
        head_dim=count(row, "head_dim"),
        window=count(row, stated) if stated else 0,
        format=products,
        cache=cache,
        source=source,
        engine=_engine(row),
    )
    if not stated and _windowed(row, shape):
        return Left("a sliding window that the table does not state")
    return shape


def mla(row: Row) -> Shape | Left:
    """The shape of a row of latent attention."""
    prefill = count(row, "step") == 0
    library, kernel = _engine(row), row["kernel_source"]
    sources = {
        "default": "tensorrt",
        "trtllm_mla": "tensorrt",
        "flash_attention": "flash3",
        "vllm_flash_attn_mla": "flash3",
        "vllm_flashmla": "flashmla",
        "triton": "triton",
        "vllm_triton_mla": "triton",
    }
    if kernel not in sources:
        return Left(f"an unknown library of latent attention: {kernel}")
    source = sources[kernel]
    products, cache = _format(row, "mla_dtype"), _format(row, "kv_cache_dtype")
    if source == "tensorrt" and cache == "fp8":
        # Before Hopper the times are those of 16 bits.
        products = cache = "fp8" if _generation(row) in ("hopper", "blackwell") else "bf16"
    absorbed = library == "sglang" and source in ("flash3", "triton")
    return Mla(
        phase="prefill" if prefill else "decode",
        batch=count(row, "batch_size"),
        length=count(row, "isl") if prefill else count(row, "step") + 1,
        heads=count(row, "num_heads"),
        format=products,
        cache=cache,
        form="absorbed" if absorbed else "expanded",
        source=source,
        engine=library,
    )


def _attention_source(kernel: str) -> str:
    if kernel in ("fa3", "flash_attention", "vllm_flash_attn_fa3", "vllm_flash_attn_fa4"):
        return "flash3"
    if kernel in ("vllm_flash_attn", "vllm_flash_attn_fa2"):
        return "flash2"
    if "triton" in kernel:
        return "triton"
    if kernel in ("torch_flow", "trtllm_mha") or "trtllm" in kernel:
        return "tensorrt"
    if "flashinfer" in kernel:
        return "flashinfer"
    raise ValueError(f"an unknown library of attention: {kernel}")


def _engine(row: Row) -> str:
    found = engine(row)
    if found not in ("sglang", "trtllm", "vllm"):
        raise ValueError(f"an unknown engine: {found}")
    return found


def _format(row: Row, column: str) -> str:
    if row[column] not in _FORMATS:
        raise ValueError(f"{column} is {row[column]!r}")
    return _FORMATS[row[column]]


def _generation(row: Row) -> str:
    system = row["system"].lower()
    known = {"a100": "ampere", "l40s": "ada", "rtx": "ada", "h1": "hopper", "h2": "hopper"}
    return next((name for word, name in known.items() if word in system), "blackwell")


def _windowed(row: Row, shape: Attention) -> bool:
    """Without a window the time would beat the peak or the memory of the data sheet."""
    system, us = row["system"].lower(), float(row["latency_us"])
    if shape.phase == "prefill":
        scores = shape.batch * shape.heads * shape.length * (shape.length + 1) / 2
        peak = next((each for word, each in _PEAKS.items() if word in system), _BLACKWELL)
        return 4 * scores * shape.head_dim > us * 1e6 * peak * (1 + (shape.format == "fp8"))
    values = 2 * shape.batch * shape.kv_heads * shape.length * shape.head_dim
    moved = values * (2 - (shape.cache == "fp8")) - _L2_BYTES
    memory = next((each for word, each in _MEMORIES.items() if word in system), 8.0)
    return moved > us * 1e6 * memory


_SHARED = ("kernel_source", "batch_size", "isl", "num_heads", "step", "kv_cache_dtype")
ATTENTION = Table("attention", (*_SHARED, "attn_dtype", "head_dim"), attention)
"""Prefill and decode of attention."""
MLA = Table("mla", (*_SHARED, "mla_dtype"), mla)
"""Prefill and decode of latent attention."""
