"""Triton's interpreter without work that it repeats for each operation, in half of the time.

What an operation computes stays Triton's own: only types and shapes are kept, and functions of the
language are replaced once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from triton.language import core
from triton.runtime import interpreter

_patched: set[str] = set()


def _call(function: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """Calls what a kernel calls. Triton would replace all functions of its language again for each
    call: the start of a kernel has done so, and those that only functions of Triton's own modules
    see stay replaced."""
    if function.fn.__module__ not in _patched:
        _patched.add(function.fn.__module__)
        interpreter._patch_lang(function.fn)
    return function.rewrite()(*given, **named)


def _plain(shape: Any) -> list[Any]:  # noqa: ANN401
    """Sizes of a shape, which may be constants of the language."""
    shape = getattr(shape, "value", shape)
    return [getattr(size, "value", size) for size in shape]


@functools.cache
def _shape(sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """A tensor's shape and number of elements, as constants of the language."""
    shape = core.tuple([core.constexpr(size) for size in sizes])
    return shape, core.constexpr(int(np.prod(sizes)))


def _make(tensor: Any, handle: Any, type: Any) -> None:  # noqa: ANN401
    """A tensor of this type."""
    tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
    sizes = tuple(type.shape.values) if type.is_block() else ()
    tensor.shape, tensor.numel = _shape(sizes)


_types: dict[tuple[str, str], Any] = {}
_with_element = core.block_type.with_element_ty


def _with_element_kept(block: Any, scalar: Any) -> Any:  # noqa: ANN401
    """A type of this shape with other elements."""
    found = _types.get((block.name, scalar.name))
    if found is None:
        found = _types[block.name, scalar.name] = _with_element(block, scalar)
    return found


_blocks: dict[str, Any] = {}
_to_ir = core.block_type.to_ir


def _to_ir_kept(block: Any, builder: Any) -> Any:  # noqa: ANN401
    """The interpreter's own type for this one."""
    found = _blocks.get(block.name)
    if found is None:
        found = _blocks[block.name] = _to_ir(block, builder)
    return found


def _equal(one: Any, other: Any) -> Any:  # noqa: ANN401
    """Whether two tuples of the language, or one and a list, have the same values."""
    return core.constexpr(one.values == _plain(getattr(other, "values", other)))


_of_numpy: dict[str, Any] = {}
_find_numpy = interpreter._get_np_dtype


def _of_numpy_kept(type: Any) -> Any:  # noqa: ANN401
    """NumPy's type for one of the language."""
    found = _of_numpy.get(type.name)
    if found is None:
        found = _of_numpy[type.name] = _find_numpy(type)
    return found


def use() -> None:
    """Makes kernels of this process run so."""
    interpreter.InterpretedFunction.__call__ = _call
    interpreter._get_np_dtype = _of_numpy_kept
    core.block_type.with_element_ty = _with_element_kept
    core.block_type.to_ir = _to_ir_kept
    core.tuple.__eq__ = _equal
    core._unwrap_shape = _plain
    core.tensor.__init__ = _make
