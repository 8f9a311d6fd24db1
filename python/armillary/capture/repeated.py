"""Runs each kind of repeated module once.

Here: which modules of a list are alike, and what stands for those that are. Two modules are alike
where their classes, parameters, settings and inputs are. Settings that hold one value for each
layer (`layer_types`) count with the value of the layer. The number of a layer does not count."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as trees

from .records import Block, Buffer
from .tensors import Memories, bytes_of

Begins = Callable[[str], None]
"""Called with the path of a module that is about to run."""


class Repeats:
    """The lists of modules in a module, and which of their members were run."""

    def __init__(self, module: torch.nn.Module, memories: Memories) -> None:
        self.memories = memories
        self.alike: dict[str, list[str]] = {}
        """Paths of modules that do the same, by the path of the one that ran."""
        self.order: list[tuple[str, str]] = []
        """For each call of a member, the path of the one that ran for it, and its own."""
        self.entering: dict[str, tuple[int, int]] = {}
        """Bytes and memory of the first tensor that enters a module that ran."""
        self.stood: set[str] = set()
        """Paths of modules that others stood for, where a gradient may come."""
        self.reached: set[str] = set()
        """Those of them that got one."""
        self._members = dict(_members(module))
        self._ran: dict[object, tuple[str, Any]] = {}

    @contextmanager
    def once(self) -> Iterator[None]:
        """Lets modules that are like one that ran before return what fits, without running."""
        before = {path: member.forward for path, (member, _) in self._members.items()}
        for path, (member, at) in self._members.items():
            member.forward = self._run_once(path, member, at, before[path])
        try:
            yield
        finally:
            for member, _ in self._members.values():
                vars(member).pop("forward", None)

    def _run_once(
        self, path: str, member: torch.nn.Module, at: tuple[int, int], forward: Callable[..., Any]
    ) -> Callable[..., Any]:
        settings = _settings(member, *at)

        def run(*args: Any, **kwargs: Any) -> Any:
            key = settings, _shapes((args, kwargs))
            if key in self._ran:
                first, result = self._ran[key]
                given = _passed(args, kwargs, result)
                if given is not None:
                    self.alike[first].append(path)
                    self.order.append((first, path))
                    return self._noted(given, result, path)
            result = forward(*args, **kwargs)
            self._ran.setdefault(key, (path, result))
            self.alike.setdefault(path, [path])
            self.order.append((path, path))
            first_input = _first_tensor(args, kwargs)
            if first_input is not None:
                memory = self.memories.number(first_input)
                self.entering[path] = bytes_of(first_input), memory
            return result

        return run

    def _noted(self, given: Any, result: Any, path: str) -> Any:
        """The result of a module that the one with `result` stands for, with a note of it where a
        gradient comes. Without a note where another one of its results may have a gradient."""
        first = given if isinstance(given, torch.Tensor) else given[0]
        wanted = [each for each in trees.tree_leaves(result) if getattr(each, "requires_grad", 0)]
        if not first.requires_grad or len(wanted) > 1 or not torch.is_grad_enabled():
            return given
        self.stood.add(path)
        noted = _Noted.apply(first, self.reached, path)
        return noted if isinstance(given, torch.Tensor) else type(given)([noted, *given[1:]])


class _Noted(torch.autograd.Function):
    """The same tensor, in the same memory. Its gradient notes a path."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, reached: set[str], path: str) -> torch.Tensor:
        ctx.reached, ctx.path = reached, path
        return given.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.reached.add(ctx.path)
        return gradients[0], None, None


def without_gradient(block: Block, modules: Sequence[str]) -> Block:
    """A block of `modules` that do the same as those of `block` in the forward pass, and nothing in
    the backward pass: their results are not used."""
    old, new = block.modules[0], modules[0]

    def moved(path: str) -> str:
        return new + path.removeprefix(old) if f"{path}.".startswith(f"{old}.") else path

    def buffers(given: Sequence[Buffer]) -> tuple[Buffer, ...]:
        return tuple(replace(each, parameter=moved(each.parameter)) for each in given)

    operations = [
        replace(
            each,
            module=moved(each.module),
            reads=buffers(each.reads),
            writes=buffers(each.writes),
            saved_in=(),
        )
        for each in block.operations
        if not each.backward
    ]
    return replace(block, modules=tuple(modules), operations=tuple(operations), saved=())


def _members(
    module: torch.nn.Module,
) -> Iterator[tuple[str, tuple[torch.nn.Module, tuple[int, int]]]]:
    """Members of lists that hold several modules of one class, but not those inside of another
    such list, with their place and the length of the list."""
    inside: list[str] = []
    for path, found in module.named_modules():
        listed = list(found.named_children()) if _is_list(found) else []
        if any(not outer or path.startswith(f"{outer}.") for outer in inside):
            continue
        classes = {type(each) for _, each in listed}
        if len(classes) == len(listed) or next(listed[0][1].parameters(), None) is None:
            continue
        inside.append(path)
        for at, (name, member) in enumerate(listed):
            yield f"{path}.{name}" if path else name, (member, (at, len(listed)))


def _is_list(module: torch.nn.Module) -> bool:
    """Whether its members are layers by number. Those of torchtitan are in a `ModuleDict`."""
    if isinstance(module, torch.nn.ModuleDict):
        return all(name.isdecimal() for name in module)
    return isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)


_OWN = set(vars(torch.nn.Module()))
"""Attributes of every module: parameters and modules inside, and hooks."""
_NUMBERS = {"layer_idx", "layer_id", "layer_number", "idx", "index"}
"""Attributes that number a layer."""


def _settings(module: torch.nn.Module, at: int, length: int) -> object:
    """Class, parameters and settings of a module and all inside it."""
    parts = []
    for path, inner in module.named_modules():
        plain = sorted(
            (name, _value(value))
            for name, value in vars(inner).items()
            if name not in _OWN and name not in _NUMBERS
        )
        parts.append((path, type(inner).__qualname__, tuple(plain)))
    shapes = [
        (name, tuple(each.shape), str(each.dtype), each.requires_grad)
        for name, each in module.named_parameters()
    ]
    return tuple(parts), tuple(shapes), _of_layer(module, at, length)


def _value(value: object) -> str:
    """A setting as text. Functions and other objects are alike where they are one object."""
    if isinstance(value, torch.Tensor):
        value = (tuple(value.shape), value.dtype)
    if isinstance(value, functools.partial):
        value = (value.func, value.args, value.keywords)
    if isinstance(value, list | tuple | set | frozenset):
        return f"{type(value).__name__}({', '.join(map(_value, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_value(each)}' for key, each in value.items())}}}"
    if isinstance(value, bool | int | float | str | torch.dtype | torch.device | None):
        return repr(value)
    if inspect.ismethod(value) and isinstance(value.__self__, torch.nn.Module):
        value = value.__func__
    return f"object {id(value)}"


def _of_layer(module: torch.nn.Module, at: int, length: int) -> object:
    """Settings that a configuration has for this layer alone."""
    configs = {id(each.config): each.config for each in module.modules() if hasattr(each, "config")}
    found = []
    for config in configs.values():
        for name, value in sorted(vars(config).items()):
            if not isinstance(value, list | tuple):
                continue
            if _are_numbers(value):
                found.append((name, str(at in value)))
            elif len(value) == length:
                found.append((name, repr(value[at])))
    return tuple(found)


def _are_numbers(values: Sequence[object]) -> bool:
    """Whether a list holds numbers of layers, in their order."""
    numbers = [each for each in values if isinstance(each, int) and not isinstance(each, bool)]
    return len(numbers) == len(values) > 1 and numbers == sorted(set(numbers))


def _shapes(values: Any) -> object:
    """Shapes and formats of tensors, and plain values, without numbers of layers."""
    leaves, spec = trees.tree_flatten(values)
    shown = [
        (
            tuple(each.shape),
            str(each.dtype),
            each.requires_grad,
            repr(getattr(each, "_armillary_mask", "")),
        )
        if isinstance(each, torch.Tensor)
        else each
        if isinstance(each, bool | int | float | str | None)
        else id(each)
        for each in leaves
    ]
    return tuple(shown), str(spec)


def _first_tensor(args: Any, kwargs: Any) -> torch.Tensor | None:
    leaves = trees.tree_leaves((args, kwargs))
    return next((each for each in leaves if isinstance(each, torch.Tensor)), None)


def _passed(args: Any, kwargs: Any, result: Any) -> Any:
    """The result of a module that stands in the place of one that returned `result`: its first
    input in place of the first result. None where their shapes differ, or only one of them has a
    gradient."""
    given = _first_tensor(args, kwargs)
    first = result[0] if isinstance(result, tuple | list) and result else result
    if not (isinstance(first, torch.Tensor) and given is not None):
        return None
    if (first.shape, first.dtype) != (given.shape, given.dtype):
        return None
    if first.requires_grad != given.requires_grad:
        # Later modules would get a gradient where the module itself gives none, or none at all.
        return None
    if isinstance(result, torch.Tensor):
        return given
    rest = [each.detach() if isinstance(each, torch.Tensor) else each for each in result[1:]]
    return type(result)([given, *rest])
