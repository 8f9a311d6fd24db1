"""Operators of PyTorch: those that start a kernel, their kinds, operations and bytes.

Not here: fused kernels that replace reference code (`fused.py`). Matrix products are counted by
their sizes, convolutions by PyTorch's own formulas (`torch.utils.flop_counter`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from .passes import PASSES
from .records import Kind, Product

_QUIET = {
    "_unsafe_view",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "lift_fresh",
    "lift_fresh_copy",
    "new_empty",
    "new_empty_strided",
    "set_",
    "squeeze_",
    "resize_",
}
"""Operators that start no kernel, although PyTorch does not mark them as views."""

_GATHERS = {
    "_index_put_impl_": 1,
    "embedding": 1,
    "embedding_dense_backward": 0,
    "gather": 1,
    "index": 1,
    "index_add": 2,
    "index_add_": 2,
    "index_put": 2,
    "index_put_": 2,
    "index_select": 1,
    "scatter": 2,
    "scatter_": 2,
    "scatter_add": 2,
    "scatter_add_": 2,
    "take_along_dim": 1,
}
"""Operators that move the rows that an index names, and how often they read or write each of them
next to what they give; 0: they write the whole result, and read rows."""


def name(operator: torch._ops.OpOverload) -> str:
    """PyTorch's name without namespace and overload."""
    return str(operator.overloadpacket.__name__)


def starts_kernel(operator: torch._ops.OpOverload) -> bool:
    """Whether it starts a kernel. Views and allocations do not."""
    return not operator.is_view and name(operator) not in _QUIET


def is_a_pass(operator: torch._ops.OpOverload) -> bool:
    """Whether it only passes over its tensors: each element is read, changed, summed or moved."""
    return (
        torch.Tag.pointwise in operator.tags
        or name(operator) in PASSES
        or name(operator) in _GATHERS
    )


def kind(called: str) -> Kind:
    """The kind of an operator by its name."""
    if called in _PRODUCTS:
        return "grouped_matmul" if called in _GROUPED else "matmul"
    if called.startswith(("convolution", "_convolution")):
        return "convolution"
    if "attention" in called:
        return "attention"
    return "gather" if called in _GATHERS else "elementwise"


def product(called: str, args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product | None:
    """Sizes of a matrix product; None for another operator. `given` are its results."""
    find = _PRODUCTS.get(called)
    return find(args, given) if find else None


def product_flops(called: str, found: Product, args: Sequence[Any]) -> int:
    """Operations of the matrix product `found`. In a grouped one each row counts once, whatever
    expert has it."""
    if called not in _GROUPED:
        return found.flops
    a, b = args[0], args[1]
    return 2 * int(a.numel()) * int(b.shape[-1])


def flops(
    operator: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: object
) -> int:
    """Operations by PyTorch's own formulas; 0 where it has none."""
    count = flop_registry.get(operator.overloadpacket)
    return int(count(*args, **kwargs, out_val=result)) if count else 0


def moved(called: str, reads: Sequence[int], writes: Sequence[int], rows: int) -> int:
    """Bytes that an operator moves, from those of the tensors that it reads and writes. `rows` are
    the bytes of the rows that an index names."""
    times = _GATHERS.get(called)
    if times is None:
        return sum(reads) + sum(writes)
    return sum(writes) + rows if times == 0 else (times + 1) * rows


def rows(called: str, args: Sequence[Any], given: Sequence[torch.Tensor]) -> int:
    """Bytes of the rows that an index names."""
    if called not in _GATHERS:
        return 0
    if called == "embedding_dense_backward":
        part = args[0]
    elif called.startswith(("scatter", "index_add")):
        part = args[3] if isinstance(args[3], torch.Tensor) else args[2]
    elif "index_put" in called:
        part = args[2]
    else:
        part = given[0]
    return int(part.numel() * part.element_size())


def _mm(args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product:
    a, b = args[0], args[1]
    return Product(a.shape[0], b.shape[1], a.shape[1])


def _addmm(args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product:
    return _mm(args[1:], given)


def _bmm(args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product:
    a, b = args[0], args[1]
    return Product(a.shape[1], b.shape[2], a.shape[2], a.shape[0])


def _baddbmm(args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product:
    return _bmm(args[1:], given)


def _grouped(args: Sequence[Any], given: Sequence[torch.Tensor]) -> Product:
    """Rows of one matrix for each group, or sums over the rows of each group. An even share of the
    rows, rounded up, counts for each."""
    a, b = args[0], args[1]
    if b.dim() == 3:
        groups = b.shape[0]
        return Product(-(-a.shape[0] // groups), b.shape[2], a.shape[1], groups)
    groups = given[0].shape[0]
    return Product(a.shape[0], b.shape[1], -(-a.shape[1] // groups), groups)


_GROUPED = {"_grouped_mm", "grouped_mm", "grouped_mm_fallback"}
_PRODUCTS: dict[str, Callable[[Sequence[Any], Sequence[torch.Tensor]], Product]] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    **dict.fromkeys(_GROUPED, _grouped),
}
