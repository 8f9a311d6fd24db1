"""Training without PyTorch's compiler, which takes longer to load (2 s) than PyTorch itself.

Here: what keeps it away until someone compiles. PyTorch's own ways of hiding a function from its
compiler load it at once; its optimizers do so in their first call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_HIDDEN = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def opaque(function: Callable[P, R]) -> Callable[P, R]:
    """A function that `torch.compile` calls and does not look into."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            hidden: Callable[P, R] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return hidden(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def uncompiled(optimizer: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """An optimizer of PyTorch that is never compiled: its methods as they are written."""
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in _HIDDEN}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), {**methods, "step": step})
