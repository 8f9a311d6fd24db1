"""Captures a training step of a module: shapes without data go through it, forward and backward.

Here: the order of the steps, and what an error becomes. Not here: how operations are recorded
(`recorder.py`)."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.nn.modules import module as hooks
from torch.utils import _pytree as trees

from ..errors import InputError, Problem
from .catching import catching
from .parameter_counts import Parameters
from .recorder import Recorder
from .records import Block
from .repeated import Repeats
from .result import Capture
from .tensors import Memories

Inputs = Mapping[str, Any] | Sequence[Any] | torch.Tensor
"""Inputs of a module: by name, in order, or a single tensor. Their values are not used."""


def record(
    module: torch.nn.Module,
    inputs: Inputs,
    loss: Callable[[Any], torch.Tensor] | None,
    name: str,
    part: str = "",
    warnings: Sequence[str] = (),
) -> Capture:
    """Captures one training step of `module`, or of the `part` of it that takes the inputs. Raises
    `InputError` where it stops."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    copied = copy.deepcopy(module, _without_data(fake, module))
    args, kwargs = _faked(fake, inputs)
    memories = Memories()
    for path, each in copied.named_parameters():
        memories.name(each, path)
    for path, buffer in copied.named_buffers():
        memories.name(buffer, path)
    parameters = Parameters.of(copied)
    recorder, repeats = Recorder(memories), Repeats(copied)
    try:
        _step(fake, recorder, repeats, copied, part, args, kwargs, loss)
    except InputError:
        raise
    except Exception as error:
        raise InputError([_stopped(error, recorder.stopped, module, name)]) from error
    return _capture(name, parameters, recorder, repeats, warnings)


def _without_data(fake: FakeTensorMode, module: torch.nn.Module) -> dict[int, Any]:
    """Tensors without data for those of a module, by their identities, for copies of it."""
    found: dict[int, Any] = {}
    tensors: list[torch.Tensor] = [*module.parameters(), *module.buffers()]
    for each in tensors:
        made = fake.from_tensor(each)
        is_parameter = isinstance(each, torch.nn.Parameter)
        found[id(each)] = torch.nn.Parameter(made, each.requires_grad) if is_parameter else made
    return found


def _faked(fake: FakeTensorMode, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named inputs, without data."""
    made = trees.tree_map_only(torch.Tensor, fake.from_tensor, inputs)
    if isinstance(made, Mapping):
        return (), dict(made)
    return ((made,) if isinstance(made, torch.Tensor) else tuple(made)), {}


def _step(
    fake: FakeTensorMode,
    recorder: Recorder,
    repeats: Repeats,
    module: torch.nn.Module,
    part: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    loss: Callable[[Any], torch.Tensor] | None,
) -> None:
    """One forward and one backward pass."""
    before = sys.exc_info()[1]
    paths = {id(each): path for path, each in module.named_modules()}

    def enter(each: torch.nn.Module, _: object) -> None:
        recorder.path.append(paths.get(id(each), recorder.path[-1]))

    def leave(each: torch.nn.Module, _: object, __: object) -> None:
        path = recorder.path.pop()
        if sys.exc_info()[1] is not before and not recorder.stopped:
            recorder.stopped = path

    with ExitStack() as stack:
        stack.enter_context(fake)
        stack.enter_context(repeats.once())
        for handle in (
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave, always_call=True),
        ):
            stack.callback(handle.remove)
        stack.enter_context(catching(module, recorder))
        with recorder, recorder.saving():
            result = module.get_submodule(part)(*args, **kwargs)
            ends = [loss(result)] if loss else _ends(result)
        gradients = [torch.ones_like(end) for end in ends]
        with recorder:
            torch.autograd.backward(ends, gradients)


def _ends(result: Any) -> list[torch.Tensor]:
    """Where the backward pass begins: the loss that a model gives, or all its results."""
    given = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(given, torch.Tensor):
        return [given]
    leaves = result.values() if isinstance(result, Mapping) else trees.tree_leaves(result)
    ends = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    if ends:
        return ends
    said = "no result depends on a parameter that is trained"
    raise InputError([Problem("", "module", said, "a module with parameters that need a gradient")])


def _stopped(error: Exception, path: str, module: torch.nn.Module, name: str) -> Problem:
    """Where and why a capture stopped."""
    own = str(Path(torch.__file__).parent), str(Path(__file__).parent), "<"
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith(own)
    ]
    at = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    inner = dict(module.named_modules()).get(path)
    kind = f" ({type(inner).__name__})" if inner is not None else ""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        lines = [f"{error.func} asks for the values of a tensor, which has none"]
    said = f"the capture stopped in {path or 'the module'}{kind}{at}: {lines[0]}"
    return Problem(name, path, said, "inputs that fit, or code that does not branch on data")


def _capture(
    name: str,
    parameters: Parameters,
    recorder: Recorder,
    repeats: Repeats,
    warnings: Sequence[str],
) -> Capture:
    """Operations by block, and what is outside of all blocks."""
    if recorder.uncounted:
        names = ", ".join(sorted(recorder.uncounted))
        warnings = [*warnings, f"operations are not counted of {names}, only bytes"]
    blocks = []
    rest = list(recorder.operations)
    kept = list(recorder.saved.values())
    for first, alike in repeats.alike.items():
        inside = [each for each in rest if _is_in(each.module, first)]
        saved = [each for each in kept if _is_in(each.module, first)]
        blocks.append(Block(tuple(alike), tuple(inside), tuple(saved)))
        rest = [each for each in rest if not _is_in(each.module, first)]
        kept = [each for each in kept if not _is_in(each.module, first)]
    return Capture(
        name, parameters, tuple(blocks), Block((), tuple(rest), tuple(kept)), tuple(warnings)
    )


def _is_in(module: str, block: str) -> bool:
    return module == block or module.startswith(f"{block}.")
