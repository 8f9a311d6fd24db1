"""Weights in fewer bits, for smaller checkpoints (Eisenman et al., Check-N-Run, NSDI 2022, section
5.2: training goes on in full precision; only what is stored is rounded).

`fp16`: float16. `int8`: a row becomes 256 steps between its least and its largest weight, with a
scale and an offset in float32. State of the optimizer keeps its bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST = float(np.finfo(np.float16).max)


def parts_of(dtype: str, dim: int, precision: str | None) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Stored form of weights of safetensors' type `dtype`: names, types and shapes of a row. Rows
    of integers are stored as they are, and 16-bit rows as they are or as int8."""
    if precision == "int8" and dtype in ("F32", "F16", "BF16"):
        return {"weight": ("U8", (dim,)), "scale": ("F32", ()), "offset": ("F32", ())}
    if precision == "fp16" and dtype == "F32":
        return {"weight": ("F16", (dim,))}
    return {"weight": (dtype, (dim,))}


def encode(weight: NDArray[Any], dtype: str, precision: str | None) -> dict[str, NDArray[Any]]:
    """Rows as they are stored. `weight` [rows, dim] of safetensors' type `dtype`."""
    kinds = parts_of(dtype, weight.shape[1], precision)
    if "scale" in kinds:
        values = widen(weight, dtype)
        least = values.min(1, initial=np.inf) if values.shape[1] else np.zeros(len(values))
        scale = ((values.max(1, initial=-np.inf) - least) / 255).astype(np.float32)
        safe = np.where(scale > 0, scale, 1)[:, None]
        steps = np.rint((values - least[:, None]) / safe)
        steps = np.clip(np.nan_to_num(steps), 0, 255).astype(np.uint8)
        return {"weight": steps, "scale": scale, "offset": least.astype(np.float32)}
    if kinds["weight"][0] != dtype:
        return {"weight": np.clip(weight, -_LARGEST, _LARGEST).astype(np.float16)}
    return {"weight": weight}


def decode(stored: dict[str, NDArray[Any]], kind: str, dtype: str) -> NDArray[Any]:
    """Rows of `dtype` from what is stored with elements of type `kind`."""
    weight = stored["weight"]
    if "scale" in stored:
        values = weight * stored["scale"][:, None] + stored["offset"][:, None]
        return narrow(values.astype(np.float32), dtype)
    if kind == dtype:
        return weight
    return narrow(widen(weight, kind), dtype)


def widen(values: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """Elements as float32. Those of bfloat16 come as their bits."""
    if dtype == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def narrow(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Elements of float32 as `dtype`, rounded to the nearest, ties to even."""
    if dtype == "BF16":
        bits = values.view(np.uint32)
        rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
        return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)
    return values.astype(np.float16) if dtype == "F16" else values
