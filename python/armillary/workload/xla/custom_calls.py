"""Operations of custom calls: kernels of libraries, whose target has a name.

    cuBLAS, cublasLt       a product; its dimensions are in the backend's configuration
    cuDNN convolutions     as convolutions, forward and backward
    cuDNN attention        two products forward, five backward, of the scores' shape
    Pallas, Triton, others the estimate that they come with, if any; else bytes only

Here: targets that are known. Not here: instructions of XLA itself (`costs.py`).

Targets: xla/service/gpu/cublas_cudnn.cc of openxla/xla; configurations:
xla/service/gpu/backend_configs.proto there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import costs
from .costs import Cost
from .module import MOST_ELEMENTS, DamagedError, Instruction

FREE = frozenset({
    "AssumeGatherIndicesInBound", "ConcatBitcast", "AllocateBuffer", "CreateBuffer",
    "LayoutConstraint", "annotate_device_placement", "SliceToDynamic", "PadToStatic",
    "ResizeDynamic", "ShapeBarrier", "X64Combine", "X64SplitLow", "X64SplitHigh", "Pin", "Unpin",
    "xla.sdy.PropagationBarrier",
})  # fmt: skip
"""Targets that only say something of their operand, or give it another name."""
SHARDED = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.")
"""Targets of modules that are not yet split over devices."""
_CONVOLUTIONS = {
    "__cudnn$convForward": (0, 1, None),
    "__cudnn$convBiasActivationForward": (0, 1, None),
    "__cudnn$convForwardGraph": (0, 1, None),
    "__cudnn$convBackwardInput": (None, 1, 0),
    "__cudnn$convBackwardFilter": (0, None, 1),
}
"""Operands that are the input, the kernel and the output of the convolution forward; none for the
result."""
_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8", "__onednn$matmul")
_SORTS = ("__cub$DeviceRadixSort", "TopK", "__topk", "__gpu$TopK")
_ATTENTION = "__cudnn$fmha"


@dataclass(frozen=True, slots=True)
class Known:
    """Work of a custom call, and its kind of kernel; `warning` where operations are not known."""

    cost: Cost
    kernel: str
    warning: str = ""


def is_free(instruction: Instruction) -> bool:
    """Whether a custom call takes no time."""
    return instruction.get("target", "") in FREE


def of(instruction: Instruction, operands: list[Instruction]) -> Known:
    """Work of a custom call. Raises `DamagedError` for one that does not hold together."""
    target: str = instruction.get("target", "")
    config = _config(instruction)
    results = instruction.shape.arrays()
    size = sum(each.shape.bytes for each in operands) + sum(each.bytes for each in results)
    kernel, operations = "other", None
    estimate = _estimate(config)
    if estimate is not None:
        found = estimate.touching(estimate.bytes or size)
        return Known(found, "attention" if "attention" in instruction.op_name else "other")
    if target in _PRODUCTS:
        kernel, operations = "gemm", _product(instruction, operands, config)
    elif target in _CONVOLUTIONS:
        kernel, operations = "convolution", _convolution(instruction, operands)
    elif target.startswith(_ATTENTION):
        kernel, operations = "attention", _attention(instruction, operands, config)
    elif target in _SORTS and operands:
        count = operands[0].shape.elements
        operations = count * max(0, count - 1).bit_length()
    if operations is None:
        said = f"operations of the custom call {target or instruction.name!r} are not known"
        return Known(Cost(0, 0, size), kernel, said)
    return Known(Cost(operations, 0, size), kernel)


def _config(instruction: Instruction) -> Mapping[str, Any]:
    """The configuration for the backend; empty where it is none in JSON."""
    text = instruction.get("config", "")
    if not text.startswith("{") or len(text) > 2**22:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _inside(config: Mapping[str, Any], *keys: str) -> object:
    """The value under some keys, one below the other; none where one is missing."""
    found: object = config
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _natural(value: object) -> int | None:
    """A whole number, also as text, as JSON of protobuf has those of 64 bits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_ELEMENTS
    return value if sound and isinstance(value, int) else None


def _naturals(values: object) -> list[int] | None:
    found = [_natural(each) for each in values] if isinstance(values, list) else [None]
    whole = [each for each in found if each is not None]
    return whole if len(whole) == len(found) else None


def _estimate(config: Mapping[str, Any]) -> Cost | None:
    """The estimate that a Pallas kernel may come with."""
    for keys in (("custom_call_config", "cost_estimate"), ("cost_estimate",)):
        found = _inside(config, *keys)
        if isinstance(found, dict):
            names = ("flops", "transcendentals", "bytes_accessed")
            return Cost(*(_natural(found.get(name, 0)) or 0 for name in names))
    return None


def _product(
    instruction: Instruction, operands: list[Instruction], config: Mapping[str, Any]
) -> int | None:
    results = instruction.shape.arrays()
    if len(operands) < 2 or not results:
        return None
    left = operands[0].shape.dims
    along = _naturals(
        _inside(
            config, "gemm_backend_config", "dot_dimension_numbers", "lhs_contracting_dimensions"
        )
    )
    if along is None and instruction.get("target") == "__onednn$matmul" and left:
        along = [len(left) - 1]
    if not along or any(each >= len(left) for each in along):
        return None
    return 2 * results[0].elements * math.prod(left[each] for each in along)


def _convolution(instruction: Instruction, operands: list[Instruction]) -> int | None:
    results = instruction.shape.arrays()
    places = _CONVOLUTIONS[instruction.get("target")]
    if not results or any(each is not None and each >= len(operands) for each in places):
        return None
    sides = [results[0] if each is None else operands[each].shape for each in places]
    try:
        return costs.convolution(instruction, instruction.get("labels"), *sides)
    except DamagedError:
        return None


def _attention(
    instruction: Instruction, operands: list[Instruction], config: Mapping[str, Any]
) -> int | None:
    scores = _naturals(
        _inside(config, "cudnn_fmha_backend_config", "intermediate_tensor_shape", "dimensions")
    )
    if not scores or len(scores) != 4 or not operands or not operands[0].shape.dims:
        return None
    products = 5 if instruction.get("target", "").endswith("Backward") else 2
    whole = 2 * products * math.prod(scores) * operands[0].shape.dims[-1]
    mask = _inside(config, "cudnn_fmha_backend_config", "mask_type")
    return whole // 2 if isinstance(mask, str) and "CAUSAL" in mask else whole
