"""Catches calls of reference code that a fused kernel stands for.

Here: PyTorch's `scaled_dot_product_attention`, attention and masks of `transformers`, and its
functions that have a fused kernel elsewhere (mamba-ssm, flash-linear-attention, causal-conv1d). Not
here: the kernels (`fused.py`), rules for whole classes (`classes.py`)."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from . import fused
from .classes import RULES
from .fused import Log, Mask
from .layers import LAYERS

NAME = "armillary"
"""The name of our attention among those of `transformers`."""

_MASK = "_armillary_mask"
"""The attribute of a mask with what it hides."""

_log: ContextVar[Log] = ContextVar("log")
"""The log of the capture at work, which takes operations."""


class SortedSet(set[Any]):
    """A set that is read in order. Models loop over sets of words, such as the kinds of their
    layers, and Python's order of words differs from process to process."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=repr))


@contextmanager
def catching(module: torch.nn.Module, log: Log) -> Iterator[None]:
    """Puts fused kernels in place of reference code while `module` runs."""
    with ExitStack() as stack:
        token = _log.set(log)
        stack.callback(_log.reset, token)
        for name in sorted({type(each).__module__ for each in module.modules()}):
            for place, function, stand in _stands(sys.modules[name]):
                stack.enter_context(mock.patch.object(place, function, stand))
            if name.startswith("transformers."):
                own = mock.patch.object(sys.modules[name], "set", SortedSet, create=True)
                stack.enter_context(own)
        for each in module.modules():
            for attribute, value in vars(each).items():
                if type(value) is set and not attribute.startswith("_"):
                    stack.enter_context(mock.patch.object(each, attribute, SortedSet(value)))
            rule = RULES.get(type(each).__qualname__)
            if rule and type(each).__module__.startswith("transformers."):
                stand = functools.partial(rule, each)
                stack.enter_context(mock.patch.object(each, "forward", stand))
            inner = LAYERS.get(type(each).__qualname__)
            if inner and type(each).__module__.startswith(("transformers.", "torch.nn.")):
                stand = functools.partial(inner, each, log)
                stack.enter_context(mock.patch.object(each, "forward", stand))
        if "transformers" in sys.modules:
            _one_sequence_each(stack)
            # Numbers of placeholders among tokens are not compared with those of images.
            stack.enter_context(mock.patch.dict(os.environ, TRANSFORMERS_DISABLE_TORCH_CHECK="1"))
        # PyTorch's own modules call it by this name, and others may have imported it before.
        name = "scaled_dot_product_attention"
        stack.enter_context(mock.patch.object(functional, name, _scaled_dot_product))
        stack.enter_context(_Functions())
        yield


def _one_sequence_each(stack: ExitStack) -> None:
    """Keeps masks of `transformers` from values that tensors would have: each sample is one
    sequence, without padding."""
    from transformers import masking_utils as place

    overlay = place.chunked_overlay

    def chunked(chunk_size: int, left_padding: torch.Tensor) -> Any:
        with _disable_current_modes():
            return overlay(chunk_size, torch.zeros(left_padding.shape, dtype=torch.long))

    stack.enter_context(mock.patch.object(place, "chunked_overlay", chunked))
    stack.enter_context(
        mock.patch.object(place, "find_packed_sequence_indices", lambda position_ids: None)
    )


_SCALED_DOT_PRODUCT = functional.scaled_dot_product_attention


class _Functions(TorchFunctionMode):
    """Catches PyTorch's own attention, and draws that decide whether a layer is dropped."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is _SCALED_DOT_PRODUCT:
            return _scaled_dot_product(*args, **kwargs)
        if func is torch.rand and args in (([],), ((),)) and not kwargs:
            # One drawn number, by which a layer is dropped: none is.
            return torch.tensor(1.0)
        return func(*args, **kwargs)


def _scaled_dot_product(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As PyTorch's. A mask that is given hides what it hides, but costs the whole square."""
    bias = [attn_mask] if attn_mask is not None and attn_mask.requires_grad else []
    kernel = fused.attention(query, key, value, Mask(causal=is_causal))
    return fused.run(kernel, _log.get(), [query, key, value, *bias])[0]


def register() -> None:
    """Makes our attention known to `transformers`, which must be installed."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as modules of `transformers` call it: batch x heads x tokens x width to batch x
    tokens x heads x width."""
    seen: Mask | None = getattr(attention_mask, _MASK, None)
    if seen is None:
        causal = options.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        seen = Mask(bool(causal), int(options.get("sliding_window") or 0))
    chosen = options.get("indices")
    if isinstance(chosen, torch.Tensor):
        seen = Mask(seen.causal, seen.window, seen.chunked, int(chosen.shape[-1]))
    learned = [
        each for each in options.values() if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    kernel = fused.attention(query, key, value, seen, tokens_first=True)
    result = fused.run(kernel, _log.get(), [query, key, value, *learned])[0]
    return result.transpose(1, 2), None


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: Callable[..., torch.Tensor],
    local_size: int | None = None,
    device: torch.device | None = None,
    **others: Any,
) -> torch.Tensor:
    """A mask without content that knows what it hides. That is found by asking for a few rows."""

    def seen(row: int) -> int:
        with _disable_current_modes():
            place = torch.tensor(0)
            keys = torch.arange(kv_length)
            found = mask_function(place, place, torch.tensor(row), keys)
            return int(torch.as_tensor(found).expand(kv_length).sum())

    causal = q_length > 1 and seen(0) == 1
    window = local_size if local_size and local_size < kv_length else 0
    chunked = bool(causal and window > 1 and seen(window) == 1)
    made = torch.empty((batch_size, 1, q_length, kv_length), dtype=torch.bool, device=device)
    setattr(made, _MASK, Mask(causal, window, chunked))
    return made


def _causal_conv1d(
    hidden_states: torch.Tensor, weight: torch.Tensor, *rest: Any, **more: Any
) -> Any:
    others = _tensors(rest, more)
    kernel = fused.convolution(hidden_states, weight)
    return fused.run(kernel, _log.get(), [hidden_states, weight, *others])[0]


def _delta_rule(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **more: Any
) -> Any:
    chunk = more.get("chunk_size") or 64
    kernel = fused.delta_rule(query, key, value, int(chunk))
    others = _tensors(rest, more)
    return fused.run(kernel, _log.get(), [query, key, value, *others])[0], None


def _mamba2(
    hidden_states: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *rest: Any,
    chunk_size: int | None = None,
    return_final_states: bool = False,
    **more: Any,
) -> Any:
    chunk = chunk_size if chunk_size is not None else int(rest[0])
    kernel = fused.mamba2(hidden_states, B, chunk)
    others = _tensors(rest, more)
    result = fused.run(kernel, _log.get(), [hidden_states, dt, A, B, C, *others])[0]
    return (result, None) if return_final_states else result


def _mamba1(
    hidden_states: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    *rest: Any,
    return_last_state: bool = False,
    **more: Any,
) -> Any:
    kernel = fused.mamba1(hidden_states, A)
    others = _tensors(rest, more)
    result = fused.run(kernel, _log.get(), [hidden_states, dt, A, *others])[0]
    return (result, None) if return_last_state else result


def _tensors(rest: tuple[Any, ...], more: Mapping[str, Any]) -> list[torch.Tensor]:
    return [each for each in (*rest, *more.values()) if isinstance(each, torch.Tensor)]


_STANDS: dict[str, Callable[..., Any]] = {
    "causal_conv1d_fn": _causal_conv1d,
    "chunk_gated_delta_rule": _delta_rule,
    "chunk_kda": _delta_rule,
    "mamba_chunk_scan_combined": _mamba2,
    "selective_scan_fn": _mamba1,
}
"""Stands for functions of `transformers`, by the names of their fused kernels."""


def _stands(place: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Functions of a module of `transformers` that have a fused kernel, with what stands for
    them."""
    for name, value in tuple(vars(place).items()):
        if inspect.isfunction(value) and value.__closure__:
            called = inspect.getclosurevars(value).nonlocals.get("func_name")
            if called in _STANDS:
                yield place, name, _STANDS[called]
