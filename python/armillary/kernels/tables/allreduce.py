"""Tables of measured all-reduces of engines (aiconfigurator's `custom_allreduce_perf`)."""

from __future__ import annotations

from ..shapes import Allreduce
from .rows import Left, Row, Table, count, engine

_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4}
_JIT_FROM = (0, 5, 12)
"""Version of SGLang whose kernels are compiled when it starts."""


def shape(row: Row) -> Allreduce | Left:
    """The all-reduce that a row states; `message_size` counts elements.

    Raises:
        ValueError: a value that is not a count.
    """
    element, source = _BYTES.get(row["allreduce_dtype"]), row["kernel_source"]
    if element is None:
        return Left(f"all-reduces of {row['allreduce_dtype']}")
    library = "trtllm" if source == "TRTLLM" else engine(row)
    if library == "sglang" and _version(row.get("ver", "")) >= _JIT_FROM:
        library = "sglang_jit"
    if library not in ("trtllm", "vllm", "sglang", "sglang_jit"):
        return Left(f"all-reduces of {library}")
    return Allreduce(
        bytes=element * count(row, "message_size"),
        members=count(row, "num_gpus"),
        library=library,
        launch="eager" if source.endswith("_eager") else "graph",
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


ALLREDUCE = Table(
    "allreduce",
    ("allreduce_dtype", "num_gpus", "message_size", "kernel_source"),
    shape,
)
