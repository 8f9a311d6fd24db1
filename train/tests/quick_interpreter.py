"""Triton's interpreter without work that it repeats for each operation, in half of the time.

What an operation computes stays Triton's own: only types and shapes are kept, and functions of the
language are replaced once."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
from triton.language import core, semantic
from triton.runtime import interpreter

_patched: set[str] = set()
_patch = interpreter._patch_lang


def _patch_once(function: Any) -> Any:  # noqa: ANN401
    """Replaces the functions of the language that a kernel sees. They stay replaced."""
    if function.__module__ not in _patched:
        _patched.add(function.__module__)
        _patch(function)
    return SimpleNamespace(restore=lambda: None)


def _call(function: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """Calls what a kernel calls. Triton would replace all functions of its language again for each
    call: the start of a kernel has done so, and those that only functions of Triton's own modules
    see stay replaced."""
    _patch_once(function.fn)
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


_broadcast = semantic.TritonSemantic.broadcast_impl_value


def _broadcast_if_needed(language: Any, one: Any, other: Any) -> Any:  # noqa: ANN401
    """Two tensors as tensors of one shape."""
    if one.shape is other.shape:
        return one, other
    return _broadcast(language, one, other)


_SIMPLE = {"int1", "int32", "int64", "fp32"}
"""Types whose operations, also divisions, are computed in the type itself."""

_check = semantic.TritonSemantic.binary_op_type_checking_impl


def _check_if_needed(language: Any, one: Any, other: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """Two operands as tensors of one type and shape."""
    if isinstance(one, core.tensor) and isinstance(other, core.tensor):
        name = one.dtype.name
        if name == other.dtype.name and name in _SIMPLE:
            return _broadcast_if_needed(language, one, other)
    return _check(language, one, other, *given, **named)


_constants: dict[tuple[Any, str], Any] = {}
_constant = semantic.TritonSemantic.scalar_constant


def _constant_kept(language: Any, value: Any, dtype: Any) -> Any:  # noqa: ANN401
    """A number as a tensor."""
    found = _constants.get((value, dtype.name))
    if found is None:
        found = _constants[value, dtype.name] = _constant(language, value, dtype)
    return found


def use() -> None:
    """Makes kernels of this process run so."""
    interpreter.InterpretedFunction.__call__ = _call
    interpreter._patch_lang = _patch_once
    interpreter.TensorHandle.__post_init__ = lambda handle: None
    semantic.TritonSemantic.broadcast_impl_value = _broadcast_if_needed
    semantic.TritonSemantic.binary_op_type_checking_impl = _check_if_needed
    semantic.TritonSemantic.scalar_constant = _constant_kept
    interpreter._get_np_dtype = _of_numpy_kept
    core.block_type.with_element_ty = _with_element_kept
    core.block_type.to_ir = _to_ir_kept
    core.tuple.__eq__ = _equal
    core._unwrap_shape = _plain
    core.tensor.__init__ = _make
